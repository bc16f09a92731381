"""Hints for env ids that are not registered: the nearest id, or the package that has not been imported."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
from collections.abc import Iterable

import gymnasium

from rlrun.engine.envs.env_ids import is_installed
from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.messages.foreign_names import env_package, is_world_module, moved_module

ALIKE = 0.85
"""Similarity of two ids (difflib's ratio) above which one is probably a misspelling of the other."""


def hint_for(env_id: str) -> str:
    """Returns the hint for an id under which no env is registered, such as the nearest id; "" without one."""
    module, _, name = env_id.rpartition(":")
    if not module and (hint := _unimported(name)):
        return hint
    hint = nearest_id(name, gymnasium.registry) or _other(env_id)
    if module or not re.search(r"-v\d+$", name) or _is_misspelt(name):
        return hint
    return f"{f'{hint} If' if hint else '; if'} your own package registers it on import, write package:{name}"


def nearest_id(wrong: str, ids: Iterable[str]) -> str:
    """Returns the suggestion "; did you mean 'x'?" with the known id nearest to a wrong id; "" if none is close.

    Differences in case, version or namespace count less than other differences in spelling.

    Examples:
        >>> nearest_id("cartpole", ["CartPole-v0", "CartPole-v1", "phys2d/CartPole-v1"])
        "; did you mean 'CartPole-v1'?"
        >>> nearest_id("Pong-v5", ["Pong-v4", "ALE/Pong-v5"])
        "; did you mean 'ALE/Pong-v5'?"
    """
    known = list(ids)
    _, version = _parts(wrong)

    def nearness(env_id: str) -> tuple[bool, bool, int]:
        own_name, own_version = _parts(env_id)
        return own_version == version, own_name == _parts(wrong)[0], own_version

    same = _same_name(wrong, known)
    return f"; did you mean '{max(same, key=nearness)}'?" if same else did_you_mean(wrong, known)


def _unimported(env_id: str) -> str:
    """Hint for an unknown id of a package that registers its envs on import; "" if no such package is known.

    For example, the prefix of MiniGrid-Empty-5x5-v0 names the package `minigrid`.
    """
    if package := env_package(env_id):
        install = "" if is_installed(package) else f"`pip install {package}` and "
        return f", because its package has not been imported; {install}write {package}:{env_id}"
    package = re.split("[-/]", env_id)[0].lower()
    if not package.isidentifier() or package in sys.stdlib_module_names or package in sys.modules:
        return ""
    if not is_installed(package):
        return ""
    return f", because its package has not been imported; write {package}:{env_id}"


def _is_misspelt(env_id: str) -> bool:
    """Whether an unknown id differs only slightly from a registered one, such as in its version."""
    known = list(gymnasium.registry)
    return bool(_same_name(env_id, known) or difflib.get_close_matches(env_id, known, n=1, cutoff=ALIKE))


def _same_name(wrong: str, known: Iterable[str]) -> list[str]:
    """Returns the known ids that differ from another one only in case, version or namespace."""
    name, _ = _parts(wrong)
    return [env_id for env_id in known if name in (_parts(env_id)[0], _parts(env_id)[0].rpartition("/")[2])]


def _other(env_id: str) -> str:
    """Hint for an id that is a PettingZoo module, or a dotted path without a factory; "" for other ids."""
    if is_world_module(env_id):
        module = moved_module(env_id) or env_id
        return f"; for a multi-agent world, write env: {{pettingzoo: {module}}}"
    if re.fullmatch(r"\w+(\.\w+)+", env_id):
        module, _, name = env_id.rpartition(".")
        is_there = importlib.util.find_spec(module.partition(".")[0]) is not None  # imports nothing
        return f"; did you mean '{module}:{name}'?" if is_there else "; for your own env, write package.module:factory"
    return ""


def _parts(env_id: str) -> tuple[str, int]:
    """Splits an env id into its lower-case name, namespace included, and its version (-1 without one)."""
    name, version = re.fullmatch(r"(.*?)(?:-v(\d+))?", env_id, re.DOTALL).groups()  # type: ignore[union-attr]
    return name.lower(), int(version or -1)
