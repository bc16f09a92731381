"""Translates names of other RL libraries (RLlib, Stable-Baselines3, CleanRL, Tianshou) to rlrun's names.

The table of translations is `foreign_names.yaml` next to this file, which is read only for unknown names. Names in the
table get no "did you mean" suggestion by spelling, which could be wrong.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rlrun.engine.messages.explain import unknown_name

Has = Callable[[str], bool]
"""Predicate: whether a config has a setting with a dotted name."""

TABLE = Path(__file__).with_suffix(".yaml")
"""Path of the table of foreign names."""

_IN_EVERY_CONFIG = ("torch_threads", "num_envs_per_worker")
"""Settings that every algorithm, policy or world config has, but no nested section has."""


@dataclass(frozen=True)
class Counterpart:
    """Setting of rlrun that corresponds to a setting of another library.

    Attributes:
        name: Dotted name of rlrun's setting, within `config` or, if `of_experiment`, within the experiment.
        conversion: Text on how to convert the value; "" if the value is unchanged.
        of_experiment: Whether the setting is a key of the experiment, next to `config`.
        needs: Setting that the config must have for this translation to apply; "" if there is none.
    """

    name: str
    conversion: str = ""
    of_experiment: bool = False
    needs: str = ""


@dataclass(frozen=True)
class Absent:
    """Setting of another library that rlrun does not have.

    Attributes:
        instead: Alternative in a few words; "" without one.
        needs: Setting that the config must have for this entry to apply; "" if there is none.
    """

    instead: str = ""
    needs: str = ""


@dataclass(frozen=True)
class OtherAlgorithm:
    """Algorithm of another library, and the algorithm of rlrun that corresponds to it.

    Attributes:
        advice: Message that gives the name to write instead, or says that rlrun has no such algorithm.
        ours: Name of rlrun's algorithm if it has the same settings; else "".
    """

    advice: str
    ours: str = ""


@cache
def table() -> Mapping[str, Any]:
    """Loads the table that translates other libraries' names to rlrun's; it has a section per kind of name."""
    import yaml

    data: Mapping[str, Any] = yaml.safe_load(TABLE.read_text("utf-8"))
    return data


@cache
def settings() -> Mapping[str, tuple[Counterpart | Absent, ...]]:
    """Returns rlrun's counterparts of other libraries' settings, by the setting's name in the other library.

    If a setting has several counterparts, the first one that exists in the config applies.
    """
    return {
        name: tuple(map(_meaning, written if isinstance(written, list) else [written]))
        for name, written in table()["settings"].items()
    }


def counterpart_message(name: str, configs: Sequence[Has], known: Iterable[str], path: str = "") -> str:
    """Returns the error message that names rlrun's counterpart of another library's setting; "" if it is unknown.

    Args:
        name: Name of the setting in the other library, possibly misspelled.
        configs: For each config class that may be meant (several if the algorithm is unknown), a function that returns
            whether the class has a given setting.
        known: Names that are valid where the unknown one was found; the user may have meant one of them.
        path: Prefix of the counterpart's name in the message, like "config"; "" if the key is in the config itself.
    """
    if answer := _answer(name, configs, path):
        return f"unknown setting {name!r}; {answer}"
    ours = set(known)
    answered = [foreign for foreign in settings().keys() - ours if _answer(foreign, configs, path)]
    near = difflib.get_close_matches(name, {*answered, *ours}, n=1, cutoff=0.9)
    if not near or near[0] not in answered:
        return ""
    answer = _answer(near[0], configs, path)
    return f"unknown key {name!r}; did you mean {near[0]!r}? {answer[0].upper()}{answer[1:]}"


def setting_for(name: str, has: Has) -> Counterpart | None:
    """Returns the setting of rlrun that corresponds to another library's setting; None if there is none.

    Args:
        name: Name of the setting in the other library.
        has: Function that returns whether the config has a setting with a given name.
    """
    for ours in settings().get(name, ()):
        if isinstance(ours, Absent):
            continue
        there = any(map(has, _IN_EVERY_CONFIG)) if ours.of_experiment else has(ours.name)
        if there and _is_met(ours.needs, has):
            return ours
    return None


def entry_key_for(name: str) -> str:
    """Returns the dotted experiment key that takes the same values as another library's setting; "" if there is none.

    Args:
        name: Name of the setting in the other library.
    """
    found = (ours for ours in settings().get(name, ()) if isinstance(ours, Counterpart) and ours.of_experiment)
    return next((ours.name for ours in found if not ours.conversion), "")


def is_foreign(name: str) -> bool:
    """Whether a name is known as a setting of another RL library."""
    return name in settings()


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Returns the error message for an unknown key of a config, naming the most similar valid key or all valid keys.

    If the key is a setting of another library, the message lists all valid keys instead of a similar one.

    Examples:
        >>> unknown_key("lrr", ["lr", "gamma"])
        "unknown key 'lrr'; did you mean 'lr'?"
        >>> unknown_key("n_envs", ["env", "config"])
        "unknown key 'n_envs'; must be one of: config, env"
    """
    return unknown_name(key, allowed, "unknown key", guess=not is_foreign(key))


