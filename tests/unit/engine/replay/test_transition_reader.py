"""Transitions that C kernels sample: the same as NumPy's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig


def fragment(generator: np.random.Generator, length: int, slots: int, share_of_ends: float) -> SampleBatch:
    """Returns random steps with numbers of one to eight bytes, and the rows after their episodes' ends."""
    shape = (length, slots)
    ends = generator.random(shape) < share_of_ends
    terminateds = ends & (generator.random(shape) < 0.5)
    valid = np.ones(shape, np.bool_)
    for t in range(1, length):
        valid[t] = ~(ends[t - 1] & valid[t - 1])
    return SampleBatch(
        obs={
            "image": generator.integers(0, 256, (length + 1, slots, 5), np.uint8),
            "vector": generator.normal(size=(length + 1, slots, 3)).astype(np.float32),
        },
        actions=generator.integers(0, 9, shape),
        rewards=generator.normal(size=shape).astype(np.float32),
        terminateds=terminateds & valid,
        truncateds=ends & ~terminateds & valid,
        valid=valid,
    )


def buffer(n_step: int = 1, workers: int = 1, *, in_kernels: bool = True, **config: Any) -> ReplayBuffer:
    settings = ReplayConfig(capacity=70, **config)
    return ReplayBuffer(settings, num_workers=workers, n_step=n_step, gamma=0.9, seed=3, in_kernels=in_kernels)


def assert_equal_bits(ours: SampleBatch, theirs: SampleBatch) -> None:
    pairs = zip(named_leaves(dict(ours)), named_leaves(dict(theirs)), strict=True)
    for (name, own), (other_name, other) in pairs:
        assert (name, own.dtype, own.shape, own.tobytes()) == (other_name, other.dtype, other.shape, other.tobytes())


@settings(max_examples=60, deadline=None)
@given(
    n_step=st.integers(1, 3),
    slots=st.integers(1, 3),
    workers=st.integers(1, 2),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    size=st.integers(1, 9),
    number=st.integers(1, 3),
    share_of_ends=st.sampled_from([0.0, 0.2, 0.9]),
    sampling=st.sampled_from(["uniform", "prioritized"]),
    seed=st.integers(0, 1000),
)
def test_the_kernel_samples_the_same_indices_and_columns_as_numpy(
    n_step: int,
    slots: int,
    workers: int,
    lengths: list[int],
    size: int,
    number: int,
    share_of_ends: float,
    sampling: Any,
    seed: int,
) -> None:
    generator = np.random.default_rng(seed)
    ours, theirs = (buffer(n_step, workers, in_kernels=how, sampling=sampling) for how in (True, False))
    for i, length in enumerate(lengths):
        stored = fragment(generator, length, slots, share_of_ends)
        for each in (ours, theirs):
            each.add(i % workers, stored)
        if ours.num_ready:
            assert_equal_bits(ours.sample(size, 0, number), theirs.sample(size, 0, number))


def test_a_resumed_buffer_continues_from_the_middle_of_its_ring() -> None:
    generator = np.random.default_rng(0)
    whole = buffer(n_step=2)
    for _ in range(9):  # goes around the ring twice
        whole.add(0, fragment(generator, 17, 1, 0.1))
    whole.sample(5, 0)
    resumed = buffer(n_step=2)
    resumed.load_state(whole.state())
    for _ in range(3):
        stored = fragment(generator, 17, 1, 0.1)
        for each in (whole, resumed):
            each.add(0, stored)
        assert_equal_bits(resumed.sample(5, 0), whole.sample(5, 0))


def test_a_minibatch_is_not_overwritten_by_later_samples_or_fragments() -> None:
    generator = np.random.default_rng(0)
    replay = buffer()
    replay.add(0, fragment(generator, 20, 2, 0.1))
    first = replay.sample(8, 0)
    kept = first.map(np.copy)
    for _ in range(4):
        replay.add(0, fragment(generator, 20, 2, 0.1))
        replay.sample(8, 0)
    assert_equal_bits(first, kept)


@pytest.mark.parametrize("in_kernels", [True, False])
def test_sampling_while_no_step_is_complete_is_an_error(in_kernels: bool) -> None:
    replay = buffer(n_step=3, in_kernels=in_kernels)
    replay.add(0, fragment(np.random.default_rng(0), 1, 1, 0.0))
    with pytest.raises(RuntimeError, match="no complete step"):
        replay.sample(4, 0)


def test_stacks_of_frames_are_rebuilt_with_the_same_bits_with_and_without_kernels() -> None:
    def stacks(first: int, length: int) -> SampleBatch:
        numbers = np.arange(first, first + length + 1, dtype=np.uint8)[:, None, None] + np.arange(4, dtype=np.uint8)
        whole = fragment(np.random.default_rng(first), length, 1, 0.0)
        return SampleBatch(whole, obs=np.broadcast_to(numbers[..., None, None], (length + 1, 1, 4, 2, 2)).copy())

    ours, theirs = (buffer(in_kernels=how, frame_stack=4) for how in (True, False))
    for each in (ours, theirs):
        each.add(0, stacks(0, 12))
    assert_equal_bits(ours.sample(6, 0, 2), theirs.sample(6, 0, 2))
