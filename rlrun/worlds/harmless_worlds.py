"""Worlds that a stranger's file may name: they run no code from elsewhere and write no file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.harmless import OWN_ENVS, task_demands, text_demands
from rlrun.errors import UsageError
from rlrun.registry import load_object

_OWN = re.compile(r"rlrun\.(worlds|toys)\.[a-z_0-9]+:[A-Za-z_0-9]+")
_PETTINGZOO = re.compile(r"(pettingzoo|mpe2)(\.[a-z_0-9]+)+")
"""Modules of PettingZoo's own envs."""


def world_demands(world: EnvConfig, path: str) -> list[str]:
    """Returns what a world of a stranger's spec asks for that is not known to be harmless, a clause each.

    Args:
        world: The world.
        path: Where it stands in the spec.
    """
    told = f"{path} {world.id:.80} is none of the known worlds, so its code would be run"
    demands = [] if _is_harmless(world) else [told]
    demands += text_demands(_but_own_envs(world.kwargs), f"{path}.kwargs")
    demands += text_demands(_but_own_envs(world.evaluation_kwargs), f"{path}.evaluation_kwargs")
    demands += task_demands(world.tasks, world.curriculum, path)
    for wrapper in world.wrappers:
        if not _is_own_class(wrapper.id):
            demands.append(f"{path}.wrappers has {wrapper.id:.80}, which may run code or write files")
        demands += text_demands(wrapper.kwargs, f"{path}.wrappers.{wrapper.id:.80}")
    return demands


def _but_own_envs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a world's arguments without those that name a harmless env of rlrun's own, as `SearchedEnv` takes."""
    return {name: value for name, value in kwargs.items() if not (isinstance(value, str) and value in OWN_ENVS)}


def _is_harmless(world: EnvConfig) -> bool:
    """Whether a world is one of PettingZoo's own, or a class of rlrun's own."""
    if world.pettingzoo is not None:
        return _PETTINGZOO.fullmatch(world.pettingzoo) is not None
    return _is_own_class(world.id)


def _is_own_class(path: str) -> bool:
    """Whether a path names a class of rlrun's own worlds and wrappers, and not what their modules import."""
    if not _OWN.fullmatch(path):
        return False
    try:
        found = load_object(path, "world")
    except UsageError:  # it cannot be made at all
        return True
    return inspect.isclass(found) and found.__module__ == path.partition(":")[0]
