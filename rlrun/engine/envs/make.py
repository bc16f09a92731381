"""Functions that create envs from a config: vector env, single env, spaces, choice of backend, and list of envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium

from rlrun.engine.data.action_masks import has_action_mask
from rlrun.engine.envs.backend import backend, backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.envs.episode_position import EpisodeSeeds
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.envs.vector_env import VectorEnv

__all__ = [
    "check_env",
    "check_num_envs",
    "check_same_spaces",
    "make_env",
    "make_vector_env",
    "spaces_of",
]


MASKED = "rlrun.engine.envs.action_masks:MaskedVectorEnv"
"""Import path of the vector env wrapper for observations with action masks."""


def check_env(config: EnvConfig) -> None:
    """Validates an env config without creating the env: id, packages, preset, wrappers, keyword arguments.

    Raises:
        UsageError: A name or a keyword argument does not exist; the message suggests the nearest one.
        EnvironmentUnusable: A package is not installed; the message names the pip command.
        UserCodeError: Importing the module of a factory or wrapper raised an exception.
    """
    name = backend_of(config)
    if config.preset == "atari" and name != "atari":
        raise UsageError(f"preset: atari supports only ALE's vector envs, not {config.id}")
    backend(name).check(config)


def make_vector_env(
    config: EnvConfig,
    num_envs: int,
    seeds: EpisodeSeeds,
    *,
    first_episodes: Sequence[int] | None = None,
    lessons: Lessons | None = None,
) -> VectorEnv:
    """Creates a vector env with B env slots.

    Args:
        config: Config of the env, including its backend.
        num_envs: Number of env slots, B.
        seeds: Episode seeds, a function of env slot and episode number that includes the worker index.
        first_episodes: Index of each env slot's first episode; 0 for all unless given.
        lessons: Keyword arguments that a curriculum sets for the env slots; None without a curriculum.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or rlrun does not support the env, for example because of its
            spaces.
        EnvError: The env's own code raised.
    """
    check_num_envs(config, num_envs)
    env = backend(backend_of(config)).make(config, num_envs, seeds, first_episodes, lessons)
    if not has_action_mask(env.observation_space):
        return env
    masked: VectorEnv = load_internal(MASKED)(env, config.id, seeds)
    return masked


def check_num_envs(config: EnvConfig, num_envs: int) -> None:
    """Validates the configured number of env slots for a vector env passed as an instance, which has a fixed number.

    Raises:
        UsageError: The numbers differ.
    """
    own = config.fixed_num_envs
    if own is not None and own != num_envs:
        raise UsageError(
            f"env {config.id} is an instance with {own} env slot{'s' if own > 1 else ''}, but {num_envs} are "
            f"needed: set num_envs_per_worker={own}, or pass a class or function that creates the envs"
        )


def make_env(config: EnvConfig, *, render_mode: str | None = None, seed: int = 0) -> gymnasium.Env[Any, Any]:
    """Creates a single env with the spaces and wrappers of an env slot of `make_vector_env`.

    Args:
        config: Config of the env.
        render_mode: Gymnasium's render mode, or None.
        seed: Seed passed to the factory if it has a parameter `seed`. Reset the env with the same seed for a
            reproducible episode.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or the env can only be created as a vector env.
        EnvError: The env's own code raised.
    """
    return backend(backend_of(config)).make_single(config, render_mode, seed)


def spaces_of(config: EnvConfig) -> Spaces:
    """Returns the observation and action space of one env slot; creates at most one env.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or rlrun does not support the env, for example because of its
            spaces.
        EnvError: The env's own code raised.
    """
    return backend(backend_of(config)).spaces(config)


def check_same_spaces(whose: str, spaces: Spaces, trained: Spaces) -> None:
    """Validates that spaces are compatible with a trained policy's spaces; bounds may differ.

    Args:
        whose: Name of the env in messages, with the policy's name if there are several policies.
        spaces: Spaces of the env.
        trained: Spaces that the policy was trained with.

    Raises:
        UsageError: Observation or action spaces differ in structure, kind or shape.
    """
    kinds = zip(("observations", "actions"), spaces, trained, strict=True)
    for what, space, expected in kinds:
        if _form(space) != _form(expected):
            raise UsageError(f"{whose}: the {what} are {space}, but the policy was trained with {expected}")


def _form(space: gymnasium.Space[Any]) -> Any:
    """Returns what a policy depends on in a space: keys, kinds and shapes, but not bounds."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: _form(part) for name, part in space.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return [_form(part) for part in space]
    return ("Box", space.shape) if isinstance(space, gymnasium.spaces.Box) else space
