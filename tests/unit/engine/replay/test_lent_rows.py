"""Memory that a replay buffer lends for a worker's next fragment: fragments in it are stored like any other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.replay.row_lender import LENT
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.training import Training

LENGTH, SLOTS = 3, 2
ACTIONS = np.empty((LENGTH, SLOTS), np.int64)


def replay_of(capacity: int = 40, n_step: int = 1, **config: Any) -> ReplayBuffer:
    return ReplayBuffer(ReplayConfig(capacity=capacity, **config), num_workers=1, n_step=n_step, gamma=0.9, seed=0)


def steps(first: int) -> SampleBatch:
    """Returns a fragment whose observations count on from a number; every fifth step terminates its episode."""
    numbers = np.arange(first, first + LENGTH + 1, dtype=np.float32)[:, None] + 1000 * np.arange(SLOTS)
    ends = np.isin(np.arange(first, first + LENGTH) % 6, (4,))[:, None] & np.ones((1, SLOTS), np.bool_)
    valid = np.isin(np.arange(first, first + LENGTH) % 6, (5,), invert=True)[:, None] & np.ones((1, SLOTS), np.bool_)
    return SampleBatch(
        obs=numbers[..., None].astype(np.float32),
        actions=np.full((LENGTH, SLOTS), first),
        rewards=np.where(valid, numbers[:-1], 0.0).astype(np.float32),
        terminateds=ends,
        truncateds=np.zeros_like(ends),
        valid=valid,
    )


def add_lent(replay: ReplayBuffer, fragment: SampleBatch, before: SampleBatch | None) -> SampleBatch:
    """Stores a fragment, recorded in lent memory if there is any; returns it as stored."""
    lent = None if before is None else replay.lend(0, LENGTH, before["obs"], ACTIONS)
    if lent is not None:
        np.testing.assert_array_equal(lent["obs"][0], fragment["obs"][0])
        for name in LENT:
            lent[name][...] = fragment[name]
        fragment = SampleBatch(fragment, **lent)
    replay.add(0, fragment)
    return fragment


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("sampling", ["uniform", "prioritized"])
def test_lent_rows_are_stored_like_copied_ones_when_the_ring_wraps_and_after_a_resume(
    n_step: int, sampling: Any
) -> None:
    lending, copying = replay_of(n_step=n_step, sampling=sampling), replay_of(n_step=n_step, sampling=sampling)
    before, num_lent = None, 0
    for first in range(0, 90, LENGTH):
        own = add_lent(lending, steps(first), before)
        copying.add(0, steps(first))
        num_lent += before is not None and own["obs"].base is not None
        before = own
        if first == 45:
            resumed = replay_of(n_step=n_step, sampling=sampling)
            resumed.load_state(lending.state())
            lending = resumed
        if lending.num_ready:
            ours, theirs = lending.sample(16, 0), copying.sample(16, 0)
            assert all(ours[name].tobytes() == theirs[name].tobytes() for name in theirs)
    assert num_lent >= 20  # a ring's first fragment, the first after a resume, and fragments that wrap are not lent


def test_steps_in_lent_rows_are_not_drawn_before_they_are_stored() -> None:
    for sampling in ("uniform", "prioritized"):
        replay, before = replay_of(sampling=sampling), None
        for first in range(0, 60, LENGTH):  # fills the ring of 20 rows
            before = add_lent(replay, steps(first), before)
        assert before is not None
        lent = replay.lend(0, LENGTH, before["obs"], ACTIONS)
        assert lent is not None
        for name in LENT:
            lent[name][-LENGTH:] = np.asarray(7777).astype(lent[name].dtype)
        batch = replay.sample(500, 0)
        assert not (batch["obs"] == 7777).any()
        assert not (batch["next_obs"] == 7777).any()
        assert not (batch["actions"] == 7777).any()


def test_a_column_that_an_operator_replaced_in_a_lent_fragment_is_copied() -> None:
    replay, before = replay_of(), None
    for first in range(0, 12, LENGTH):
        before = add_lent(replay, steps(first), before)
    assert before is not None
    lent = replay.lend(0, LENGTH, before["obs"], ACTIONS)
    assert lent is not None
    for name in LENT:
        lent[name][...] = steps(12)[name]
    replay.add(0, SampleBatch(steps(12), **{**lent, "actions": np.full((LENGTH, SLOTS), -1)}))
    found = replay.transitions()
    newest = (found["obs"][..., 0] % 1000) >= 12
    assert (found["actions"][newest] == -1).all()


def test_rows_are_lent_only_for_fragments_that_continue_the_stored_observations() -> None:
    replay = replay_of()
    assert replay.lend(0, LENGTH, None, ACTIONS) is None
    fragment = steps(0)
    replay.add(0, fragment)
    assert replay.lend(0, LENGTH, fragment["obs"].copy(), ACTIONS) is None
    assert replay.lend(0, LENGTH, fragment["obs"], ACTIONS) is not None


@pytest.mark.parametrize(
    ("algorithm", "env", "config"),
    [
        ("dqn", "CartPole-v1", {"n_step": 2, "num_envs_per_worker": 3, "rollout_fragment_length": 3}),
        ("sac", "Pendulum-v1", {"rollout_fragment_length": 2}),
    ],
)
def test_runs_with_lent_and_with_copied_fragments_learn_identically(
    algorithm: str, env: str, config: dict[str, Any]
) -> None:
    kind = algorithm_class(algorithm)
    settings = kind.Config.parse(
        {
            "learning_starts": 20,
            "minibatch_size": 8,
            "min_env_steps_per_iteration": 90,
            "replay": {"capacity": 100},
            "model": {"hiddens": [4]},
            "compile": False,
            **config,
        }
    )
    found = []
    for lends in (True, False):
        with Training(EnvConfig.parse(env), kind(settings), seed=1) as training:
            if not lends:
                training.running.workers.config.lenders["default"] = lambda length, after, actions: None
            training.step()
            assert len(training.running.workers.config.lenders) == 1
            found.append(training.running.trainee.learner.flat().tobytes())
    assert found[0] == found[1]


def test_a_worker_that_records_for_a_data_set_or_a_hook_borrows_no_memory() -> None:
    def lend(length: int, after: Any, actions: Any) -> SampleBatch | None:
        raise AssertionError("borrowed")

    kind = algorithm_class("dqn")
    with Training(EnvConfig.parse("CartPole-v1"), kind(kind.Config.parse({"compile": False}))) as training:
        config = replace(training.running.workers.config, records=True, lenders={"default": lend})
        worker = RolloutWorker(config)
        for _ in range(2):
            worker.sample()
        worker.close()
