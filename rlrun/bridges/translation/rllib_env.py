"""Translation of the envs and worlds in RLlib experiments, with arguments and step limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.bridges.translation.entry import TranslatedEntry, Untranslatable
from rlrun.bridges.translation.foreign_settings import ForeignSettings
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.old_envs import PresentEnv, has_continuous_actions, present_env
from rlrun.bridges.translation.rllib_settings.units import OFFLINE, TEAMS
from rlrun.engine.messages.explain import Location, shown

LOCAL = ("use_local_critic", False)
"""Setting of MADDPG's policies that has the fixed value False in rlrun, and is skipped."""


def translate_env(result: TranslatedEntry, entry: Mapping[str, Any], foreign: ForeignSettings) -> None:
    """Translates the env or world of an experiment.

    Raises:
        Untranslatable: The env does not exist in rlrun, or the experiment has none.
    """
    config = entry.get("config") or {}
    place: Location = ("env",) if "env" in entry else ("config", "env")
    name = entry.get("env", config.get("env"))
    if name is None and foreign.algorithm in OFFLINE:
        return  # the spaces are those of the data
    if name is None:
        raise Untranslatable((), "has no env: RLlib took it from code; `rlrun translate` takes yours by --env")
    if not isinstance(name, str):
        raise Untranslatable(place, f"must be the name of an env, not {shown(name)}")
    present = present_env(name)
    if name.startswith("ray.rllib.") and present.id == name:
        raise Untranslatable(
            place, f"{name} is an env of RLlib's own, which is not here; name one of yours as package.module:Class"
        )
    foreign.is_atari, foreign.is_continuous = present.is_atari, has_continuous_actions(present.id)
    foreign.horizon = config.get("horizon") or present.max_episode_steps or present.episode_steps
    _translate_env_id(result, name, present, place, config, foreign)
    if present.difference:
        result.tell(place, "env", f"{name} is {present.id} here: {present.difference}")
    _translate_env_arguments(result, present, place, config)
    _translate_limit(result, present, place, config)


def _translate_env_id(
    result: TranslatedEntry,
    name: str,
    present: PresentEnv,
    place: Location,
    config: Mapping[str, Any],
    foreign: ForeignSettings,
) -> None:
    """Translates the name of an env, a class or a world."""
    module, _, made = name.rpartition(".")
    found = f"{module}:{made}" if present.id == name and module and ":" not in name else present.id
    is_unknown = present.id == name and ":" not in name and not module
    if foreign.algorithm == "AlphaZero":
        result.put("env.world", "rlrun.plugin:SearchedEnv", place)
        result.put("env.kwargs.env", found, place)
        result.tell(place, "env", "the env needs get_state, set_state and state_of here (docs/algorithms/alphazero.md)")
    elif present.is_world or "multiagent" in config or foreign.algorithm in TEAMS:
        if is_unknown:
            raise Untranslatable(
                place, f"{name!r} has one agent or was registered by code; name the world as module:factory"
            )
        result.put("env.world", found, place)
        if not present.is_world:
            result.tell(place, "env", "the class must be a World or of PettingZoo here (docs/multi_agent.md)")
        _translate_policies(result, config, foreign)
    elif is_unknown and "-v" not in name:
        raise Untranslatable(
            place,
            f"{name!r} was registered by code; name the env as package.module:Class, or `rlrun translate` by --env",
        )
    else:
        result.put("env.id", found, place)


def _translate_env_arguments(
    result: TranslatedEntry, present: PresentEnv, place: Location, config: Mapping[str, Any]
) -> None:
    """Translates the arguments of an env.

    RLlib's own env classes take a dict of arguments, whose names differ from those in rlrun.
    """
    of_config: Location = ("config", "env_config")
    kwargs = dict(config.get("env_config") or {})
    if present.is_atari:
        result.put("env.preset", "atari", place)
        kwargs.pop("frameskip", None)  # RLlib's wrappers hold each action for 4 frames
    if present.argument_names is not None:
        kwargs = dict(next((own for own in kwargs.values() if isinstance(own, Mapping)), kwargs))
        for key in kwargs.keys() - present.argument_names.keys():
            result.tell(of_config, f"env_config.{key}", "the env has no such argument here", Impact.SLIGHT)
        names = {key: own for key, own in present.argument_names.items() if own and key in kwargs}
        kwargs = {own: kwargs[key] for key, own in names.items()}
    for key, value in {**present.kwargs, **kwargs}.items():
        result.put(f"env.kwargs.{key}", value, of_config if key in kwargs else place)
    if present.wrappers:
        result.put("env.wrappers", list(present.wrappers), place)


def _translate_limit(result: TranslatedEntry, present: PresentEnv, place: Location, config: Mapping[str, Any]) -> None:
    """Translates the step limit of episodes."""
    limit = config.get("horizon")
    if limit is not None:
        result.put("env.max_episode_steps", limit, ("config", "horizon"), "horizon")
        if not config.get("no_done_at_end"):
            text = "an episode that ends there is cut off and bootstraps here; there it was terminated"
            result.tell(("config", "horizon"), "horizon", text)
    elif present.max_episode_steps is not None:
        result.put("env.max_episode_steps", present.max_episode_steps, place)
    for key in ("soft_horizon", "no_done_at_end"):
        if key in config:
            is_soft = key == "soft_horizon" and config[key]
            text = "episodes are reset at their limit here" if is_soft else "episodes are cut off at their limit here"
            result.tell(("config", key), key, text, Impact.SLIGHT if is_soft else Impact.NONE)


def _translate_policies(result: TranslatedEntry, config: Mapping[str, Any], foreign: ForeignSettings) -> None:
    """Translates the policies of a world; a team has one for all of its agents."""
    many, place = config.get("multiagent") or {}, ("config", "multiagent")
    policies = many.get("policies", many.get("policy_graphs")) or {}
    written = {str(policy): None for policy in policies} if isinstance(policies, list) else policies
    is_team = foreign.algorithm in TEAMS
    for policy, own in written.items():
        if _changes(own, is_team=is_team):
            text = "settings of one policy are not translated"
            result.tell(place, f"multiagent.policies.{policy}", text, Impact.LEARNING)
    if not is_team:
        result.policies += map(str, written)
        _translate_mapping(result, many, place)
    elif written:
        result.tell(place, "multiagent.policies", "one policy acts for all agents of a team here", Impact.NONE)


def _changes(own: Any, *, is_team: bool) -> dict[str, Any]:
    """Settings of a policy that differ from those of the experiment, except those that make it a member of a team."""
    changes = own[3] if isinstance(own, list) and len(own) == 4 else (own or {}).get("config") if own else {}
    if is_team:
        return {key: value for key, value in (changes or {}).items() if key != "agent_id" and (key, value) != LOCAL}
    return changes or {}


def _translate_mapping(result: TranslatedEntry, many: Mapping[str, Any], place: Location) -> None:
    """Translates the mapping of agents to policies, and the list of policies that learn."""
    mapping = many.get("policy_mapping_fn")
    function = mapping.get("type") if isinstance(mapping, Mapping) else mapping
    if function:
        module, _, made = str(function).rpartition(".")
        result.put("mapping", f"{module}:{made}", place, "policy_mapping_fn")
        result.tell(place, "policy_mapping_fn", "the function is called with the agent and the episode's number here")
    if many.get("policies_to_train"):
        result.put("train", many["policies_to_train"], place, "policies_to_train")
    for key in sorted(many.keys() - {"policies", "policy_graphs", "policy_mapping_fn", "policies_to_train"}):
        result.tell(place, f"multiagent.{key}", "there is nothing like it here", Impact.SLIGHT)
