"""A replay of sequences compared with a list of everything that happened."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np
import pytest

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.replay.sequences import SequenceReplay
from tests.rounding import rounding_error

GAMMA, WIDTH = 0.9, 2


class Stream:
    """One worker's experience: numbers that encode their origin, with episodes of random lengths."""

    def __init__(self, seed: int, columns: int) -> None:
        self.drawn = np.random.default_rng(seed)
        self.columns = columns
        self.reset_slots()
        self.rows: list[dict[str, Any]] = []

    def reset_slots(self) -> None:
        """Begins new episodes in all columns, like a restarted worker."""
        self.obs = self.drawn.normal(size=(self.columns, 1)).astype(np.float32)
        self.starts, self.finals = np.ones(self.columns, np.bool_), np.zeros(self.columns, np.bool_)

    def fragment(self, length: int) -> SampleBatch:
        new = [self.step() for _ in range(length)]
        self.rows += new
        batch = {name: np.stack([row[name] for row in new]) for name in new[0]}
        batch["obs"] = np.concatenate([batch["obs"], self.obs[None]])
        return SampleBatch(batch)

    def step(self) -> dict[str, Any]:
        ends = (self.drawn.random(self.columns) < 0.25) & ~self.finals
        terminateds = ends & (self.drawn.random(self.columns) < 0.5)
        row = {
            "obs": self.obs,
            "episode_starts": self.starts,
            "valid": ~self.finals,
            "state": self.drawn.normal(size=(self.columns, WIDTH)).astype(np.float32),
            "actions": self.drawn.integers(5, size=self.columns),
            "rewards": np.where(self.finals, 0.0, self.drawn.normal(size=self.columns)).astype(np.float32),
            "terminateds": terminateds,
            "truncateds": ends & ~terminateds,
        }
        self.starts, self.finals = self.finals, ends
        self.obs = self.drawn.normal(size=(self.columns, 1)).astype(np.float32)
        return row


PRIORITIZED = {"sampling": "prioritized", "priority_alpha": 0.9, "priority_beta": 0.6}


def folded_by_a_loop(rows: list[dict[str, Any]], t: int, column: int, n_step: int) -> tuple[float, float, int]:
    total, discount = 0.0, 1.0
    for j in range(n_step):
        row = rows[t + j]
        total += discount * row["rewards"][column]
        discount *= 0.0 if row["terminateds"][column] else GAMMA
        if row["terminateds"][column] or row["truncateds"][column]:
            return total, discount, j + 1
    return total, discount, n_step


def replay_of(capacity: int, *, num_workers: int = 1, n_step: int = 3, **settings: Any) -> SequenceReplay:
    config = SequenceReplayConfig(
        capacity=capacity,
        **{
            "sampling": "prioritized",
            "priority_alpha": 0.9,
            "priority_beta": 0.6,
            "burn_in": 4,
            "length": 6,
            "stride": 3,
            **settings,
        },
    )
    return SequenceReplay(config, num_workers=num_workers, n_step=n_step, gamma=GAMMA, seed=1)


