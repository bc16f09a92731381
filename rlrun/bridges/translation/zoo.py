"""Translation of rl-zoo3 hyperparameter files, which are named by algorithm and have env ids as keys."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from rlrun.bridges.translation.entry import MISFITS, TranslatedEntry, Untranslatable
from rlrun.bridges.translation.foreign_settings import ForeignSettings, default_table, defaults_of, translate_settings
from rlrun.bridges.translation.meanings import Impact, SettingOrigin
from rlrun.bridges.translation.old_envs import present_env
from rlrun.bridges.translation.sb3_settings import CONVERSIONS
from rlrun.engine.messages.explain import shown, unknown_name
from rlrun.engine.messages.foreign_names import other_algorithm
from rlrun.engine.settings.registry import algorithm_class, algorithm_names, corresponding_algorithm

VERSION = (2, 8)
"""Version of Stable-Baselines3 whose defaults are used."""


def zoo_entry(data: Any, env: str) -> str:
    """Key of an env's settings in an rl-zoo3 file: the env's id, else `atari` for Atari games, else `default`.

    Raises:
        Untranslatable: The file is not from rl-zoo3, or has no settings for the env.
    """
    if not isinstance(data, Mapping) or not all(isinstance(entry, Mapping) for entry in data.values()):
        raise Untranslatable((), "is not an rl-zoo3 file: must be a mapping of env ids to settings")
    if env in data:
        return env
    if present_env(env).is_atari and "atari" in data:
        return "atari"
    if "default" in data and not get_close_matches(env, data, n=1, cutoff=0.9):
        return "default"
    raise Untranslatable((), unknown_name(env, data, "has no settings for"))


def translate_zoo_entry(entry: Mapping[str, Any], key: str, algorithm: str, env: str) -> TranslatedEntry:
    """Translates the settings of one env in an rl-zoo3 file.

    Args:
        entry: The settings.
        key: Key of the settings in the file.
        algorithm: Name of the algorithm, given by the file's name.
        env: Id of the env.

    Raises:
        Untranslatable: rlrun does not have the algorithm, or a value is invalid.
    """
    if algorithm == "her":  # HER used to be an algorithm that wrapped another one, `model_class`
        algorithm = str(entry.get("model_class", algorithm))
    ours = algorithm if algorithm in algorithm_names() else corresponding_algorithm(algorithm)
    if not ours or algorithm not in default_table()["sb3"]["2.8"]:
        other = other_algorithm(algorithm.replace("_", ""))
        why = f": {other.advice}" if other else ""
        raise Untranslatable((), f"settings of {algorithm!r} (the file's name) cannot be translated{why}")
    source = SettingOrigin("sb3", VERSION, algorithm)
    result = TranslatedEntry(source)
    model, present = algorithm_class(ours).Config, present_env(env)
    result.put("algorithm", ours, ())
    result.put("env.id", present.id, ())
    if present.wrappers:
        result.put("env.wrappers", list(present.wrappers), ())
    if key != env:
        result.tell((), "env", f"the settings of {key!r}, because there are none for {env}")
    if present.difference:
        result.tell((), "env", f"{env} becomes {present.id}: {present.difference}")
    foreign = ForeignSettings(source, model.has_setting, entry, defaults_of(source), is_atari=present.is_atari)
    try:
        translate_settings(foreign, CONVERSIONS)
    except MISFITS as error:
        raise Untranslatable((), f"a value is not valid in rl-zoo3: {error}") from None
    for path, found in foreign.ours.items():
        result.put(path, found.value, (found.key,) if found.key in entry else ("run",), found.key)
    for key, text, impact in foreign.remarks:
        result.tell((key,) if key in entry else (), key if key in entry else f"{key} (SB3's default)", text, impact)
    if "n_timesteps" not in entry:
        raise Untranslatable((), "has no n_timesteps")
    if not isinstance(entry["n_timesteps"], int | float):
        raise Untranslatable(("n_timesteps",), f"must be a number, not {shown(entry['n_timesteps'])}")
    if "seed" not in entry:
        result.tell(
            (), "seed (rl-zoo3's default)", "rl-zoo3 sets no seed, so each run differs; rlrun uses seed 0", Impact.NONE
        )
    result.leave_out_defaults(model)
    return result
