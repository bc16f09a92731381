"""Worlds that a stranger's file may name: they run no code from elsewhere and write no file."""

from __future__ import annotations

import inspect
import re

from rlrun.envs.harmless import text_demands
from rlrun.errors import UsageError
from rlrun.registry import load_object
from rlrun.worlds.world import World
from rlrun.worlds.world_config import WorldConfig

_OWN = re.compile(r"rlrun\.worlds\.[a-z_0-9]+:[A-Za-z_0-9]+")
_PETTINGZOO = re.compile(r"(pettingzoo|mpe2)(\.[a-z_0-9]+)+")
"""Modules of PettingZoo's own envs."""


def world_demands(world: WorldConfig, path: str) -> list[str]:
    """Returns what a world of a stranger's spec asks for that is not known to be harmless, a clause each.

    Args:
        world: The world.
        path: Where it stands in the spec.
    """
    told = f"{path} {world.id:.80} is none of the known worlds, so its code would be run"
    demands = [] if _is_harmless(world) else [told]
    demands += text_demands(world.kwargs, f"{path}.kwargs")
    demands += text_demands(world.evaluation_kwargs, f"{path}.evaluation_kwargs")
    return demands + [f"{path}.wrappers has {wrapper.id:.80}, which may run code" for wrapper in world.wrappers]


def _is_harmless(world: WorldConfig) -> bool:
    """Whether a world is one of PettingZoo's own, or a class of rlrun's own."""
    if world.pettingzoo is not None:
        return _PETTINGZOO.fullmatch(world.pettingzoo) is not None
    if not _OWN.fullmatch(world.id):
        return False
    try:
        found = load_object(world.id, "world factory")
    except UsageError:  # it cannot be made at all
        return True
    return inspect.isclass(found) and issubclass(found, World) and found.__module__ == world.id.partition(":")[0]