@pytest.mark.parametrize("capacity", [10_000, 2 * 2 * 61])
@pytest.mark.parametrize(("burn_in", "n_step"), [(4, 3), (0, 1)])
def test_sequences_contain_consecutive_steps_as_recorded(capacity: int, burn_in: int, n_step: int) -> None:
    columns = 2
    replay = replay_of(capacity, num_workers=2, n_step=n_step, burn_in=burn_in)
    streams = [Stream(worker, columns) for worker in range(2)]
    fragments = np.random.default_rng(3).integers(1, 8, size=40)
    for length in fragments:
        for worker, stream in enumerate(streams):
            replay.add(worker, stream.fragment(int(length)))
    span = burn_in + 6 + n_step
    where = {
        row["obs"][column].tobytes(): (worker, t, column)
        for worker, stream in enumerate(streams)
        for t, row in enumerate(stream.rows)
        for column in range(columns)
    }
    found = replay.gather(np.flatnonzero(replay._ready))
    firsts = set()
    for s, state in enumerate(found["state"]):
        # A final observation is kept only after its episode's last step. Otherwise its row is zero, and the next row is
        # a step.
        worker, t, column = where[found["obs"][s, 0 if found["obs"][s, 0].any() else 1].tobytes()]
        rows = streams[worker].rows
        t -= not found["obs"][s, 0].any()
        firsts.add((worker, t, column))
        steps = [bool(row["valid"][column]) for row in rows[t : t + span]] + [False]
        obs = [*(row["obs"][column] for row in rows), streams[worker].obs[column]]
        for k in range(span):
            is_read = steps[k] or (k > 0 and steps[k - 1])
            np.testing.assert_array_equal(found["obs"][s, k], obs[t + k] if is_read else 0)
        np.testing.assert_array_equal(state, rows[t]["state"][column] if steps[0] else 0)
        starts = [row["episode_starts"][column] for row in rows[t : t + span]]
        np.testing.assert_array_equal(found["episode_starts"][s][: len(starts)], starts)
        for k in range(6):
            at = t + burn_in + k
            assert found["valid"][s, k] == rows[at]["valid"][column]
            if not found["valid"][s, k]:
                continue
            assert found["actions"][s, k] == rows[at]["actions"][column]
            rewards, discount, steps = folded_by_a_loop(rows, at, column, n_step)
            near = rounding_error(n_step)
            assert found["rewards"][s, k] == pytest.approx(rewards, rel=near, abs=near)
            assert found["discounts"][s, k] == pytest.approx(discount, rel=near)
            assert found["steps"][s, k] == steps
    total = len(streams[0].rows)
    kept = min(capacity // (2 * columns), total + 1)
    oldest = total + 1 - kept
    assert len(firsts) == replay.num_ready
    if capacity == 10_000:
        assert firsts == {
            (worker, t, c) for worker in range(2) for t in range(0, total - span + 2, 3) for c in range(2)
        }
    else:
        assert {t for _, t, _ in firsts} <= set(range(oldest, total - span + 2))
        assert len(firsts) == pytest.approx(2 * columns * (kept - span) / 3, abs=2 * columns)


def test_a_stored_stream_that_was_interrupted_ends_with_its_last_observation() -> None:
    replay, stream = replay_of(1000, burn_in=0, length=4, n_step=2, stride=1), Stream(0, 1)
    replay.add(0, stream.fragment(6))
    stream.rows[-1].update(terminateds=np.array([False]), truncateds=np.array([False]))
    last = stream.obs.copy()
    stream.reset_slots()
    replay.add(0, stream.fragment(6))
    before = replay.gather(np.array([3]))
    np.testing.assert_array_equal(before["obs"][0, 3], last[0])
    assert before["episode_starts"][0].tolist()[3:5] == [False, True]
    assert before["valid"][0].tolist()[2:] == [stream.rows[5]["valid"][0], False]
    assert not before["valid"][0, 2] or before["steps"][0, 2] == 1


def test_no_sequence_is_ready_until_all_of_its_steps_are_stored() -> None:
    replay, stream = replay_of(1000), Stream(0, 1)
    for _ in range(11):
        replay.add(0, stream.fragment(1))
        assert replay.num_ready == 0
    replay.add(0, stream.fragment(1))
    assert replay.num_ready == 1
    assert replay.sample(5, 0)["indices"].tolist() == [0] * 5
    assert replay.stored_steps == sum(int(row["valid"].sum()) for row in stream.rows)


def test_every_sequence_is_drawn_equally_often() -> None:
    replay, stream = replay_of(1000, sampling="uniform"), Stream(0, 2)
    replay.add(0, stream.fragment(60))
    counts = np.bincount(replay.sample(40_000, 0)["indices"], minlength=replay.num_ready)
    assert len(counts) == replay.num_ready == 2 * 17
    expected = 40_000 / len(counts)
    assert ((counts - expected) ** 2 / expected).sum() < 63.9  # chi-square, 33 degrees of freedom, p = 0.001


@pytest.mark.parametrize("sampling", ["uniform", "prioritized"])
def test_minibatches_drawn_together_equal_those_drawn_one_by_one(sampling: Any) -> None:
    together, one_by_one = (replay_of(1000, sampling=sampling) for _ in range(2))
    for replay in (together, one_by_one):
        replay.add(0, Stream(0, 2).fragment(60))
    found = together.sample(5, 0, 3)
    expected = [one_by_one.sample(5, 0) for _ in range(3)]
    for name, column in found.items():
        np.testing.assert_array_equal(column, np.concatenate([minibatch[name] for minibatch in expected]))
    assert together.drawn_batches == one_by_one.drawn_batches == 3


def test_sequences_are_sampled_by_priority_and_new_ones_have_the_largest_priority() -> None:
    replay, stream = replay_of(1000, priority_alpha=1.0, priority_beta=0.5, priority_epsilon=1e-9), Stream(0, 1)
    replay.add(0, stream.fragment(19))
    assert replay.num_ready == 3
    replay.update_priorities(np.array([0, 1, 2]), np.array([1.0, 2.0, 5.0], np.float32))
    batch = replay.sample(8000, 0)
    np.testing.assert_allclose(np.bincount(batch["indices"]) / 8000, [1 / 8, 2 / 8, 5 / 8], atol=1e-3)
    weights = {index: weight for index, (weight,) in zip(batch["indices"].tolist(), batch["weights"], strict=True)}
    assert weights == pytest.approx({0: 1.0, 1: 2**-0.5, 2: 5**-0.5})
    replay.add(0, stream.fragment(3))
    counts = np.bincount(replay.sample(13_000, 0)["indices"])
    np.testing.assert_allclose(counts / 13_000, [1 / 13, 2 / 13, 5 / 13, 5 / 13], atol=1e-3)


def test_updating_the_priority_of_an_overwritten_sequence_has_no_effect() -> None:
    replay, stream = replay_of(60), Stream(0, 1)
    replay.add(0, stream.fragment(40))
    drawn = replay.sample(20, 0)["indices"]
    replay.add(0, stream.fragment(40))
    before = replay.num_ready
    replay.update_priorities(drawn, np.full(20, 1e9, np.float32))
    again = replay.sample(500, 0)
    assert replay.num_ready == before
    kept = {row["state"][0].tobytes() for row in stream.rows[-59:]}
    begins_with_a_step = again["obs"][:, 0].any(axis=1)
    assert {state.tobytes() for state in again["state"][begins_with_a_step]} <= kept


@pytest.mark.parametrize("capacity", [70, 1000])
def test_rebuilt_stacks_in_sequences_equal_those_stored_whole(capacity: int) -> None:
    whole, once = replay_of(capacity), replay_of(capacity, frame_stack=3)
    stream, frames = Stream(0, 1), np.random.default_rng(4)
    stack = frames.integers(256, size=(3, 2, 2), dtype=np.uint8)
    for length in (5, 30, 8, 8, 8, 30, 8):
        fragment = stream.fragment(length)
        stacks = [stack]
        for new in frames.integers(256, size=(length, 1, 2, 2), dtype=np.uint8):
            stacks.append(np.concatenate([stacks[-1][1:], new]))
        stack = stacks[-1]
        fragment["obs"] = np.stack(stacks)[:, None]
        whole.add(0, fragment)
        once.add(0, fragment)
        ready = np.flatnonzero(once._ready)
        assert once.num_ready in (whole.num_ready, whole.num_ready - 1)
        if len(ready):
            np.testing.assert_array_equal(once.gather(ready)["obs"], whole.gather(ready)["obs"])
    assert once.num_bytes < whole.num_bytes


def test_a_buffer_that_is_not_saved_starts_empty_but_continues_its_random_draws() -> None:
    replay, other = (replay_of(1000, save_in_checkpoints=False) for _ in range(2))
    stream = Stream(0, 1)
    replay.add(0, stream.fragment(40))
    replay.sample(4, 0)
    other.load_state(pickle.loads(pickle.dumps(replay.state())))
    assert (other.stored_steps, other.drawn_batches, other.num_ready) == (0, 0, 0)
    more = stream.fragment(40)
    other.add(0, more)
    fresh = replay_of(1000)
    fresh.add(0, more)
    fresh.sample(4, 0)
    np.testing.assert_array_equal(other.sample(9, 0)["indices"], fresh.sample(9, 0)["indices"])


@pytest.mark.parametrize("sampling", ["uniform", "prioritized"])
def test_a_resumed_sequence_buffer_continues_identically(sampling: Any) -> None:
    replay, stream = replay_of(200, sampling=sampling), Stream(0, 2)
    for _ in range(12):
        replay.add(0, stream.fragment(7))
    drawn = replay.sample(4, 0)["indices"]
    replay.update_priorities(drawn, np.arange(4, dtype=np.float32))
    other = replay_of(200, sampling=sampling)
    other.load_state(pickle.loads(pickle.dumps(replay.state())))
    more = stream.fragment(5)
    for each in (replay, other):
        each.add(0, more)
    assert (other.num_ready, other.stored_steps, other.drawn_batches) == (
        replay.num_ready,
        replay.stored_steps,
        replay.drawn_batches,
    )
    expected, found = replay.sample(50, 0), other.sample(50, 0)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)


def test_a_capacity_that_is_too_small_for_a_sequence_is_refused() -> None:
    replay, stream = replay_of(15), Stream(0, 1)
    with pytest.raises(UsageError, match="at least 16"):
        replay.add(0, stream.fragment(2))


def test_sequences_include_the_extra_columns_of_a_config() -> None:
    class WithLogProbs(SequenceReplayConfig):
        extra_columns: ClassVar[tuple[str, ...]] = ("logp",)

    config = WithLogProbs(capacity=200, burn_in=1, length=3, stride=1)
    replay, stream = SequenceReplay(config, num_workers=1, n_step=1, gamma=GAMMA, seed=1), Stream(1, 2)
    for _ in range(4):
        fragment = stream.fragment(5)
        replay.add(0, SampleBatch(fragment, logp=10 * fragment["rewards"] - 1))
    found = replay.sample(16, 0)
    expected = np.where(found["valid"], 10 * found["rewards"] - 1, 0)
    np.testing.assert_allclose(found["logp"], expected, rtol=1e-6)
    assert not found["valid"].all()
