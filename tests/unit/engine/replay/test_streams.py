"""Streams and priorities of a replay after a checkpoint is restored."""

from __future__ import annotations

import math

import pytest

from rlrun.engine.replay.prioritized_sampler import PrioritizedSampler
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.replay.streams import Streams


def test_saved_streams_for_a_different_number_of_workers_are_refused(wording) -> None:
    saved = Streams(2, rows=8, num_slots=3, reach=1).state()
    Streams(2, rows=8, num_slots=3, reach=1).load_state(saved)
    for are_apart in ([], [False], [False] * 3):
        with wording.raised(ValueError, len(are_apart)):
            Streams(2, rows=8, num_slots=3, reach=1).load_state({**saved, "are_apart": are_apart})


@pytest.mark.parametrize("largest", [math.nan, math.inf, -1.0])
def test_an_invalid_saved_largest_priority_is_refused(largest: float, wording) -> None:
    sampler = PrioritizedSampler(
        ReplayBuffer(ReplayConfig(), num_workers=1, n_step=1, gamma=1.0, seed=0), 0.6, 1.0, 1e-6
    )
    saved = sampler.state()
    sampler.load_state(saved)
    with wording.raised(ValueError):
        sampler.load_state({**saved, "largest": largest})
