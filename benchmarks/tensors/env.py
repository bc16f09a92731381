"""CartPole in torch with one continuous action, because rsl_rl has no discrete actions; all sides step it.

It is a copy of rlrun's toy that imports only torch, NumPy and Gymnasium, and measures its own time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from rlrun.engine.envs.tensor_vector_env import TensorStep
from rlrun.toys.tensor_envs import tensor_cartpole

ACTIVATIONS: Mapping[str, type[nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh}
"""Activations of the networks, by their names in rsl_rl and rlrun."""

SPENT = {"env_s": 0.0}
"""CPU seconds that the envs of this process have spent in `step`."""


class SteeredCartPole:
    """CartPole in which positive actions push to the right, and all others to the left.

    Args:
        num_envs: Number of env slots, B.
        device: Device of all tensors.
    """

    seeds_episodes = True
    is_only_one = False

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self._env = tensor_cartpole(num_envs, device)
        self.num_envs, self.device = num_envs, device
        self.observation_space = self._env.observation_space
        self.action_space = Box(-np.inf, np.inf, (1,), np.float32)

    def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Starts new episodes."""
        return self._env.reset(seeds=seeds, mask=mask)

    def step(self, actions: Tensor) -> TensorStep:
        """Steps all env slots with actions [B, 1]."""
        began = time.process_time()
        step = self._env.step((actions[:, 0] > 0).long())
        SPENT["env_s"] += time.process_time() - began
        return step

    def state(self) -> Mapping[str, Any]:
        """Returns the state of all env slots."""
        return self._env.state()

    def load_state(self, state: Mapping[str, Any]) -> Tensor:
        """Restores the state of all env slots."""
        return self._env.load_state(state)

    def close(self) -> None:
        """No-op."""


def started(work: Mapping[str, Any]) -> tuple[SteeredCartPole, Tensor]:
    """Returns the env for the given work, and its first observations, which are the same for all sides."""
    torch.set_num_threads(1)
    torch.manual_seed(work["seed"])
    env = SteeredCartPole(work["num_envs"], torch.device(work["device"]))
    draws = np.random.default_rng(work["seed"]).integers(2**31 - 1, size=work["num_envs"])
    return env, env.reset(seeds=torch.from_numpy(draws).to(env.device))
