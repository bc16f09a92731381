"""An env of one agent or a world of many: which of the two a spec names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.envs.env_config import EnvConfig
from rlrun.worlds.world_config import WorldConfig

AnyEnv = EnvConfig | WorldConfig
"""What a training may take place in."""


def env_model(data: Any) -> type[EnvConfig] | type[WorldConfig]:
    """Returns the config class of what a spec says of an env: a world names itself by `world` or `pettingzoo`."""
    is_world = isinstance(data, Mapping) and ("world" in data or "pettingzoo" in data)
    return WorldConfig if is_world else EnvConfig


def parse_env(data: Any, *, path: str = "") -> AnyEnv:
    """Makes the config of an env or of a world from plain data.

    Args:
        data: What a spec says.
        path: Where it stands, put before the path of each problem.

    Raises:
        SpecError: It is neither.
    """
    return env_model(data).parse(data, path=path)
