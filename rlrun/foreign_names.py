"""Translates names of other libraries (RLlib, Stable-Baselines3, CleanRL, Tianshou) to those of rlrun.

The names are data, in `foreign_names.yaml` next to this file, which is read only when a name is unknown. For a name
that is in it no similar name is suggested: no answer is better than a wrong one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rlrun.explain import unknown_name

Has = Callable[[str], bool]
"""A predicate: whether a config has a setting of a dotted name."""

TABLE = Path(__file__).with_suffix(".yaml")
"""The file with all names."""

_IN_EVERY_CONFIG = ("torch_threads", "num_envs_per_worker")
"""Settings of which each algorithm, policy or world has one, while no section of a config has any."""


@dataclass(frozen=True)
class Ours:
    """A setting of rlrun that corresponds to one of another library.

    Attributes:
        name: Its dotted name in `config`; with `of_experiment` its dotted name in the experiment.
        conversion: How its value follows from the other library's, "" if it is the same.
        of_experiment: Whether it is a key of the experiment, next to `config`.
        needs: A setting that the config must have for this to apply; "" for none.
    """

    name: str
    conversion: str = ""
    of_experiment: bool = False
    needs: str = ""


@dataclass(frozen=True)
class Absent:
    """A setting of another library that rlrun has no counterpart of.

    Attributes:
        instead: What to use instead, in a few words; "" for nothing.
        needs: A setting that the config must have for this to apply; "" for none.
    """

    instead: str = ""
    needs: str = ""


@dataclass(frozen=True)
class OtherAlgorithm:
    """An algorithm of another library.

    Attributes:
        advice: What to write instead, or that rlrun has none.
        ours: Name of the algorithm of rlrun whose settings it has, "" if there is none.
    """

    advice: str
    ours: str = ""


@cache
def table() -> Mapping[str, Any]:
    """Reads the file: kind of name -> the other library's name -> its counterpart here."""
    import yaml

    data: Mapping[str, Any] = yaml.safe_load(TABLE.read_text("utf-8"))
    return data


@cache
def settings() -> Mapping[str, tuple[Ours | Absent, ...]]:
    """Returns the counterparts of each setting of other libraries; the first one that a config has applies."""
    return {
        name: tuple(map(_meaning, written if isinstance(written, list) else [written]))
        for name, written in table()["settings"].items()
    }


def ours_for(name: str, configs: Sequence[Has], known: Iterable[str], path: str = "") -> str:
    """Returns a message with the counterpart of another library's setting, even a misspelt one; "" if unknown.

    Args:
        name: Its name there, or one that is nearer to it than to any name of rlrun.
        configs: The config; where the algorithm is unknown, that of each algorithm.
        known: The names that are allowed in its place.
        path: Path of the config that the message names; "" if the wrong key is in the config itself.
    """
    if answer := _answer(name, configs, path):
        return answer
    ours = set(known)
    answered = [foreign for foreign in settings().keys() - ours if _answer(foreign, configs, path)]
    near = difflib.get_close_matches(name, {*answered, *ours}, n=1, cutoff=0.9)
    if not near or near[0] not in answered:
        return ""
    return f"unknown key {name!r}; {_answer(near[0], configs, path)}"


def setting_for(name: str, has: Has) -> Ours | None:
    """Returns the counterpart of another library's setting in a config or its experiment, None if there is none.

    Args:
        name: Its name there.
        has: The config.
    """
    for ours in settings().get(name, ()):
        if isinstance(ours, Absent):
            continue
        there = any(map(has, _IN_EVERY_CONFIG)) if ours.of_experiment else has(ours.name)
        if there and _is_met(ours.needs, has):
            return ours
    return None


def entry_key_for(name: str) -> str:
    """Returns the dotted key of an experiment that takes another library's value unchanged, "" if none does.

    Args:
        name: Its name there.
    """
    found = (ours for ours in settings().get(name, ()) if isinstance(ours, Ours) and ours.of_experiment)
    return next((ours.name for ours in found if not ours.conversion), "")


