"""Keys of a spec entry, and the section that each belongs to, for messages about misplaced keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from rlrun.engine.algorithm_config import SAMPLING, AlgorithmConfig
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.explain import Location, Mistake, dotted, is_model
from rlrun.engine.messages.foreign_names import counterpart_message, setting_for, unknown_key
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.training.assemble.policy_spec import PolicySpec
from rlrun.experiments.spec.algorithm_checks import installed_algorithms
from rlrun.experiments.spec.experiment import RunSettings
from rlrun.experiments.spec.machines import MACHINE_KEYS
from rlrun.experiments.spec.seats import SEAT_KEYS
from rlrun.experiments.spec.stages import STAGES

LEARNING_KEYS = ("algorithm", "env", "policies", "mapping", "train", *SEAT_KEYS, "config")
"""Top-level keys of a spec entry that define algorithms, policies and env."""
ENTRY_KEYS = (*LEARNING_KEYS, *RunSettings.model_fields, *MACHINE_KEYS, STAGES)
"""All keys of an entry in a spec file."""
POLICY_KEYS = tuple(PolicySpec.model_fields)
"""All keys of a policy in a multi-agent entry."""

MANY_OTHERS = 3
"""Maximum number of algorithms that an error message lists for a misplaced setting."""

SHARED = "the policies of a world share envs and workers; set it under the experiment's `config`"
"""Reason, for messages, why sampling settings cannot be set for a single policy."""


def unknown_entry_keys(data: Mapping[str, Any], models: Mapping[str, Sequence[type[ConfigModel]]]) -> list[Mistake]:
    """Reports unknown keys of a spec entry as mistakes that name the section to which a key belongs, if any.

    Args:
        data: The entry as written.
        models: Config classes by path, with several candidates if the algorithm is unknown.
    """
    of_policies = () if "policies" in data else ("mapping", "train", *SEAT_KEYS)
    of_stages = () if "begins" in data else ("begins", STAGES)
    known = [key for key in ENTRY_KEYS if key not in (*of_policies, *of_stages)]
    mistakes = []
    for key in data:
        if key in ENTRY_KEYS:
            continue
        places = (_place_of(str(key), of_path, path) for path, of_path in models.items())
        in_env = _holder_of(str(key), EnvConfig, "env")
        message = next(filter(None, places), "") or (f"'{key}' belongs under {in_env}" if in_env else "")
        mistakes.append(Mistake((key,), message or unknown_key(str(key), known), at_key=True))
    return mistakes


def unknown_policy_keys(
    policy: Mapping[str, Any], models: Sequence[type[ConfigModel]], place: Location
) -> list[Mistake]:
    """Reports each unknown key of a policy in a multi-agent entry as a mistake.

    Args:
        policy: The policy as written.
        models: Config class of the policy's algorithm, or several candidates if the algorithm is unknown.
        place: Location of the policy in the entry.
    """
    mistakes = []
    for key in policy:
        if key in POLICY_KEYS:
            continue
        if key in SAMPLING:
            message = f"'{key}' belongs under the experiment's `config`, because {SHARED.partition(';')[0]}"
        else:
            message = _place_of(key, models, f"{dotted(place)}.config") or unknown_key(key, POLICY_KEYS)
        mistakes.append(Mistake((*place, key), message, at_key=True))
    return mistakes


def in_policies(mistake: Mistake, models: Mapping[str, type[AlgorithmConfig]]) -> Mistake:
    """Extends the message about a key that is unknown in the shared `config`: names the policies that have the key.

    Args:
        mistake: The mistake.
        models: Config class of each policy, by name.
    """
    key = mistake.location[-1]
    places = [_holder_of(str(key), model, f"policies.{name}.config") for name, model in models.items()]
    if mistake.at_key and len(mistake.location) == 2 and any(places):
        whose = " or ".join(place for place in places if place)
        return replace(mistake, message=f"'{key}' is a setting of a policy; it belongs under {whose}")
    if mistake.at_key and key in ENTRY_KEYS:
        return replace(mistake, message=f"'{key}' belongs next to `config`, not inside it")
    return mistake


def with_key_location(
    mistake: Mistake, name: str, models: Sequence[type[AlgorithmConfig]], path: str = "config"
) -> Mistake:
    """Adds the algorithm's name, or the correct path of the key, to the message about an unknown key.

    Args:
        mistake: The mistake.
        name: Name of the algorithm; "" if unknown.
        models: The config class, or several candidates if the algorithm is unknown.
        path: Path of the config section in the entry.
    """
    key, message = mistake.location[-1], mistake.message
    if not mistake.at_key or not isinstance(key, str):
        return mistake
    in_section = dotted(mistake.location[:-1]) != path
    if (name or in_section) and not message.startswith("unknown key"):
        return replace(mistake, message=message.replace(" set here", f" set for {name}", 1) if name else message)
    if key in ENTRY_KEYS:
        return replace(mistake, message=f"'{key}' belongs next to `config`, not inside it")
    if answer := _foreign(key, models, path if in_section else ""):
        return replace(mistake, message=answer)
    if holder := _first_holder(key, models, path):
        return replace(mistake, message=f"'{key}' belongs under {holder}")
    if in_section:
        return mistake
    if not name:
        return replace(mistake, message=unknown_key(key, _names(models)))
    if others := [other for other, found in installed_algorithms().items() if key in found.Config.model_fields]:
        whose = ", ".join(others[:MANY_OTHERS]) + (" and others" if len(others) > MANY_OTHERS else "")
        return replace(mistake, message=f"{name} has no setting '{key}'; it is a setting of {whose}")
    return mistake if ";" in message else replace(mistake, message=f"{message}; see `rlrun config {name}`")


def _holder_of(key: str, model: type[BaseModel], path: str) -> str:
    """Path of the nested config that has a field with the given name; "" if none below the model has one."""
    if key in model.model_fields:
        return path
    for name, field_info in model.model_fields.items():
        below = field_info.annotation
        holder = _holder_of(key, below, f"{path}.{name}") if is_model(below) else ""
        if holder:
            return holder
    return ""


def _place_of(key: str, models: Sequence[type[ConfigModel]], path: str) -> str:
    """Message with the correct path of a misplaced key, named as in rlrun or another library; "" for unknown keys.

    Args:
        key: The key.
        models: The config class that may have the key; several if the algorithm is not known.
        path: The config's path.
    """
    if any(key in model.model_fields for model in models):
        return f"'{key}' belongs under {path}"
    if answer := _foreign(key, models, path):
        return answer
    holder = _first_holder(key, models, path)
    return f"'{key}' belongs under {holder}" if holder else ""


def paths_of(key: str) -> list[str]:
    """Lists the paths that a setting may have in a spec entry, such as `config.lr` for SB3's "learning_rate".

    Args:
        key: Name of the setting in rlrun or in another library.
    """
    if key in ("algorithm", "env", *RunSettings.model_fields):
        return [key]
    configs = [algorithm.Config for algorithm in installed_algorithms().values()]
    if any(key in config.model_fields for config in configs):
        return [f"config.{key}"]
    found = dict.fromkeys(ours for config in configs if (ours := setting_for(key, config.has_setting)))
    return list(dict.fromkeys(ours.name if ours.of_experiment else f"config.{ours.name}" for ours in found))


def _foreign(key: str, models: Sequence[type[ConfigModel]], path: str) -> str:
    return counterpart_message(key, [model.has_setting for model in models], {*ENTRY_KEYS, *_names(models)}, path)


def _first_holder(key: str, models: Sequence[type[ConfigModel]], path: str) -> str:
    return next(filter(None, (_holder_of(key, model, path) for model in models)), "")


def _names(models: Sequence[type[ConfigModel]]) -> list[str]:
    return list(dict.fromkeys(name for model in models for name in model.model_fields))
