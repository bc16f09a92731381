"""Stacks of frames are restored exactly, although each frame is stored only once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.replay.ring import ReplayRing


class StackedWorld:
    """Columns of stacks [S, 2, 3] with unique frames; each episode begins in one of several ways."""

    def __init__(self, columns: int, num_frames: int, rng: np.random.Generator, first: int = 1) -> None:
        self.columns, self.num_frames, self.rng, self.next_number = columns, num_frames, rng, first
        self.ended = np.zeros(columns, np.bool_)
        self.stacks = np.stack([self.begin() for _ in range(columns)])

    def frame(self) -> np.ndarray:
        self.next_number += 1
        return np.full((2, 3), self.next_number, np.uint16)

    def begin(self) -> np.ndarray:
        newest, kind = self.frame(), self.rng.integers(3)
        if kind == 2:  # frames from before the episode, all different
            return np.stack([*(self.frame() for _ in range(self.num_frames - 1)), newest])
        older = [newest, np.zeros((2, 3), np.uint16)][kind]
        return np.stack([older] * (self.num_frames - 1) + [newest])

    def step(self) -> None:
        for column in range(self.columns):
            if self.ended[column]:
                self.stacks[column] = self.begin()
            else:
                self.stacks[column] = np.concatenate([self.stacks[column, 1:], self.frame()[None]])

    def fragment(self, length: int) -> SampleBatch:
        obs, shape = [self.stacks.copy()], (length, self.columns)
        terminateds, valid = self.rng.random(shape) < 0.2, np.ones(shape, np.bool_)
        for t in range(length):
            valid[t] = ~self.ended
            terminateds[t] &= valid[t]
            self.step()
            self.ended = terminateds[t]
            obs.append(self.stacks.copy())
        return SampleBatch(
            obs=np.stack(obs),
            actions=np.zeros(shape, np.int64),
            rewards=np.ones(shape),
            terminateds=terminateds,
            truncateds=np.zeros(shape, np.bool_),
            valid=valid,
        )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_frames=st.integers(2, 4),
    n_step=st.integers(1, 3),
    inserts=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 6), st.integers(0, 5)), min_size=1, max_size=20),
)
def test_rebuilt_stacks_equal_those_of_a_ring_that_stores_them_whole(
    seed: int, num_frames: int, n_step: int, inserts: list[tuple[int, int, int]]
) -> None:
    rng = np.random.default_rng(seed)
    rings = [ReplayRing(2 * 2 * 24, 2, n_step, 0.9, frame_stack=stack) for stack in (None, num_frames)]
    worlds = [StackedWorld(2, num_frames, rng, first=1 + 10_000 * worker) for worker in range(2)]
    for worker, length, breaks in inserts:
        if breaks == 0:
            worlds[worker] = StackedWorld(2, num_frames, rng, first=worlds[worker].next_number)
        fragment = worlds[worker].fragment(length)
        (whole,), (ring,) = (ring.insert(worker, fragment) for ring in rings)
        assert ring.rows.tolist() == whole.rows.tolist()
        lost = {(rings[0].rows + row) % rings[0].rows for row in ring.lost.tolist()}
        assert lost >= set(whole.lost.tolist())
    whole, ring = rings
    indices = np.arange(whole.streams.num_indices)
    # Only the oldest rows cannot be drawn, because their frames are gone.
    missing = whole.ready.has(indices) & ~ring.ready.has(indices)
    assert not (ring.ready.has(indices) & ~whole.ready.has(indices)).any()
    if missing.any():
        assert whole.streams.rows_ahead(indices[missing]).min() > whole.rows - 1 - num_frames
    ready = indices[ring.ready.has(indices)]
    assert len(ready) == ring.ready.number
    expected, found = whole.gather(ready), ring.gather(ready)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)
    readable = indices[ring.streams.rows_ahead(indices) >= 0]
    assert set(ready.tolist()) <= set(readable.tolist())
    np.testing.assert_array_equal(ring.read(readable, ["obs"])["obs"], whole.read(readable, ["obs"])["obs"])
    restored = ReplayRing(2 * 2 * 24, 2, n_step, 0.9, frame_stack=num_frames)
    restored.load_state(ring.state())
    for each in (ring, restored):
        each.insert(0, StackedWorld(2, num_frames, np.random.default_rng(0), first=50_000).fragment(5))
    drawn = ring.draw(np.random.default_rng(1), 200)
    assert restored.draw(np.random.default_rng(1), 200).tolist() == drawn.tolist()
    np.testing.assert_array_equal(restored.gather(drawn)["next_obs"], ring.gather(drawn)["next_obs"])


def test_memory_of_overwritten_whole_stacks_is_released() -> None:
    world, ring = StackedWorld(2, 3, np.random.default_rng(0)), ReplayRing(2 * 30, 1, 1, 0.9, frame_stack=3)
    most = []
    for _ in range(40):
        ring.insert(0, world.fragment(10))
        most.append(ring.num_bytes)
    # Each of the 60 indices may hold a frame, a count, and six other numbers and bytes, plus at most two more frames.
    assert max(most) <= 60 * (12 + 1 + 8 + 4 + 4) + 60 * 2 * 12
    assert max(most[20:]) <= max(most[:20]) + 10 * 24


def test_parts_that_are_not_stacks_are_stored_alongside() -> None:
    world, ring = StackedWorld(1, 3, np.random.default_rng(0)), ReplayRing(40, 1, 1, 0.9, frame_stack=3)
    fragment = world.fragment(8)
    stacks = fragment["obs"]
    fragment["obs"] = {"camera": stacks, "speed": stacks[..., 0, 0, 0].astype(np.float32)}
    ring.insert(0, fragment)
    indices = np.arange(9)
    found = ring.read(indices, ["obs"])["obs"]
    np.testing.assert_array_equal(found["camera"], stacks[:, 0])
    np.testing.assert_array_equal(found["speed"], fragment["obs"]["speed"][:, 0])


def test_observations_that_are_not_stacks_of_the_configured_size_are_refused(wording) -> None:
    ring = ReplayRing(40, 1, 1, 0.9, frame_stack=4)
    with wording.raised(UsageError, "frame_stack"):
        ring.insert(0, StackedWorld(1, 3, np.random.default_rng(0)).fragment(4))


def test_a_million_steps_of_atari_take_less_than_8_gigabytes() -> None:
    """The test uses a hundredth; unwritten arrays take no memory."""
    config = ReplayConfig(capacity=10_000, sampling="prioritized", frame_stack=4)
    replay = ReplayBuffer(config, num_workers=1, n_step=3, gamma=0.99, seed=0)
    shape = (4, 1)
    fragment = SampleBatch(
        obs=np.zeros((5, 1, 4, 84, 84), np.uint8),
        actions=np.zeros(shape, np.int64),
        rewards=np.zeros(shape),
        terminateds=np.zeros(shape, np.bool_),
        truncateds=np.zeros(shape, np.bool_),
        valid=np.ones(shape, np.bool_),
    )
    replay.add(0, SampleBatch(fragment, priorities=np.ones(shape, np.float32)))
    assert 7.0e9 < 100 * replay.num_bytes < 7.2e9


def test_sampled_pong_transitions_equal_the_recorded_observations() -> None:
    pytest.importorskip("ale_py")
    config = EnvConfig(id="ALE/Pong-v5", kwargs={"max_num_frames_per_episode": 100})
    env = make_vector_env(config, 2, EpisodeSeeds(0, 0))
    rng, obs = np.random.default_rng(0), [env.reset().copy()]
    columns: dict[str, list[Any]] = {name: [] for name in ("actions", "rewards", "terminateds", "truncateds", "valid")}
    for _ in range(90):
        actions = rng.integers(0, 6, 2)
        ended = columns["truncateds"][-1] if columns["truncateds"] else np.zeros(2, np.bool_)
        observations, rewards, terminateds, truncateds, _ = env.step(actions)
        obs.append(observations.copy())
        for name, row in zip(columns, (actions, rewards, terminateds, truncateds, ~ended), strict=True):
            columns[name].append(np.array(row))
    env.close()
    assert np.sum(columns["truncateds"]) >= 4
    steps = {name: np.stack(column) for name, column in columns.items()}
    ring = ReplayRing(2 * 100, 1, 1, 0.9, frame_stack=4)
    for first in range(0, 90, 15):
        fragment = SampleBatch({name: column[first : first + 15] for name, column in steps.items()})
        ring.insert(0, SampleBatch(fragment, obs=np.stack(obs[first : first + 16])))
    assert ring.ready.number == steps["valid"].sum()
    indices = np.arange(2 * 90).reshape(90, 2)
    seen = np.stack(obs)
    np.testing.assert_array_equal(ring.read(indices, ["obs"])["obs"], seen[:-1])
    batch = ring.gather(indices.ravel())
    np.testing.assert_array_equal(batch["next_obs"].reshape(seen[1:].shape), seen[1:])
    # In addition to 200 frames, there are three for the first stack of each episode. Two episodes begin with the run.
    begun = 2 + (~steps["valid"]).sum()
    assert ring.num_bytes < 84 * 84 * (200 + 3 * begun) + 200 * 30
