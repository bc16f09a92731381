"""EnvPool backend: vector envs on EnvPool's C++ simulators, for `backend: envpool`."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
from typing_extensions import override

from rlrun.engine.envs.backend import EnvBackend, backend, backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.gymnasium_vector_env import GymnasiumVectorEnv
from rlrun.engine.envs.spaces import Spaces, check_spaces
from rlrun.engine.envs.vector_env import Tree, VectorEnv, close_or_warn
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError, did_you_mean

if TYPE_CHECKING:
    from rlrun.engine.envs.tasks import Lessons

_OURS = frozenset({"num_envs", "seed", "env_seed", "batch_size", "gym_reset_return_info", "max_episode_steps"})
"""Keyword arguments of EnvPool that rlrun sets and users must not."""


class EnvPoolBackend(EnvBackend):
    """Env backend for EnvPool tasks; if a single env is needed, it creates the corresponding Gymnasium env."""

    @override
    def check(self, config: EnvConfig) -> None:
        check_envpool(config)

    @override
    def make(
        self,
        config: EnvConfig,
        num_envs: int,
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
    ) -> VectorEnv:
        return make_envpool(config, num_envs, seeds, first_episodes)

    @override
    def make_single(self, config: EnvConfig, render_mode: str | None, seed: int) -> gymnasium.Env[Any, Any]:
        unusable = EnvironmentUnusable(f"EnvPool's env {config.id} has no single-env version with the same spaces")
        try:
            alike = EnvConfig(id=config.id, max_episode_steps=config.max_episode_steps)
            env = backend(backend_of(alike)).make_single(alike, render_mode, seed)
        except UsageError:
            raise unusable from None
        if (env.observation_space, env.action_space) != envpool_spaces(config):
            close_or_warn(env.close, config.id, "before any episode")
            raise unusable
        return env

    @override
    def spaces(self, config: EnvConfig) -> Spaces:
        return Spaces(*envpool_spaces(config))


def make_envpool(
    config: EnvConfig, num_envs: int, seeds: EpisodeSeeds, first_episodes: Sequence[int] | None = None
) -> GymnasiumVectorEnv:
    """Creates an EnvPool vector env; env slots are seeded once, at creation, and not for each episode.

    Keyword arguments are EnvPool's, such as ``frame_skip`` or ``repeat_action_probability``; ``num_threads`` is 1 by
    default.

    Raises:
        UsageError: EnvPool has no such task or keyword argument.
        EnvironmentUnusable: EnvPool is not installed, or rlrun does not support the task's spaces.
    """
    spaces = envpool_spaces(config)
    envpool = importlib.import_module("envpool")
    task, settings = _task(config), _settings(config)
    opened: list[Any] = []

    def start(slot_seeds: list[int]) -> tuple[gymnasium.vector.VectorEnv[Any, Any, Any], Tree]:
        while opened:
            opened.pop().close()
        with _without_precision_warnings():
            pool = envpool.make(task, env_type="gymnasium", num_envs=num_envs, seed=slot_seeds, **settings)
            opened.append(pool)
            observations, _ = pool.reset()
        return pool, observations

    return GymnasiumVectorEnv("envpool", config.id, start, spaces, seeds, num_envs, first_episodes)


def envpool_spaces(config: EnvConfig) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Returns the observation and action space of an EnvPool task without creating the pool.

    Raises:
        UsageError: EnvPool has no such task or keyword argument.
        EnvironmentUnusable: EnvPool is not installed, or rlrun does not support the task's spaces.
    """
    check_envpool(config)
    with _without_precision_warnings():
        spec = importlib.import_module("envpool").make_spec(_task(config), **_settings(config))
        spaces = spec.gymnasium_observation_space, spec.gymnasium_action_space
    check_spaces(config.id, *spaces)
    return spaces


def check_envpool(config: EnvConfig) -> None:
    """Validates that EnvPool is installed, and has the task with the given keyword arguments.

    Raises:
        UsageError: EnvPool has no such task or keyword argument.
        EnvironmentUnusable: EnvPool is not installed.
    """
    if importlib.util.find_spec("envpool") is None:
        raise EnvironmentUnusable(
            f"env {config.id}: backend envpool needs EnvPool, which is not installed: pip install envpool"
        )
    envpool = importlib.import_module("envpool")
    tasks, task = envpool.list_all_envs(), _task(config)
    if task not in tasks:
        raise UsageError(f"EnvPool has no task '{task}'{did_you_mean(task, tasks)}")
    with _without_precision_warnings():
        known = set(envpool.make_spec(task).config._fields)
    for name in config.kwargs:
        if name in _OURS:
            raise UsageError(f"env {config.id}: rlrun sets EnvPool's {name}; remove it from kwargs")
        if name not in known:
            raise UsageError(f"env {config.id}: EnvPool's {task} has no setting '{name}'{did_you_mean(name, known)}")


def _task(config: EnvConfig) -> str:
    """Returns EnvPool's task id of an env: the Gymnasium id without the namespace `ALE/`."""
    return config.id.removeprefix("ALE/")


def _settings(config: EnvConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {"num_threads": 1}
    if config.id.startswith("ALE/"):
        settings["repeat_action_probability"] = 0.25  # as in ALE's registration, so that an id means the same in both
    if config.max_episode_steps is not None:
        settings["max_episode_steps"] = config.max_episode_steps
    return settings | config.kwargs


def _without_precision_warnings() -> warnings.catch_warnings[None]:
    """Suppresses Gymnasium's precision warning on the float64 bounds of EnvPool's float32 spaces."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)
