"""Translation of the policies in multi-agent RLlib experiments: their own settings, and the mapping of agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rlrun.bridges.translation.entry import RUN, TranslatedEntry, Untranslatable
from rlrun.bridges.translation.foreign_settings import ForeignSettings
from rlrun.bridges.translation.meanings import Impact, Remark
from rlrun.bridges.translation.rllib_settings.units import TEAMS
from rlrun.engine.algorithm_config import SAMPLING
from rlrun.engine.messages.explain import Location, shown

LOCAL = ("use_local_critic", False)
"""Setting of MADDPG's policies that has the fixed value False in rlrun, and is skipped."""

UNIT = "count_steps_by"
"""Setting of RLlib's `multiagent`: the unit of `train_batch_size`, `env_steps` (the default) or `agent_steps`."""


class OwnSettings(NamedTuple):
    """Settings of a single policy in an RLlib experiment, which take precedence over the experiment's.

    Attributes:
        settings: The settings, in the form of the experiment's `config`.
        location: Location of the settings in the experiment.
    """

    settings: Mapping[str, Any]
    location: Location

    def place_of(self, location: Location) -> Location:
        """Location of a key: below the policy if the policy sets it, otherwise unchanged."""
        section: Any = self.settings
        for step in location[1:]:
            if not isinstance(section, Mapping) or step not in section:
                return location
            section = section[step]
        return (*self.location, *location[1:]) if location[:1] == ("config",) else location


def own_settings(config: Mapping[str, Any]) -> dict[str, OwnSettings]:
    """Finds the settings of each policy in an experiment's `config`; they are empty for most policies.

    Raises:
        Untranslatable: The settings of a policy are not a mapping.
    """
    many = config.get("multiagent") or {}
    key = "policies" if "policies" in many else "policy_graphs"
    policies = many.get(key) or {}
    written: Mapping[str, Any] = dict.fromkeys(policies) if isinstance(policies, list) else policies
    found = {}
    for policy, own in written.items():
        is_list = isinstance(own, list) and len(own) == 4  # policy class, observation space, action space, settings
        location: Location = ("config", "multiagent", key, policy, 3 if is_list else "config")
        settings = (own[3] if is_list else (own or {}).get("config")) or {}
        if not isinstance(settings, Mapping):
            raise Untranslatable(location, f"must be a mapping, not {shown(settings)}")
        found[str(policy)] = OwnSettings(settings, location)
    return found


def entry_of_policy(entry: Mapping[str, Any], own: OwnSettings) -> dict[str, Any]:
    """Returns the experiment as RLlib showed it to a single policy, whose settings are merged over `config`."""
    config = entry["config"]
    many = {**config["multiagent"], "policies": [*own_settings(config)]}
    return {**entry, "config": {**_merged(config, own.settings), "multiagent": many}}


def _merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(settings)
    for key, value in changes.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def with_policies(
    entry: TranslatedEntry, by_policy: Mapping[str, tuple[OwnSettings, TranslatedEntry]]
) -> TranslatedEntry:
    """Moves the algorithm of a multi-agent spec entry, and all its settings except sampling settings, into each policy.

    Single-agent entries are unchanged.

    Args:
        entry: Translation of the experiment.
        by_policy: Settings of the policies that have any, and the translations of their experiments.
    """
    if not entry.policies:
        return entry
    result = TranslatedEntry(entry.source, remarks=[*entry.remarks])
    for path in filter(_is_shared, entry.values):
        result.put(path, entry.values[path], *entry.origins[path])
    for policy in entry.policies:
        own, translated = by_policy.get(policy, (OwnSettings({}, ()), entry))
        for path, value in translated.values.items():
            origin = translated.origins[path]
            place = own.place_of(origin.location)
            if not _is_shared(path):
                result.put(f"policies.{policy}.{path}", value, place, origin.key)
            elif place != origin.location and value != entry.values.get(path):
                text = f"all policies share {path} in rlrun"
                result.tell(place, f"multiagent.policies.{policy}.{place[-1]}", text, Impact.LEARNING)
        moved = [Remark(own.place_of(one.location), one.key, one.text, one.impact) for one in translated.remarks]
        result.remarks += [remark for remark in moved if remark not in result.remarks]
    return result


def _is_shared(path: str) -> bool:
    """Whether all policies share the value with a dotted path."""
    first, _, rest = path.partition(".")
    return first not in ("algorithm", "config") or (first == "config" and rest.partition(".")[0] in SAMPLING)


def translate_policies(result: TranslatedEntry, config: Mapping[str, Any], foreign: ForeignSettings) -> None:
    """Translates the names of the policies of a world, and the mapping of agents; a team has one for all agents."""
    many, place = config.get("multiagent") or {}, ("config", "multiagent")
    found = own_settings(config)
    if foreign.algorithm not in TEAMS:
        result.policies += found
        _translate_mapping(result, many, place)
        if UNIT in many or not foreign.has("replay"):
            _tell_unit_of_batches(result, many, place)
        return
    for policy, own in found.items():
        if {key: value for key, value in own.settings.items() if key != "agent_id" and (key, value) != LOCAL}:
            text = "the policies of a team cannot have settings of their own"
            result.tell(place, f"multiagent.policies.{policy}", text, Impact.LEARNING)
    if found:
        result.tell(place, "multiagent.policies", "rlrun uses one policy for all agents of a team", Impact.NONE)


def _translate_mapping(result: TranslatedEntry, many: Mapping[str, Any], place: Location) -> None:
    """Translates the mapping of agents to policies, and the list of policies that learn."""
    mapping = many.get("policy_mapping_fn")
    function = mapping.get("type") if isinstance(mapping, Mapping) else mapping
    module, _, made = str(function).rpartition(".")
    if function and made.isidentifier() and module.replace(".", "").isidentifier():
        result.put("mapping", f"{module}:{made}", place, "policy_mapping_fn")
        result.tell(place, "policy_mapping_fn", "rlrun calls the function with the agent and the episode number")
    elif function:
        text = (
            f"{shown(function)} is not a function's name, package.module.function; in a spec, `mapping` can also map "
            "patterns of agent ids to policies"
        )
        result.tell(place, "multiagent.policy_mapping_fn", text, Impact.LEARNING)
    if many.get("policies_to_train"):
        result.put("train", many["policies_to_train"], place, "policies_to_train")
    for key in sorted(many.keys() - {"policies", "policy_graphs", "policy_mapping_fn", "policies_to_train", UNIT}):
        result.tell(place, f"multiagent.{key}", "rlrun has no counterpart", Impact.SLIGHT)


def _tell_unit_of_batches(result: TranslatedEntry, many: Mapping[str, Any], place: Location) -> None:
    """Remarks that RLlib and rlrun count different steps for `train_batch_size`."""
    counted, factor = "the steps of the world", "the number of the policy's agents"
    if many.get(UNIT) == "agent_steps":
        counted, factor = "the steps of all agents", "the policy's share of the agents"
    text = (
        f"RLlib counted {counted} in a batch, and rlrun counts the steps of the policy's agents: for batches of the "
        f"same length, multiply train_batch_size by {factor}"
    )
    key = f"multiagent.{UNIT}"
    result.tell(place if many else RUN, key if UNIT in many else f"{key} (RLlib's default)", text)
