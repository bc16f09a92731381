"""An inference server in this process: same rows as with workers that act themselves, in any order of arrival."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlrun import APPO, DQN, PPO, R2D2, Apex, Impala, Training
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.nn.acting import Heads
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.inference import grouped_worker
from rlrun.engine.rollout.inference.grouped_worker import GroupedWorker
from rlrun.engine.rollout.inference.server import (
    Answer,
    EnvGroup,
    InferenceServer,
    NetworkKey,
    Request,
    StateChange,
)
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.rollout.worker import Orders

KEY = NetworkKey("default", 0)


class Scaled:
    """Outputs the weight times the observation plus the recurrent state, which sums the observations."""

    state_size = 1

    def __init__(self) -> None:
        self.weight = np.float32(0)
        self.sizes: list[int] = []

    def load(self, flat: NDArray[np.float32]) -> None:
        self.weight = flat[0]

    def __call__(self, inputs: Mapping[str, Any], state: Any = None, starts: Any = None, noise: Any = None) -> Any:
        if inputs["obs"].min() < 0:
            raise ValueError("a negative observation")
        self.sizes.append(len(state))
        heads: Heads = {"outputs": self.weight * inputs["obs"] + state}
        return heads, state + inputs["obs"]


def weights(version: int, value: float = 2.0) -> Orders:
    return Orders({"default": Weights(version, np.array([value], np.float32))})


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(4)
    yield pool
    pool.shutdown(wait=False)


class Caller:
    """A client with two env slots, which observes `observation` in both."""

    def __init__(self, server: InferenceServer, threads: ThreadPoolExecutor, worker: int, life: int = 1) -> None:
        self.server, self.threads, self.client, self.life = server, threads, EnvGroup(worker, 0), life

    def ask(self, turn: tuple[int, int], observation: float, state: Any, version: int = 0) -> Future[Answer | None]:
        inputs = {"obs": np.full((2, 1), observation, np.float32)}
        request = Request(self.client, self.life, turn, KEY, version, inputs, None, state)
        return self.threads.submit(self.server.answer, request)

    def outputs(self, *arguments: Any) -> list[float]:
        answer = self.ask(*arguments).result()
        assert answer is not None
        found: list[float] = answer.heads["outputs"][:, 0].tolist()
        return found


ZEROS = np.zeros((2, 1), np.float32)
UNCHANGED = StateChange(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0), np.float32))


def server_of(network: Any, **more: Any) -> InferenceServer:
    return InferenceServer({"default": [network]}, 2, **{"by_round": True, "max_batch": None, "device": "cpu", **more})


def test_each_round_takes_one_forward_pass_with_the_state_kept_on_the_server(threads: ThreadPoolExecutor) -> None:
    server = server_of(network := Scaled())
    one, two = Caller(server, threads, 1), Caller(server, threads, 2)
    server.follow((1, weights(0)))
    assert one.outputs((0, 0), 3.0, ZEROS) == [6.0, 6.0]
    assert two.outputs((0, 0), 5.0, ZEROS) == [10.0, 10.0]  # from now on, the server knows both workers
    first = one.ask((0, 1), 1.0, UNCHANGED)
    second = two.ask((0, 1), 1.0, StateChange(np.array([1]), np.array([0]), np.zeros((1, 1), np.float32)))
    answers = [asked.result() for asked in (first, second)]
    assert [answer.rows for answer in answers if answer] == [4, 4]
    assert [answer.heads["outputs"][:, 0].tolist() for answer in answers if answer] == [[5.0, 5.0], [7.0, 2.0]]
    assert set(network.sizes) == {4}  # each pass has the rows of all workers, even if some are absent
    server.close()


def test_the_server_does_not_wait_for_a_client_that_has_finished_its_fragment(threads: ThreadPoolExecutor) -> None:
    server = server_of(Scaled())
    one, two = Caller(server, threads, 1), Caller(server, threads, 2)
    server.follow((1, weights(0)))
    two.outputs((0, 0), 5.0, ZEROS)
    server.leave(two.client, two.life, 0)
    assert one.outputs((0, 0), 3.0, ZEROS) == [6.0, 6.0]
    assert one.outputs((0, 1), 3.0, UNCHANGED) == [9.0, 9.0]
    server.close()


def test_a_restarted_worker_gets_the_same_answers_as_before_and_its_lost_steps_are_counted(
    threads: ThreadPoolExecutor,
) -> None:
    server = server_of(Scaled())
    one, two = Caller(server, threads, 1), Caller(server, threads, 2)
    server.follow((1, weights(0)))
    before = two.outputs((0, 0), 5.0, ZEROS)
    one.outputs((0, 0), 3.0, ZEROS)
    again = Caller(server, threads, 2, life=2)
    assert again.ask((0, 0), 5.0, UNCHANGED).result() is None  # a restarted worker does not get its former state
    answer = again.ask((0, 0), 5.0, ZEROS).result()
    assert answer is not None
    assert answer.heads["outputs"][:, 0].tolist() == before
    assert answer.lost_steps == 2
    server.close()


def test_a_request_waits_for_the_weights_version_it_asks_for(threads: ThreadPoolExecutor) -> None:
    server = server_of(Scaled())
    one = Caller(server, threads, 1)
    asked = one.ask((0, 0), 3.0, ZEROS, 7)
    server.follow((2, weights(7, value=4.0)))
    server.follow((1, weights(6, value=9.0)))  # sent earlier, arrived later
    answer = asked.result()
    assert answer is not None
    assert (answer.version, answer.heads["outputs"][0, 0]) == (7, 12.0)
    server.close()


def test_no_forward_pass_has_more_than_max_batch_rows(threads: ThreadPoolExecutor) -> None:
    server = server_of(network := Scaled(), max_batch=3)
    server.follow((1, weights(0)))
    assert Caller(server, threads, 2).outputs((0, 0), 3.0, ZEROS) == [6.0, 6.0]
    assert network.sizes == [3, 1]
    server.close()


def test_an_exception_in_a_network_reaches_the_worker(threads: ThreadPoolExecutor) -> None:
    server = server_of(Scaled())
    server.follow((1, weights(0)))
    with pytest.raises(ValueError, match="negative"):
        Caller(server, threads, 1).ask((0, 0), -3.0, ZEROS).result()
    server.close()


SMALL = {"num_workers": 2, "num_envs_per_worker": 4, "rollout_fragment_length": 12}
DENSE = {"hiddens": [8]}
LSTM = {"hiddens": [8], "core": "lstm", "core_width": 4}

CASES: dict[str, tuple[Any, Callable[..., Algorithm[Any]], dict[str, Any]]] = {
    "ppo with an lstm, filters and views": (
        "CartPole-v1",
        PPO,
        {"model": {**LSTM, "views": {"prev_actions": 2}}, "normalize_observations": True, "normalize_rewards": True},
    ),
    "impala": ("CartPole-v1", Impala, {"model": DENSE}),
    "appo with gSDE": ("Pendulum-v1", APPO, {"model": {**DENSE, "use_sde": True}}),
    "apex": ("CartPole-v1", Apex, {"model": DENSE}),
    "r2d2": ("CartPole-v1", R2D2, {"model": LSTM}),
    "dqn": ("CartPole-v1", DQN, {"model": DENSE}),
    "ppo with masks": ("rlrun.toys:MaskedGrid", PPO, {"model": DENSE}),
}


def worker_sets(env: Any, algorithm: Callable[..., Algorithm[Any]], settings: dict[str, Any]) -> Iterator[Any]:
    """Yields config, networks and weights of a training whose workers act, then of one with a server."""
    for inference in ({}, {"inference": {"at": "trial"}}):
        description = Training(env, algorithm(**{**SMALL, **settings, **inference}), seed=3).description
        running = description.assembled(print, "eager", {})  # processes would start on first use, which never comes
        orders = Orders({own.name: own.weights() for own in running.trainees})
        yield running.workers.config, running.workers.served, orders


def fragments(worker: Any, number: int = 2) -> list[SampleBatch]:
    found = [worker.sample() for _ in range(number)]
    worker.close()
    return [rollout.batches["default"] for rollout in found]


@pytest.mark.parametrize("case", CASES)
def test_grouped_workers_collect_the_same_rows_as_workers_that_run_the_policy_locally(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own, _, orders), (config, served, _) = worker_sets(*CASES[case])
    expected = []
    for index in (1, 2):
        alone = RolloutWorker(copy.deepcopy(dataclasses.replace(own, worker_index=index)))  # as in another process
        alone.follow(orders)
        expected.append(fragments(alone))
    server = InferenceServer(served.networks, 2, by_round=True, max_batch=None, device="cpu")
    server.follow((1, orders))
    monkeypatch.setattr(grouped_worker, "RemoteServer", lambda name: server)
    grouped = [GroupedWorker(dataclasses.replace(config, worker_index=index, groups=served.groups)) for index in (1, 2)]
    for worker in grouped:
        worker.follow(orders)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(fragments, grouped))
    server.close()
    for left, right in zip(chain(*expected), chain(*found), strict=True):
        assert (right.pop("weights_version") == 0).all()
        assert set(left) == set(right)
        for (name, one), (_, other) in zip(
            named_leaves(left), named_leaves({key: right[key] for key in left}), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)
