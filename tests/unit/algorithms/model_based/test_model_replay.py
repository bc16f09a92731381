"""Imagined transitions of a checkpoint are held to those that they are put together with."""

from __future__ import annotations

import numpy as np

from rlrun.algorithms.model_based.branch_rollouts import AddImagined
from rlrun.algorithms.model_based.model_replay import ModelReplay
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import CheckpointError


def transitions(number: int, *, width: int = 2) -> SampleBatch:
    return SampleBatch(
        obs=np.zeros((number, 1, width), np.float32),
        rewards=np.arange(number, dtype=np.float32)[:, None],
        valid=np.ones((number, 1), np.bool_),
    )


def restored(held: SampleBatch) -> ModelReplay:
    before, after = ModelReplay(2, seed=0), ModelReplay(2, seed=0)
    before.add(held)
    after.load_state(before.state(whole=True))
    return after


def test_what_was_saved_goes_on() -> None:
    replay = restored(transitions(5))
    minibatch = AddImagined(replay, 4)(SampleBatch(transitions(3), indices=np.arange(3)))
    assert minibatch["obs"].shape == (7, 1, 2)
    replay.add(transitions(6))
    assert len(replay) == 11


def test_transitions_of_another_shape_are_refused_as_they_are_put_together_with_others(wording) -> None:
    for put_together in (
        AddImagined(restored(transitions(5, width=3)), 4),
        restored(transitions(5, width=3)).add,
    ):
        with wording.raised(CheckpointError):
            put_together(transitions(3))
