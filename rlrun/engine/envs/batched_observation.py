"""Env wrappers that convert observations of all env slots at once, so that envs keep their vector form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.lockstep_restore import LockstepEnv, restore_in_lockstep
from rlrun.engine.envs.vector_env import NO_COLUMNS, Infos, Tree, VectorEnv


class BatchedObservation(gymnasium.ObservationWrapper[Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not typed
    """Base class of env wrappers whose method `observation` converts a single observation or a batch.

    Arrays may have additional leading dimensions, so index and reduce from the last axis. If all wrappers are of this
    kind, CartPole-v1 remains vectorized; other envs are stepped one by one.
    """


class SeededLockstepEnv(VectorEnv, LockstepEnv, Protocol):
    """Protocol of a lockstep vector env that can also start episodes with given seeds in some of its slots."""


class BatchedView:
    """Vector env whose observations pass through batched wrappers.

    Args:
        env: The vector env.
        wrapped: Single env with the wrappers; it defines the spaces, and is never stepped.
    """

    columns = NO_COLUMNS

    def __init__(self, env: SeededLockstepEnv, wrapped: gymnasium.Env[Any, Any]) -> None:
        self.name, self.num_envs, self.seeds_episodes = env.name, env.num_envs, env.seeds_episodes
        self.observation_space, self.action_space = wrapped.observation_space, env.action_space
        self._env = env
        self._wrappers: list[BatchedObservation] = []
        while isinstance(wrapped, gymnasium.Wrapper):
            if isinstance(wrapped, BatchedObservation):
                self._wrappers.insert(0, wrapped)
            wrapped = wrapped.env

    def reset(self) -> Tree:
        """Starts the first episode of every env slot; see `VectorEnv.reset`."""
        return self._shown(self._env.reset())

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; see `VectorEnv.step`."""
        observations, *rest = self._env.step(actions)
        return (self._shown(observations), *rest)

    def begin(self, slots: Sequence[int], seeds: Sequence[int]) -> Tree:
        """Starts new episodes with given seeds in some env slots; see `VectorEnv.begin`."""
        return self._shown(self._env.begin(slots, seeds))

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each env slot; see `VectorEnv.places`."""
        return self._env.places()

    def restore(
        self, places: Sequence[EpisodePosition], actions: Sequence[Tree], hashes: Sequence[str], max_replay_s: float
    ) -> tuple[Tree, list[bool]]:
        """Returns all env slots to saved steps of their episodes; see `VectorEnv.restore`."""
        return restore_in_lockstep(self, places, actions, hashes, max_replay_s)

    def start_at(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the start of a saved episode; see `LockstepEnv.start_at`."""
        return self._shown(self._env.start_at(places))

    def start_after(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the episode after a saved one; see `LockstepEnv.start_after`."""
        return self._shown(self._env.start_after(places))

    def close(self) -> None:
        """Closes the vector env."""
        self._env.close()

    def _shown(self, observations: Tree) -> Tree:
        for wrapper in self._wrappers:
            observations = wrapper.observation(observations)
        return observations
