"""The ring stores streams of experience, and everything drawn from it really happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.engine.replay.ring import ReplayRing

GAMMA = 0.5


class Stream:
    """A worker in a world whose observations are unique numbers.

    It follows the rule of vector envs: the row after an episode's end holds its final observation, and no step.
    """

    def __init__(self, columns: int, rng: np.random.Generator, first: float = 0.0) -> None:
        self.columns, self.rng = columns, rng
        self.next_number = first
        self.ended = np.zeros(columns, np.bool_)
        self.history: list[list[dict[str, Any]]] = [[] for _ in range(columns)]
        self.observations = self.new_observations()

    def new_observations(self) -> np.ndarray:
        numbers = self.next_number + np.arange(self.columns, dtype=np.float64)
        self.next_number += self.columns
        return numbers

    def fragment(self, length: int) -> SampleBatch:
        shape = (length, self.columns)
        obs = np.zeros((length + 1, self.columns, 1))
        obs[0, :, 0] = self.observations
        rewards = self.rng.integers(-8, 8, shape).astype(np.float64)
        terminateds, truncateds = self.rng.random(shape) < 0.15, self.rng.random(shape) < 0.15
        valid = np.ones(shape, np.bool_)
        actions = self.rng.integers(0, 100, shape)
        for t in range(length):
            for column in np.flatnonzero(self.ended):
                valid[t, column] = terminateds[t, column] = truncateds[t, column] = False
                rewards[t, column] = 0.0
            self.ended = terminateds[t] | truncateds[t]
            self.observations = self.new_observations()
            obs[t + 1, :, 0] = self.observations
            for column in range(self.columns):
                self.history[column].append(
                    {
                        "obs": obs[t, column, 0],
                        "next_obs": obs[t + 1, column, 0],
                        "action": actions[t, column],
                        "reward": rewards[t, column],
                        "terminated": terminateds[t, column],
                        "truncated": truncateds[t, column],
                        "valid": valid[t, column],
                    }
                )
        return SampleBatch(
            obs=obs,
            actions=actions,
            rewards=rewards,
            terminateds=terminateds,
            truncateds=truncateds,
            valid=valid,
            tags=10 * obs[:-1, :, 0],
        )


def expected_steps(history: list[dict[str, Any]], n_step: int, *, broken_off: bool) -> Iterator[dict[str, Any]]:
    """Yields the outcome of each step of a column, if it is already known: the ten-line oracle."""
    for t, step in enumerate(history):
        reward, discount, behind = 0.0, 1.0, history[t : t + n_step]
        if not step["valid"]:
            continue
        for last in behind:
            reward += discount * last["reward"]
            discount *= 0.0 if last["terminated"] else GAMMA
            if last["terminated"] or last["truncated"]:
                break
        else:
            if len(behind) < n_step and not broken_off:
                continue
        yield {**step, "next_obs": last["next_obs"], "reward": reward, "discount": discount}


def drawable(ring: ReplayRing) -> SampleBatch:
    """Returns every step that can be drawn, found by drawing."""
    rng = np.random.default_rng(0)
    indices = np.unique(ring.draw(rng, 40 * ring.num_workers * ring.rows * ring.num_slots)) if ring.ready.number else []
    return ring.gather(np.asarray(indices, np.int64))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_step=st.integers(1, 5),
    columns=st.integers(1, 3),
    rows=st.integers(14, 40),
    inserts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 7), st.integers(0, 7)), min_size=1, max_size=30),
)
def test_sampled_transitions_equal_recorded_ones(
    seed: int, n_step: int, columns: int, rows: int, inserts: list[tuple[int, int, int]]
) -> None:
    """This holds for any lengths of fragments, speeds of workers, episode ends, and restarts of workers."""
    rng = np.random.default_rng(seed)
    ring = ReplayRing(3 * columns * rows, 3, n_step, GAMMA, extra=("tags",))
    streams = [[Stream(columns, rng, first=worker * 1e6)] for worker in range(3)]
    ready: set[int] = set()
    for worker, length, breaks in inserts:
        stream = streams[worker][-1]
        if breaks == 0 and stream.history[0]:
            streams[worker].append(stream := Stream(columns, rng, first=stream.next_number))
        (inserted,) = ring.insert(worker, stream.fragment(length))
        assert not ready & set(inserted.ready.tolist()) - set(inserted.overwritten.tolist())
        ready = ready - set(inserted.overwritten.tolist()) | set(inserted.ready.tolist())
        assert len(ready) == ring.ready.number
    expected = {}
    for of_lane in streams:
        for number, stream in enumerate(of_lane):
            for column in range(columns):
                for step in expected_steps(stream.history[column], n_step, broken_off=number < len(of_lane) - 1):
                    expected[step["obs"]] = step
    batch = drawable(ring)
    found = batch["obs"][:, 0, 0].tolist()
    for i, obs in enumerate(found):
        step = expected[obs]
        assert batch["next_obs"][i, 0, 0] == step["next_obs"]
        assert batch["actions"][i, 0] == step["action"]
        assert batch["rewards"][i, 0] == np.float32(step["reward"])
        assert batch["discounts"][i, 0] == np.float32(step["discount"])
    assert len(set(found)) == len(found) == ring.ready.number == len(ready)
    # Only overwritten steps are missing, and these are older than the rows that the ring keeps of a worker.
    for of_lane in streams:
        for column in range(columns):
            history = [step for stream in of_lane for step in [*stream.history[column], None]][:-1]
            newest = [step["obs"] for step in history[max(len(history) - rows + 1, 0) :] if step is not None]
            assert {obs for obs in newest if obs in expected} <= set(found)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), lengths=st.lists(st.integers(1, 7), min_size=1, max_size=12))
def test_reading_the_stored_rows_in_order_reproduces_the_stream(seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    ring = ReplayRing(2 * 3 * 16, 2, 1, GAMMA, extra=("tags",))
    streams = [Stream(3, rng), Stream(3, rng)]
    for length in lengths:
        for worker, stream in enumerate(streams):
            (inserted,) = ring.insert(worker, stream.fragment(length))
            newest = (worker * ring.rows + inserted.rows[-1]) * 3 + np.arange(3)
            assert ring.streams.rows_ahead(newest).tolist() == [0, 0, 0]
            kept = min(len(stream.history[0]), 15)
            indices = ring.streams.later(newest[:, None], np.arange(-kept, 1))
            assert ring.streams.rows_ahead(indices).tolist() == [list(range(kept, -1, -1))] * 3
            batch = ring.read(indices, ("obs", "actions", "terminateds", "truncateds", "valid", "tags"))
            for column in range(3):
                steps = stream.history[column][-kept:]
                assert batch["obs"][column, :, 0].tolist() == [*(step["obs"] for step in steps), steps[-1]["next_obs"]]
                for name, key in (("actions", "action"), ("terminateds", "terminated"), ("valid", "valid")):
                    assert batch[name][column, :-1].tolist() == [step[key] for step in steps]
                assert batch["tags"][column, :-1].tolist() == [10 * step["obs"] for step in steps]
    everything = ring.streams.rows_ahead(np.arange(2 * 3 * 16))
    assert (everything >= 0).sum() == 2 * 3 * min(sum(lengths) + 1, 16)


def test_an_insertion_reports_the_rows_that_it_writes_and_overwrites() -> None:
    stream = Stream(1, np.random.default_rng(0))
    ring = ReplayRing(10, 1, 1, GAMMA)
    assert ring.insert(0, stream.fragment(4))[0].rows.tolist() == [0, 1, 2, 3, 4]
    assert ring.insert(0, stream.fragment(3))[0].rows.tolist() == [4, 5, 6, 7]
    (inserted,) = ring.insert(0, stream.fragment(4))
    assert inserted.rows.tolist() == [7, 8, 9, 0, 1]
    assert inserted.lost.tolist() == [7, 8, 9, 0, 1]
    (inserted,) = ring.insert(0, Stream(1, np.random.default_rng(0), first=1e6).fragment(2))
    assert inserted.rows.tolist() == [2, 3, 4]
    assert inserted.lost.tolist() == [1, 2, 3, 4]


def test_extra_columns_are_stored_only_if_they_are_named() -> None:
    ring = ReplayRing(20, 1, 1, GAMMA)
    ring.insert(0, Stream(1, np.random.default_rng(0)).fragment(4))
    with pytest.raises(KeyError, match="tags"):
        ring.read(np.zeros(1, np.int64), ("tags",))


def test_a_capacity_too_small_for_a_fragment_is_refused_with_the_minimum(wording) -> None:
    ring = ReplayRing(20, 1, 3, GAMMA)
    with wording.raised(UsageError, "10", "26"):
        ring.insert(0, Stream(2, np.random.default_rng(0)).fragment(8))
    ReplayRing(26, 1, 3, GAMMA).insert(0, Stream(2, np.random.default_rng(0)).fragment(8))


def test_drawing_before_a_complete_step_is_stored_is_an_error() -> None:
    ring = ReplayRing(20, 1, 3, GAMMA)
    with pytest.raises(RuntimeError, match="the replay buffer contains no complete step to sample"):
        ring.draw(np.random.default_rng(0), 1)


def test_draws_are_uniform_over_the_ready_steps_of_all_workers() -> None:
    rng = np.random.default_rng(1)
    ring = ReplayRing(2 * 2 * 50, 2, 3, GAMMA)
    fast, slow = Stream(2, rng), Stream(2, rng)
    for _ in range(12):
        ring.insert(0, fast.fragment(7))
    ring.insert(1, slow.fragment(9))
    drawn = ring.draw(np.random.default_rng(2), 200_000)
    indices, counts = np.unique(drawn, return_counts=True)
    assert len(indices) == ring.ready.number
    expected = 200_000 / ring.ready.number
    chi_square = ((counts - expected) ** 2 / expected).sum()
    degrees = ring.ready.number - 1
    assert abs(chi_square - degrees) < 4 * np.sqrt(2 * degrees)


def test_a_restored_ring_continues_identically() -> None:
    def insert(ring: ReplayRing, streams: list[Stream], times: int) -> None:
        for _ in range(times):
            ring.insert(0, streams[0].fragment(5))
            ring.insert(1, streams[1].fragment(2))

    for times in (0, 2, 9):
        streams = [Stream(2, np.random.default_rng(worker)) for worker in range(2)]
        ring = ReplayRing(2 * 2 * 20, 2, 3, GAMMA, extra=("tags",))
        insert(ring, streams, times)
        restored = ReplayRing(2 * 2 * 20, 2, 3, GAMMA, extra=("tags",))
        restored.load_state(ring.state())
        both = [Stream(2, np.random.default_rng(5)), Stream(2, np.random.default_rng(6))]
        again = [Stream(2, np.random.default_rng(5)), Stream(2, np.random.default_rng(6))]
        insert(ring, both, 3)
        insert(restored, again, 3)
        indices = ring.draw(np.random.default_rng(3), 500)
        assert restored.draw(np.random.default_rng(3), 500).tolist() == indices.tolist()
        for name, column in ring.gather(indices).items():
            np.testing.assert_array_equal(restored.gather(indices)[name], column)


@pytest.mark.parametrize("obs", [np.zeros((7, 2, 4)), {"a": np.zeros((7, 2, 1))}], ids=["wider", "a tree"])
def test_a_restored_ring_refuses_a_fragment_with_different_observations(obs: Any, wording) -> None:
    fragment = Stream(2, np.random.default_rng(0)).fragment(6)
    saved, restored = ReplayRing(40, 1, 2, GAMMA), ReplayRing(40, 1, 2, GAMMA)
    saved.insert(0, SampleBatch(fragment, obs=obs))
    restored.load_state(saved.state())
    with wording.raised(CheckpointError):
        restored.insert(0, fragment)


def test_nested_observations_are_stored_and_restored_from_a_checkpoint() -> None:
    fragment = Stream(2, np.random.default_rng(0)).fragment(6)
    numbers = fragment["obs"]
    fragment["obs"] = {"pose": (numbers[..., 0], -numbers), "gray": numbers[..., None].astype(np.uint8)}
    ring = ReplayRing(40, 1, 2, GAMMA)
    ring.insert(0, fragment)
    arrays: list[np.ndarray] = []
    state = decode(json.loads(json.dumps(encode(ring.state(), arrays))), arrays)
    restored = ReplayRing(40, 1, 2, GAMMA)
    restored.load_state(state)
    for each in (ring, restored):
        found = each.read(np.arange(14).reshape(7, 2), ["obs"])["obs"]
        np.testing.assert_array_equal(found["pose"][0], numbers[..., 0])
        np.testing.assert_array_equal(found["pose"][1], -numbers)
        np.testing.assert_array_equal(found["gray"], fragment["obs"]["gray"])


def test_n_step_returns_may_span_more_steps_than_fit_in_a_byte() -> None:
    ring = ReplayRing(700, 1, 300, 1.0)
    steps = Stream(1, np.random.default_rng(0)).fragment(320)
    never = np.zeros((320, 1), np.bool_)
    ring.insert(0, SampleBatch(steps, terminateds=never, truncateds=never, valid=~never, rewards=np.ones((320, 1))))
    batch = ring.gather(np.array([0]))
    assert batch["rewards"].item() == 300.0
    assert batch["next_obs"].item() == steps["obs"][300].item()
