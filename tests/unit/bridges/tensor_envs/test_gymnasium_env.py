from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from rlrun.bridges.tensor_envs.gymnasium_env import GymnasiumTensorEnv
from rlrun.engine.messages.errors import EnvironmentUnusable

CPU = torch.device("cpu")


class Clocks(VectorEnv):  # type: ignore[misc]
    """Vector env of tensors: episodes in slot s end after s + 1 steps; flags reuse buffers, as in Isaac Lab."""

    def __init__(self, mode: AutoresetMode, name: str) -> None:
        self.num_envs = 3
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.metadata = {"autoreset_mode": mode}
        self.name = name
        self.lengths = torch.zeros(3)
        self.ended = torch.zeros(3, dtype=torch.bool)
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Tensor, dict[str, Any]]:
        self.seeds.append(seed)
        self.lengths.zero_()
        return self.lengths[:, None].clone(), {}

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        self.lengths += 1
        torch.ge(self.lengths, torch.tensor([1.0, 2.0, 3.0]), out=self.ended)
        last = self.lengths[:, None].clone()
        self.lengths *= ~self.ended
        infos = {self.name: last} if self.name and self.ended.any() else {}
        return self.lengths[:, None].clone(), actions.float(), torch.zeros_like(self.ended), self.ended, infos


@pytest.mark.parametrize("name", ["final_obs", "final_observation"])
def test_final_observations_are_taken_from_the_infos(name: str) -> None:
    env = GymnasiumTensorEnv(Clocks(AutoresetMode.SAME_STEP, name), CPU)
    assert env.reset(seeds=torch.tensor([7, 8, 9])).tolist() == [[0.0]] * 3
    assert env._env.seeds == [7]
    env.step(torch.zeros(3))
    step = env.step(torch.tensor([0, 1, 1]))
    assert step.finals is not None
    assert step.finals.mask.tolist() == step.truncateds.tolist() == [True, True, False]
    assert step.finals.observations.tolist() == [[1.0], [2.0], [2.0]]
    assert step.observations.tolist() == [[0.0], [0.0], [2.0]]
    assert step.rewards.tolist() == [0.0, 1.0, 1.0]


def test_a_step_whose_infos_lack_final_observations_has_none() -> None:
    env = GymnasiumTensorEnv(Clocks(AutoresetMode.SAME_STEP, ""), CPU)
    env.reset(seeds=torch.arange(3))
    step = env.step(torch.zeros(3))
    assert step.finals is not None
    assert not step.finals.mask.any()
    without = GymnasiumTensorEnv(Clocks(AutoresetMode.SAME_STEP, ""), CPU, has_finals=False)
    assert without.step(torch.zeros(3)).finals is None


def test_envs_with_next_step_autoreset_are_refused() -> None:
    with pytest.raises(EnvironmentUnusable, match="NextStep"):
        GymnasiumTensorEnv(Clocks(AutoresetMode.NEXT_STEP, "final_obs"), CPU)
