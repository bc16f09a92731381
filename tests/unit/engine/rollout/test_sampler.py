"""A sampler that reports its position with each fragment, and a new one that starts at this position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.actors.actor_place import Call
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout import remote_workers
from rlrun.engine.rollout.action_log import LogTail, with_logs_joined
from rlrun.engine.rollout.remote_workers import RemoteWorkers
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.sampler import Sampler
from rlrun.engine.rollout.worker import ROLLOUT_WORKER, Orders
from rlrun.engine.rollout.worker_config import WorkerConfig

SMALL = {"model": {"hiddens": [8]}}
ALGORITHMS = {
    "recurrent PPO": PPO(PPOConfig.parse({"model": {"hiddens": [8], "core": "gru"}, "normalize_observations": True})),
    "noisy DQN": DQN(DQNConfig.parse({**SMALL, "exploration": "parameter_noise"})),
}


def sampler_and_orders(algorithm: Any, env: str, length: int) -> tuple[partial[Sampler], Orders]:
    """A factory of samplers with two env slots, and the orders for a sampler."""
    world = EnvConfig(id=env)
    policy = algorithm.policy(spaces_of(world), seed=3)
    worker = WorkerConfig(
        env=world,
        num_envs=2,
        fragment_length=length,
        seed=5,
        behaviors={"default": policy.behavior()},
        rewards={"default": RewardSettings(0.9, normalize=True)},
        num_workers=1,
    )
    weights = Weights(0, policy.parameters.gather(policy.module).numpy(), schedules={"epsilon": 0.3})
    return partial(Sampler, 1, ROLLOUT_WORKER, worker, {}, sends_place=True), Orders({"default": weights})


def columns(rollout: Rollout) -> dict[str, Any]:
    return dict(named_leaves(dict(rollout.batches["default"])))


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize(("env", "length"), [("CartPole-v1", 5), ("CartPole-v1", 60), ("Acrobot-v1", 1)])
def test_a_sampler_created_from_the_state_of_another_continues_with_identical_fragments(
    algorithm: Any, env: str, length: int
) -> None:
    make, orders = sampler_and_orders(algorithm, env, length)
    first = make()
    first.follow(orders)
    state: Any = None
    for _ in range(9):
        state = with_logs_joined(first.sample().place, state)
        np.testing.assert_equal(state, first.state())
    make, orders = sampler_and_orders(algorithm, env, length)
    second = make(state=state)
    second.follow(orders)
    for _ in range(3):
        expected, found = first.sample(), second.sample()
        assert (found.fragment, found.env_slots_restarted) == (expected.fragment, 0)
        np.testing.assert_equal(columns(found), columns(expected))
        np.testing.assert_equal(found.place["worker"]["slots"][0]["hash"], expected.place["worker"]["slots"][0]["hash"])
    first.close()
    second.close()


def test_fragments_include_the_sampler_state_only_on_request() -> None:
    make, orders = sampler_and_orders(ALGORITHMS["noisy DQN"], "CartPole-v1", 2)
    sampler = make(sends_place=False)
    sampler.follow(orders)
    assert sampler.sample().place is None
    sampler.close()


def test_the_tail_of_an_action_log_is_appended_to_the_log_of_the_previous_state() -> None:
    def tail(rows: list[int], length: int) -> LogTail:
        return LogTail(np.array(rows), length)

    before = {"slots": [{"actions": np.array([1, 2])}, {"actions": np.array([3, 4])}], "noise": {}}
    place = {"slots": [{"actions": tail([5], 3)}, {"actions": tail([], 0)}], "noise": {"x": 1.0}}
    joined = with_logs_joined(place, before)
    np.testing.assert_equal(joined, {"slots": [{"actions": [1, 2, 5]}, {"actions": []}], "noise": {"x": 1.0}})
    np.testing.assert_equal(with_logs_joined(tail([7, 8], 2), None), [7, 8])


class ActorsHere:
    """Stand-in for supervised actors that decides itself when which actor answers or dies."""

    restarts = 0

    def __init__(self, make: Any, indices: Sequence[int], **_: Any) -> None:
        self.make = make
        self.samplers = {index: make(index)() for index in indices}
        self.asked: list[Call] = []
        self.dies = 0

    def ask(self, index: int, method: str) -> Call:
        self.asked.append(Call(index, method, ()))
        return self.asked[-1]

    def attend(self) -> None:
        answered, self.asked = [call for call in self.asked if call.actor != self.dies], []
        for call in answered:
            call.take(self.samplers[call.actor].sample())
        if self.dies:
            self.samplers[self.dies] = self.make(self.dies)()
            self.samplers[self.dies].follow(self.told)

    def tell(self, method: str, orders: Orders, only: int | None, about: Any) -> None:
        self.told = orders
        for sampler in self.samplers.values():
            sampler.follow(orders)


def test_a_replacement_for_a_lost_worker_resumes_after_the_last_delivered_fragment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_workers, "SupervisedActors", ActorsHere)
    make, orders = sampler_and_orders(ALGORITHMS["recurrent PPO"], "CartPole-v1", 3)
    limits: dict[str, Any] = {"marks": None, "num_cpus": 1.0, "num_gpus": 0.0, "timeout_s": 1.0, "max_restarts": 9}
    workers = RemoteWorkers(*make.args[1:], (1, 2), send_places=True, **limits)
    actors: Any = workers._actors
    workers.order(orders)
    for dies in (0, 0, 2, 1):  # worker 1 has answered when worker 2 is restarted; its answer counts once
        actors.dies = dies
        for worker in (1, 2):
            workers.request(worker)
        workers.arrived()
    alone = make()
    alone.follow(orders)
    for _ in range(3):
        alone.sample()
    np.testing.assert_equal(actors.samplers[1].state(), alone.state())
    assert workers.due() == [3, 3]
