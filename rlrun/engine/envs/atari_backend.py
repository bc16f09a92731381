"""Atari backend; reports a missing or outdated ALE before importing the package."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.engine.envs.backend import EnvBackend
from rlrun.engine.envs.env_ids import check_installed, find_spec, pip_command
from rlrun.engine.messages.errors import EnvironmentUnusable

if TYPE_CHECKING:
    import gymnasium

    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.episode_position import EpisodeSeeds
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.envs.vector_env import VectorEnv


class AtariBackend(EnvBackend):
    """Env backend for Atari games on ALE's native vector env, in which each episode has its own seed."""

    @override
    def check(self, config: EnvConfig) -> None:
        _atari(config)

    @override
    def make(
        self,
        config: EnvConfig,
        num_envs: int,
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
    ) -> VectorEnv:
        atari, game, settings = _atari(config)
        made: VectorEnv = atari.SeededAtari(game, num_envs, settings, seeds, first_episodes)
        return made

    @override
    def make_single(self, config: EnvConfig, render_mode: str | None, seed: int) -> gymnasium.Env[Any, Any]:
        atari, game, settings = _atari(config)
        env: gymnasium.Env[Any, Any] = atari.AtariEnv(game, settings, render_mode)
        return env


def _atari(config: EnvConfig) -> tuple[Any, str, Any]:
    """Imports the Atari module, and with it ale_py; returns the module, the game's ROM name and its settings."""
    spec = find_spec(config.id)
    check_installed(spec)
    found = version("ale-py")
    if tuple(int(number) for number in found.split(".")[:2]) < (0, 12):  # older versions cannot reset single env slots
        raise EnvironmentUnusable(f"env {config.id} needs ale-py 0.12, but {found} is installed: {pip_command(spec)}")
    atari = importlib.import_module("rlrun.engine.envs.atari_vector_env")
    return atari, spec.kwargs["game"], atari.atari_settings(config, spec)