def is_foreign(name: str) -> bool:
    """Whether a name is known to be a setting of another library."""
    return name in settings()


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Returns the message about an unknown key of a config; for a known key of another library none is suggested.

    Examples:
        >>> unknown_key("lrr", ["lr", "gamma"])
        "unknown key 'lrr'; did you mean 'lr'?"
        >>> unknown_key("n_envs", ["env", "config"])
        "unknown key 'n_envs'; there are: config, env"
    """
    return unknown_name(key, allowed, "unknown key", guess=not is_foreign(key))


def other_algorithm(name: str) -> OtherAlgorithm | None:
    """Returns the entry for an algorithm of another library, None if there is none.

    Args:
        name: Its name in small letters, without hyphens and underscores.
    """
    found = table()["algorithms"].get(name)
    return None if found is None else OtherAlgorithm(found["advice"], found.get("is", ""))


def other_metric(name: str) -> str:
    """Returns the name here of a metric of another library, whose groups (`rollout/...`) are ignored; "" if unknown."""
    return str(table()["metrics"].get(name.rpartition("/")[2], ""))


def other_command(name: str) -> str:
    """Returns advice on what to type instead of a command of another library, "" if it is unknown."""
    return str(table()["commands"].get(name, ""))


def moved_module(module: str) -> str:
    """Returns the present name of a module of envs that another package has taken over, "" if none has.

    Examples:
        >>> moved_module("pettingzoo.mpe.simple_spread_v3"), moved_module("mpe2.simple_spread_v3")
        ('mpe2.simple_spread_v3', '')
    """
    moves = table()["moved_modules"].items()
    return next((new + module.removeprefix(old) for old, new in moves if f"{module}.".startswith(f"{old}.")), "")


def is_world_module(env_id: str) -> bool:
    """Whether an env's id is the name of a module in a package of multi-agent worlds.

    Examples:
        >>> is_world_module("mpe2.simple_spread_v3"), is_world_module("CartPole-v1")
        (True, False)
    """
    return re.fullmatch(rf"({'|'.join(table()['world_packages'])})(\.\w+)+", env_id) is not None


def env_packages() -> frozenset[str]:
    """Returns the packages that register envs when they are imported, as far as known."""
    return frozenset(table()["env_packages"].values())


def env_package(env_id: str) -> str:
    """Returns the package that registers an env when it is imported, "" if none is known.

    Examples:
        >>> env_package("MiniGrid-Empty-5x5-v0"), env_package("CartPole-v1")
        ('minigrid', '')
    """
    packages = table()["env_packages"].items()
    return next((package for beginning, package in packages if env_id.startswith(beginning)), "")


def _meaning(written: str | Mapping[str, str]) -> Ours | Absent:
    if isinstance(written, str):
        return Ours(written)
    if "none" in written:
        return Absent(written["none"], written.get("needs", ""))
    name = written.get("experiment") or written["name"]
    return Ours(name, written.get("conversion", ""), "experiment" in written, written.get("needs", ""))


def _answer(name: str, configs: Sequence[Has], path: str) -> str:
    found = list(dict.fromkeys(ours for has in configs if (ours := setting_for(name, has))))
    places = list(dict.fromkeys(_placed(ours, path) for ours in found))
    if len(places) > 1:
        return f"{name!r} is {' or '.join(places)} here, by algorithm"
    if places:
        return f"{name!r} is {places[0]} here" + (f": {found[0].conversion}" if found[0].conversion else "")
    absences = [meaning for meaning in settings().get(name, ()) if isinstance(meaning, Absent)]
    absent = next((why for why in absences for has in configs if _is_met(why.needs, has)), None)
    if absent is None:
        return ""
    return f"there is no {name!r} here" + (f": {absent.instead}" if absent.instead else "")


def _is_met(needs: str, has: Has) -> bool:
    return not needs or has(needs)


def _placed(ours: Ours, path: str) -> str:
    if ours.of_experiment:
        return f"`{ours.name}`, next to config,"
    return f"`{path}.{ours.name}`" if path else f"'{ours.name}'"
