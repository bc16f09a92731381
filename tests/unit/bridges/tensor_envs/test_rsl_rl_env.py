from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor

from rlrun.bridges.tensor_envs.rsl_rl_env import RslRlEnv
from rlrun.engine.messages.errors import EnvironmentUnusable

CPU = torch.device("cpu")


class Counters:
    """Vector env with rsl_rl's interface: slots count to their limits, where odd ones time out and even ones fail."""

    def __init__(self, groups: tuple[str, ...] = ("policy",), *, says_time_outs: bool = True) -> None:
        self.num_envs, self.num_actions, self.max_episode_length = 4, 2, 10
        self.episode_length_buf = torch.zeros(4, dtype=torch.int64)
        self.limits = torch.tensor([2, 2, 3, 3])
        self.groups, self.says_time_outs = groups, says_time_outs
        self.seeds: list[int] = []

    def get_observations(self) -> dict[str, Tensor]:
        return {group: self.episode_length_buf.float()[:, None].repeat(1, n) for n, group in enumerate(self.groups, 1)}

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Any]]:
        self.episode_length_buf += 1
        dones = self.episode_length_buf >= self.limits
        self.episode_length_buf *= ~dones
        odd = torch.tensor([False, True, False, True])
        extras = {"time_outs": dones & odd} if self.says_time_outs else {}
        return self.get_observations(), actions.sum(1), dones.long(), extras


def test_time_outs_count_as_truncations_and_all_other_episode_ends_as_terminations() -> None:
    env = RslRlEnv(Counters(), CPU)
    assert env.reset(seeds=torch.arange(4)).tolist() == [[0.0]] * 4
    assert not env.step(torch.zeros(4, 2)).terminateds.any()
    step = env.step(torch.ones(4, 2))
    assert step.terminateds.tolist() == [True, False, False, False]
    assert step.truncateds.tolist() == [False, True, False, False]
    assert step.observations.tolist() == [[0.0], [0.0], [2.0], [2.0]]
    assert step.rewards.tolist() == [2.0] * 4
    assert step.finals is None


def test_all_episode_ends_count_as_terminations_if_the_simulator_reports_no_time_outs() -> None:
    env = RslRlEnv(Counters(says_time_outs=False), CPU)
    env.step(torch.zeros(4, 2))
    step = env.step(torch.zeros(4, 2))
    assert step.terminateds.tolist() == [True, True, False, False]
    assert not step.truncateds.any()


def test_observation_groups_become_parts_of_a_dict_space() -> None:
    env = RslRlEnv(Counters(("policy", "critic")), CPU)
    parts = {"policy": (1,), "critic": (2,)}
    assert env.observation_space == Dict({key: Box(-np.inf, np.inf, shape) for key, shape in parts.items()})
    assert {key: leaf.shape for key, leaf in env.reset().items()} == {"policy": (4, 1), "critic": (4, 2)}


def test_the_simulator_is_seeded_once_and_the_lengths_of_first_episodes_can_be_spread() -> None:
    simulator = Counters()
    env = RslRlEnv(simulator, CPU, seed=simulator.seeds.append, spread_episodes=True)
    env.reset(seeds=torch.tensor([5, 6, 7, 8]))
    assert simulator.seeds == [5]
    assert simulator.episode_length_buf.min() >= 0
    assert simulator.episode_length_buf.max() < 10
    with pytest.raises(EnvironmentUnusable):
        env.reset(mask=torch.ones(4, dtype=torch.bool))
