from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.flow import Operator
from rlrun.engine.flow.policy_workers import OperatorChain
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.phases import FragmentTimes, machine_clock
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.rollout.worker_set import WorkerSet
from rlrun.engine.worlds.make import spaces_of_policies
from rlrun.engine.worlds.mapping import PolicyMapping
from tests.policies import plain_policy

POLICY = plain_policy(
    ActorCriticPolicy,
    Box(-np.inf, np.inf, (4,), np.float32),
    Discrete(2),
    ModelConfig(hiddens=(8,)),
    seed=1,
)
WEIGHTS = {"default": Weights(0, POLICY.parameters.gather(POLICY.module).numpy())}


def config() -> WorkerConfig:
    return WorkerConfig(
        env=EnvConfig(id="CartPole-v1"),
        num_envs=3,
        fragment_length=40,
        seed=7,
        behaviors={"default": POLICY.behavior()},
        rewards={"default": RewardSettings(0.9)},
    )


def worker() -> RolloutWorker:
    made = RolloutWorker(config())
    made.follow(Orders(WEIGHTS))
    return made


def slept(batch: SampleBatch) -> SampleBatch:
    time.sleep(0.02)
    return batch


class Learns(Operator):
    learns = True

    def __call__(self, item: SampleBatch) -> SampleBatch:
        time.sleep(0.03)
        return item


def test_phase_times_add_up_to_the_fragment_time_and_fragments_do_not_overlap() -> None:
    measured = worker()
    before = time.perf_counter()
    first, second = measured.sample(), measured.sample()
    after = time.perf_counter()
    for rollout in (first, second):
        times = rollout.times
        assert times is not None
        assert list(times.seconds) == ["env_step", "inference", "recording", "postprocess"]
        assert min(times.seconds.values()) > 0
        assert sum(times.seconds.values()) == pytest.approx(times.ended - times.began, abs=1e-9)
        assert times.clock == machine_clock()
    assert first.times is not None
    assert second.times is not None
    assert before <= first.times.began < first.times.ended <= second.times.began < second.times.ended <= after


def test_phase_times_of_a_world_add_up_to_the_fragment_time() -> None:
    world = EnvConfig(world="rlrun.toys:CartPoles")
    mapping = PolicyMapping(("default",), None)
    spaces = spaces_of_policies(world, mapping)["default"]
    policy = plain_policy(ActorCriticPolicy, *spaces, ModelConfig(hiddens=(8,)), seed=1)
    made = RolloutWorker(
        dataclasses.replace(
            config(), env=world, behaviors={"default": policy.behavior()}, mapping=mapping, slots={"default": 2}
        )
    )
    made.follow(Orders({"default": Weights(0, policy.parameters.gather(policy.module).numpy())}))
    times = made.sample().times
    assert times is not None
    assert min(times.seconds.values()) > 0
    assert sum(times.seconds.values()) == pytest.approx(times.ended - times.began, abs=1e-9)
    made.close()


def test_time_in_operators_counts_as_postprocessing_unless_it_is_spent_learning() -> None:
    began = time.perf_counter() - 1.0
    times = FragmentTimes("here", began, began + 0.5, {"env_step": 0.3, "postprocess": 0.2})
    extended = times.extended(0.125)
    assert extended.ended >= began + 1.0
    assert extended.seconds["env_step"] == 0.3
    assert extended.seconds["sgd"] == 0.125
    assert sum(extended.seconds.values()) == pytest.approx(extended.ended - began, abs=1e-9)
    assert "sgd" not in times.extended(0.0).seconds


def test_fragment_times_are_kept_only_while_a_reader_is_registered() -> None:
    workers = WorkerSet(config(), 0)
    workers.postprocess("default", OperatorChain([slept, Learns()]))
    workers.started.order(Orders(WEIGHTS))
    for looks in (False, True):
        workers.counts.measured = [] if looks else None
        workers.started.request(0)
        (rollout,) = workers.started.arrived()
        workers.counts.count(rollout)
    assert workers.counts.measured is not None
    (measured,) = workers.counts.measured
    assert (measured.worker, measured.env_steps, measured.times) == (0, rollout.env_steps, rollout.times)
    assert measured.times.seconds["postprocess"] >= 0.02
    assert measured.times.seconds["sgd"] >= 0.03
    assert measured.received >= measured.times.ended
    workers.close()
