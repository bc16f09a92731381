"""A sampler that tells with each fragment where it stands, and one that is made anew there."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.data.tree import named_leaves
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import spaces_of
from rlrun.policy.weights import Weights
from rlrun.rollout.action_log import LogTail, with_logs_joined
from rlrun.rollout.rewards import RewardSettings
from rlrun.rollout.rollout import Rollout
from rlrun.rollout.sampler import Sampler, SamplerConfig
from rlrun.rollout.sampler_configs import SamplerConfigs
from rlrun.rollout.worker import ROLLOUT_WORKER
from rlrun.rollout.worker_config import WorkerConfig

SMALL = {"model": {"hiddens": [8]}}
ALGORITHMS = {
    "recurrent PPO": PPO(PPOConfig.parse({"model": {"hiddens": [8], "core": "gru"}, "normalize_observations": True})),
    "noisy DQN": DQN(DQNConfig.parse({**SMALL, "exploration": "parameter_noise"})),
}


def made(algorithm: Any, env: str, length: int) -> tuple[SamplerConfig, Weights]:
    """What a sampler of two env slots is made from, and the weights that it acts with."""
    world = EnvConfig(id=env)
    policy = algorithm.policy(spaces_of(world), seed=3)
    worker = WorkerConfig(
        env=world,
        num_envs=2,
        fragment_length=length,
        seed=5,
        behaviors={"default": policy.behavior()},
        rewards={"default": RewardSettings(0.9, scale=True)},
        worker_index=1,
        num_workers=1,
    )
    weights = Weights(0, policy.parameters.gather(policy.module).numpy(), schedules={"epsilon": 0.3})
    return SamplerConfig(ROLLOUT_WORKER, worker, tells_place=True), weights


def columns(rollout: Rollout) -> dict[str, Any]:
    return dict(named_leaves(dict(rollout.batches["default"])))


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize(("env", "length"), [("CartPole-v1", 5), ("CartPole-v1", 60), ("Acrobot-v1", 1)])
def test_one_made_anew_at_a_told_place_makes_the_fragments_that_the_other_would_have_made(
    algorithm: Any, env: str, length: int
) -> None:
    config, weights = made(algorithm, env, length)
    first = Sampler(config)
    first.set_weights({"default": weights})
    state: Any = None
    for _ in range(9):
        state = with_logs_joined(first.sample().place, state)
        np.testing.assert_equal(state, first.state())
    config, weights = made(algorithm, env, length)
    second = Sampler(dataclasses.replace(config, state=state))
    second.set_weights({"default": weights})
    for _ in range(3):
        expected, found = first.sample(), second.sample()
        assert (found.fragment, found.env_slots_restarted) == (expected.fragment, 0)
        np.testing.assert_equal(columns(found), columns(expected))
        np.testing.assert_equal(found.place["worker"]["slots"][0]["hash"], expected.place["worker"]["slots"][0]["hash"])
    first.close()
    second.close()


def test_nothing_is_told_unless_it_is_asked_for() -> None:
    config, weights = made(ALGORITHMS["noisy DQN"], "CartPole-v1", 2)
    sampler = Sampler(dataclasses.replace(config, tells_place=False))
    sampler.set_weights({"default": weights})
    assert sampler.sample().place is None
    sampler.close()


def test_a_tail_is_put_behind_the_log_of_the_state_before() -> None:
    def tail(rows: list[int], length: int) -> LogTail:
        return LogTail(np.array(rows), length)

    before = {"slots": [{"actions": np.array([1, 2])}, {"actions": np.array([3, 4])}], "noise": {}}
    place = {"slots": [{"actions": tail([5], 3)}, {"actions": tail([], 0)}], "noise": {"x": 1.0}}
    joined = with_logs_joined(place, before)
    np.testing.assert_equal(joined, {"slots": [{"actions": [1, 2, 5]}, {"actions": []}], "noise": {"x": 1.0}})
    np.testing.assert_equal(with_logs_joined(tail([7, 8], 2), None), [7, 8])


def test_a_lost_worker_goes_on_from_the_place_of_its_last_delivered_fragment() -> None:
    config, weights = made(ALGORITHMS["noisy DQN"], "CartPole-v1", 3)
    configs = SamplerConfigs(ROLLOUT_WORKER, config.worker)
    configs.keeps_states = True
    assert (configs.of(1).state, configs.of(1).tells_place) == (None, True)
    sampler = Sampler(configs.of(1))
    sampler.set_weights({"default": weights})
    configs.note([sampler.sample(), sampler.sample()])
    np.testing.assert_equal(configs.of(1).state, sampler.state())
    configs.load_states([1], ["a checkpoint's"])
    assert configs.of(1).state == "a checkpoint's"
    sampler.close()
