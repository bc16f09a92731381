"""Adapter for vector envs with Gymnasium's interface that return torch tensors, such as ManiSkill's and Isaac Lab's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from rlrun.engine.envs.tensor_vector_env import FinalObservations, TensorStep, TensorTree
from rlrun.engine.messages.errors import EnvironmentUnusable

FINAL_OBSERVATIONS = ("final_obs", "final_observation")
"""Names of final observations in infos, rows [B, ...]: Gymnasium's since 1.1, also Isaac Lab's, and ManiSkill's."""


class GymnasiumTensorEnv:
    """Tensor env that wraps a vector env whose `step` returns Gymnasium's five values as torch tensors.

    The vector env must reset each slot in the same step that ends its episode. Final observations are read from infos.

    Args:
        env: The vector env: a `gymnasium.vector.VectorEnv`, or an env with the attributes `num_envs`,
            `single_observation_space` and `single_action_space`, such as an unwrapped Isaac Lab env.
        device: Device of all its tensors.
        has_finals: Whether infos hold final observations. In Isaac Lab this needs `compute_final_obs=True`.
        is_only_one: Whether the simulator allows only one instance per process.

    Raises:
        EnvironmentUnusable: The env resets slots one step after their episodes end, or not at all.
    """

    seeds_episodes = False

    def __init__(
        self,
        env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
        device: torch.device,
        *,
        has_finals: bool = True,
        is_only_one: bool = True,
    ) -> None:
        described: Any = env if isinstance(env, VectorEnv) else env.unwrapped
        mode = (described.metadata or {}).get("autoreset_mode", AutoresetMode.SAME_STEP)
        if mode is not AutoresetMode.SAME_STEP:
            raise EnvironmentUnusable(
                f"{type(described).__name__} has the autoreset mode {mode.value}; a tensor env must reset an env slot "
                "in the step that ends its episode (SAME_STEP)"
            )
        self.num_envs: int = described.num_envs
        self.device = device
        self.is_only_one = is_only_one
        self.observation_space: gymnasium.Space[Any] = described.single_observation_space
        self.action_space: gymnasium.Space[Any] = described.single_action_space
        self._env: Any = env
        self._has_finals = has_finals

    def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> TensorTree:
        """Starts new episodes in all env slots; seeds the vector env with the first seed.

        Raises:
            EnvironmentUnusable: A mask is given: simulators have no common way to reset single slots.
        """
        if mask is not None:
            raise EnvironmentUnusable("GymnasiumTensorEnv cannot reset single env slots")
        observations, _ = self._env.reset(seed=None if seeds is None else int(seeds[0]))
        return observations

    def step(self, actions: TensorTree) -> TensorStep:
        """Steps all env slots; the simulator resets those whose episode ends."""
        observations, rewards, terminateds, truncateds, infos = self._env.step(actions)
        finals = self._finals(infos, terminateds | truncateds, observations) if self._has_finals else None
        return TensorStep(observations, rewards, terminateds, truncateds, finals)

    def _finals(self, infos: Mapping[str, Any], ended: Tensor, observations: TensorTree) -> FinalObservations:
        """Final observations in infos, which lack them in steps that end no episode."""
        for name in FINAL_OBSERVATIONS:
            if name in infos:
                return FinalObservations(infos.get(f"_{name}", ended), infos[name])
        return FinalObservations(torch.zeros_like(ended), observations)

    def state(self) -> Mapping[str, Any] | None:
        """Returns None: Gymnasium's interface does not expose the simulator's state."""
        return None

    def load_state(self, state: Mapping[str, Any]) -> TensorTree:
        """Raises an error, since there is no state to restore."""
        raise EnvironmentUnusable("GymnasiumTensorEnv has no state that can be restored")

    def close(self) -> None:
        """Closes the simulator."""
        self._env.close()