def other_algorithm(name: str) -> OtherAlgorithm | None:
    """Returns rlrun's counterpart of another library's algorithm; None if the algorithm is unknown.

    Args:
        name: Name of the algorithm in lower case, without hyphens and underscores.
    """
    found = table()["algorithms"].get(name)
    return None if found is None else OtherAlgorithm(found["advice"], found.get("is", ""))


def other_metric(name: str) -> str:
    """Returns rlrun's counterpart of another library's metric; "" if unknown.

    A group prefix of the metric's name, such as `rollout/`, is ignored.
    """
    return str(table()["metrics"].get(name.rpartition("/")[2], ""))


def other_command(name: str) -> str:
    """Returns advice on rlrun's counterpart of another library's command; "" if unknown."""
    return str(table()["commands"].get(name, ""))


def moved_module(module: str) -> str:
    """Returns the current path of an env module that has moved to another package; "" if it has not moved.

    Examples:
        >>> moved_module("pettingzoo.mpe.simple_spread_v3"), moved_module("mpe2.simple_spread_v3")
        ('mpe2.simple_spread_v3', '')
    """
    moves = table()["moved_modules"].items()
    return next((new + module.removeprefix(old) for old, new in moves if f"{module}.".startswith(f"{old}.")), "")


def is_world_module(env_id: str) -> bool:
    """Whether an env id is a module path in a known Python package of multi-agent envs.

    Examples:
        >>> is_world_module("mpe2.simple_spread_v3"), is_world_module("CartPole-v1")
        (True, False)
    """
    return re.fullmatch(rf"({'|'.join(table()['world_packages'])})(\.\w+)+", env_id) is not None


def env_packages() -> frozenset[str]:
    """Returns the names of all known Python packages that register envs when imported."""
    return frozenset(table()["env_packages"].values())


def env_package(env_id: str) -> str:
    """Returns the name of the Python package that registers an env id when imported; "" if unknown.

    Examples:
        >>> env_package("MiniGrid-Empty-5x5-v0"), env_package("CartPole-v1")
        ('minigrid', '')
    """
    packages = table()["env_packages"].items()
    return next((package for beginning, package in packages if env_id.startswith(beginning)), "")


def _meaning(written: str | Mapping[str, str]) -> Counterpart | Absent:
    if isinstance(written, str):
        return Counterpart(written)
    if "none" in written:
        return Absent(written["none"], written.get("needs", ""))
    name = written.get("experiment") or written["name"]
    return Counterpart(name, written.get("conversion", ""), "experiment" in written, written.get("needs", ""))


def _answer(name: str, configs: Sequence[Has], path: str) -> str:
    found = list(dict.fromkeys(ours for has in configs if (ours := setting_for(name, has))))
    places = list(dict.fromkeys(_placed(ours, path) for ours in found))
    if len(places) > 1:
        return f"in rlrun this is {' or '.join(places)}, depending on the algorithm"
    if places:
        return f"in rlrun this is {places[0]}" + (f" ({found[0].conversion})" if found[0].conversion else "")
    absences = [meaning for meaning in settings().get(name, ()) if isinstance(meaning, Absent)]
    absent = next((why for why in absences for has in configs if _is_met(why.needs, has)), None)
    if absent is None:
        return ""
    return "rlrun has no counterpart" + (f": {absent.instead}" if absent.instead else "")


def _is_met(needs: str, has: Has) -> bool:
    return not needs or has(needs)


def _placed(ours: Counterpart, path: str) -> str:
    if ours.of_experiment:
        return f"`{ours.name}`, next to `config`"
    return f"`{path}.{ours.name}`" if path else f"'{ours.name}'"
