"""List of available envs: Gymnasium's registry by family, with backends and usability on this machine."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
from gymnasium.envs.registration import EnvSpec

from rlrun.engine.envs.backend import backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_ids import check_installed, is_usable_kind, pip_command, register_atari
from rlrun.engine.messages.errors import EnvironmentUnusable

FAMILIES = ("classic_control", "box2d", "mujoco", "toy_text")
"""Families of envs that are listed first; Atari's hundreds of games come last."""


@dataclass(frozen=True)
class EnvListing:
    """Entry of the list of available envs.

    Attributes:
        id: Gymnasium id of the env.
        family: Package that the env belongs to, such as "classic_control", "mujoco" or "atari".
        backend: Backend chosen by `backend: auto`.
        install: Pip command for the env's additional dependencies, "" if there are none.
        usable: Whether the dependencies are installed.
    """

    id: str
    family: str
    backend: str
    install: str
    usable: bool


def env_names() -> list[EnvListing]:
    """Returns the envs in Gymnasium's registry by family, usable or not; ALE's envs only if ale_py is installed."""
    register_atari()
    listings = []
    for spec in gymnasium.registry.values():
        if not is_usable_kind(spec):
            continue
        try:
            check_installed(spec)
            usable = True
        except EnvironmentUnusable:
            usable = False
        backend = backend_of(EnvConfig(id=spec.id))
        listings.append(EnvListing(spec.id, _family(spec), backend, pip_command(spec), usable))
    names = sorted({listing.family for listing in listings} - {*FAMILIES, "atari"})
    order = {name: number for number, name in enumerate((*FAMILIES, *names, "atari"))}
    return sorted(listings, key=lambda listing: (order[listing.family], listing.id))


def _family(spec: EnvSpec) -> str:
    entry_point = spec.entry_point or spec.vector_entry_point
    package = entry_point.partition(":")[0] if isinstance(entry_point, str) else str(entry_point.__module__)
    if package.startswith("ale_py"):
        return "atari"
    return package.removeprefix("gymnasium.envs.").partition(".")[0]
