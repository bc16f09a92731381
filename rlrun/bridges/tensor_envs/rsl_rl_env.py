"""Adapter for rsl_rl vector envs, an interface used by Isaac Lab's and mjlab's wrappers and by Genesis' examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor

from rlrun.engine.envs.tensor_vector_env import TensorStep, TensorTree
from rlrun.engine.messages.errors import EnvironmentUnusable


class RslRlVecEnv(Protocol):
    """The part of `rsl_rl.env.VecEnv` that the adapter needs.

    Attributes:
        num_envs: Number of env slots, B.
        num_actions: Size of an action, A.
        max_episode_length: Steps after which an episode is truncated.
        episode_length_buf: Steps of each slot's episode so far, [B].
    """

    num_envs: int
    num_actions: int
    max_episode_length: int | Tensor
    episode_length_buf: Tensor

    def get_observations(self) -> Any:
        """Returns the current observations, a TensorDict of groups [B, ...]."""
        ...

    def step(self, actions: Tensor) -> tuple[Any, Tensor, Tensor, dict[str, Any]]:
        """Steps all env slots with actions [B, A]; returns observations, rewards [B], dones [B] and extras."""
        ...


class RslRlEnv:
    """Tensor env that wraps an rsl_rl `VecEnv`, which has no final observations, seeds or external resets.

    A single group of observations becomes the observation; several groups, such as `policy` and `critic`, become a
    Dict. Actions have no bounds. An episode that ends is truncated if `extras["time_outs"]` is set, and terminated
    otherwise.

    Args:
        env: The vector env.
        device: Device of all its tensors.
        seed: Function that seeds the simulator, such as the method `seed` of Isaac Lab's and mjlab's wrappers; None if
            there is none.
        spread_episodes: Whether the first episodes start with random lengths, so that time limits do not end all of
            them in the same step (`init_at_random_ep_len` in rsl_rl).
        is_only_one: Whether the simulator allows only one instance per process.

    Raises:
        EnvironmentUnusable: The env's tensors are on another device.
    """

    seeds_episodes = False

    def __init__(
        self,
        env: RslRlVecEnv,
        device: torch.device,
        *,
        seed: Callable[[int], object] | None = None,
        spread_episodes: bool = False,
        is_only_one: bool = True,
    ) -> None:
        self.num_envs = env.num_envs
        self.device = device
        self.is_only_one = is_only_one
        self._env = env
        self._seed = seed
        self._spread_episodes = spread_episodes
        observations = env.get_observations()
        self._groups = tuple(sorted(observations.keys()))
        first = observations[self._groups[0]]
        if first.device.type != device.type:
            raise EnvironmentUnusable(
                f"the rsl_rl env has its tensors on {first.device}, but the run's are on {device}"
            )
        spaces = {group: _unbounded(observations[group][0]) for group in self._groups}
        self.observation_space = Dict(spaces) if len(spaces) > 1 else spaces[self._groups[0]]
        self.action_space = Box(-np.inf, np.inf, (env.num_actions,), np.float32)

    def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> TensorTree:
        """Seeds the simulator with the first seed; returns the current observations, since running episodes continue.

        Raises:
            EnvironmentUnusable: A mask is given: rsl_rl's interface cannot reset single env slots.
        """
        if mask is not None:
            raise EnvironmentUnusable("an env with rsl_rl's interface cannot reset single env slots")
        if seeds is not None and self._seed is not None:
            self._seed(int(seeds[0]))
        if seeds is not None and self._spread_episodes:
            lengths = torch.randint_like(self._env.episode_length_buf, high=int(self._env.max_episode_length))
            self._env.episode_length_buf = lengths
        return self._tree(self._env.get_observations())

    def step(self, actions: Tensor) -> TensorStep:
        """Steps all env slots; the simulator resets those whose episode ends."""
        observations, rewards, dones, extras = self._env.step(actions)
        ended = dones.bool()
        time_outs = extras.get("time_outs")
        truncateds = torch.zeros_like(ended) if time_outs is None else ended & time_outs.bool()
        return TensorStep(self._tree(observations), rewards, ended & ~truncateds, truncateds, None)

    def state(self) -> Mapping[str, Any] | None:
        """Returns None: rsl_rl's interface does not expose the simulator's state."""
        return None

    def load_state(self, state: Mapping[str, Any]) -> TensorTree:
        """Raises an error, since there is no state to restore."""
        raise EnvironmentUnusable("an env with rsl_rl's interface has no state that can be restored")

    def close(self) -> None:
        """No-op: rsl_rl's interface has nothing to close."""

    def _tree(self, observations: Any) -> TensorTree:
        tree = {group: observations[group] for group in self._groups}
        return tree if len(tree) > 1 else tree[self._groups[0]]


def _unbounded(row: Tensor) -> Box:
    """Returns the unbounded space of tensors with a row's shape and dtype."""
    kind = np.dtype(str(row.dtype).removeprefix("torch."))
    if kind.kind == "f":
        return Box(-np.inf, np.inf, tuple(row.shape), kind)
    bounds = np.iinfo(kind)
    return Box(bounds.min, bounds.max, tuple(row.shape), kind)
