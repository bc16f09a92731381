"""Names of other libraries (RLlib, Stable-Baselines3, CleanRL, Tianshou), answered with what there is here.

The names are data, in `foreign_names.yaml` beside this file, which is read when a name is unknown and never before. No
name is guessed for one that is known from there: better no answer than a wrong one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rlrun.explain import unknown_name

Has = Callable[[str], bool]
"""Whether a config has a setting of a dotted name."""

TABLE = Path(__file__).with_suffix(".yaml")
"""The file with all names."""

_IN_EVERY_CONFIG = ("torch_threads", "num_envs_per_worker")
"""Settings of which each algorithm, policy and world has one, and no section of them."""


@dataclass(frozen=True)
class Ours:
    """A setting of ours.

    Attributes:
        name: Its dotted name in `config`; with `beside_config` its name beside that.
        conversion: How its value follows from the other library's, "" if it is the same.
        beside_config: Whether it is a setting of the experiment, not of `config`.
        needs: A setting that the config must have for this to be meant; "" for none.
    """

    name: str
    conversion: str = ""
    beside_config: bool = False
    needs: str = ""


@dataclass(frozen=True)
class Absent:
    """Why there is nothing to set.

    Attributes:
        instead: What there is instead, in a few words; "" for nothing.
        needs: A setting that the config must have for this to be true; "" for none.
    """

    instead: str = ""
    needs: str = ""


@dataclass(frozen=True)
class OtherAlgorithm:
    """An algorithm of another library.

    Attributes:
        told: What to write instead, or that there is none.
        ours: Name of the algorithm here whose settings it has, "" if there is none.
    """

    told: str
    ours: str = ""


@cache
def table() -> Mapping[str, Any]:
    """Reads the file: by kind of name, what there is here by the name elsewhere."""
    import yaml

    data: Mapping[str, Any] = yaml.safe_load(TABLE.read_text("utf-8"))
    return data


@cache
def settings() -> Mapping[str, tuple[Ours | Absent, ...]]:
    """Returns the meanings of each setting of other libraries, the first that a config has being meant."""
    return {
        name: tuple(map(_meaning, written if isinstance(written, list) else [written]))
        for name, written in table()["settings"].items()
    }


def ours_for(name: str, configs: Sequence[Has], known: Iterable[str], path: str = "") -> str:
    """Says what another library's setting is called here, also where its name is misspelt; "" if that is not known.

    Args:
        name: Its name there, or one that is nearer to it than to any of ours.
        configs: The config that is meant; where it is not known of which algorithm it is, that of each.
        known: The names that may stand there.
        path: Path of the config, to be said with a name in it; "" if what is wrong stands in it itself.
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
    """Returns the setting of a config, or beside it, that another library's setting is, None if there is none.

    Args:
        name: Its name there.
        has: The config.
    """
    for ours in settings().get(name, ()):
        if isinstance(ours, Absent):
            continue
        there = any(map(has, _IN_EVERY_CONFIG)) if ours.beside_config else has(ours.name)
        if there and _is_met(ours.needs, has):
            return ours
    return None


def entry_key_for(name: str) -> str:
    """Returns the dotted key of an experiment that takes another library's value as it is, "" if none does.

    Args:
        name: Its name there.
    """
    found = (ours for ours in settings().get(name, ()) if isinstance(ours, Ours) and ours.beside_config)
    return next((ours.name for ours in found if not ours.conversion), "")


def is_foreign(name: str) -> bool:
    """Whether a name is known to be a setting of another library."""
    return name in settings()


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Says that a config has no such key; none is guessed for one that is known to be another library's.

    Examples:
        >>> unknown_key("lrr", ["lr", "gamma"])
        "unknown key 'lrr'; did you mean 'lr'?"
        >>> unknown_key("n_envs", ["env", "config"])
        "unknown key 'n_envs'; there are: config, env"
    """
    return unknown_name(key, allowed, "unknown key", guess=not is_foreign(key))


def other_algorithm(name: str) -> OtherAlgorithm | None:
    """Returns what is known of an algorithm of another library, None if that is nothing.

    Args:
        name: Its name in small letters, without hyphens and underscores.
    """
    found = table()["algorithms"].get(name)
    return None if found is None else OtherAlgorithm(found["told"], found.get("is", ""))


def other_metric(name: str) -> str:
    """Returns what a metric of another library is called here, with or without its groups; "" if that is not known."""
    return str(table()["metrics"].get(name.rpartition("/")[2], ""))


def other_command(name: str) -> str:
    """Returns what to type instead of a command of another library, "" if that is not known."""
    return str(table()["commands"].get(name, ""))


def moved_module(module: str) -> str:
    """Returns where a module of envs is by now, "" if nothing is known of a move.

    Examples:
        >>> moved_module("pettingzoo.mpe.simple_spread_v3"), moved_module("mpe2.simple_spread_v3")
        ('mpe2.simple_spread_v3', '')
    """
    moves = table()["moved_modules"].items()
    return next((new + module.removeprefix(old) for old, new in moves if f"{module}.".startswith(f"{old}.")), "")


def is_world_module(env_id: str) -> bool:
    """Whether an env's id is a module of a package of worlds.

    Examples:
        >>> is_world_module("mpe2.simple_spread_v3"), is_world_module("CartPole-v1")
        (True, False)
    """
    return re.fullmatch(rf"({'|'.join(table()['world_packages'])})(\.\w+)+", env_id) is not None


def env_packages() -> frozenset[str]:
    """Returns the packages that are known to register envs when they are imported."""
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
    name = written.get("beside") or written["name"]
    return Ours(name, written.get("conversion", ""), "beside" in written, written.get("needs", ""))


def _answer(name: str, configs: Sequence[Has], path: str) -> str:
    found = list(dict.fromkeys(ours for has in configs if (ours := setting_for(name, has))))
    places = list(dict.fromkeys(_placed(ours, path) for ours in found))
    if len(places) > 1:
        return f"{name!r} is {' or '.join(places)} here, by algorithm"
    if places:
        return f"{name!r} is {places[0]} here" + (f": {found[0].conversion}" if found[0].conversion else "")
    absent = next((why for why in _absent(name) for has in configs if _is_met(why.needs, has)), None)
    if absent is None:
        return ""
    return f"there is no {name!r} here" + (f": {absent.instead}" if absent.instead else "")


def _absent(name: str) -> Iterator[Absent]:
    return (meaning for meaning in settings().get(name, ()) if isinstance(meaning, Absent))


def _is_met(needs: str, has: Has) -> bool:
    return not needs or has(needs)


def _placed(ours: Ours, path: str) -> str:
    if ours.beside_config:
        return f"`{ours.name}`, beside config,"
    return f"`{path}.{ours.name}`" if path else f"'{ours.name}'"
