"""Transitions over several steps, for cases that can be computed by hand."""

from __future__ import annotations

import numpy as np

from rlrun.engine.replay.n_step import n_step_transitions


def transitions_of(
    rewards: list[float], n_step: int, *, terminated: int = -1, truncated: int = -1
) -> list[list[float]]:
    shape = (len(rewards), 1)
    at = np.arange(len(rewards))[:, None]
    ended = min((end for end in (terminated, truncated) if end >= 0), default=len(rewards))
    found = n_step_transitions(
        np.array(rewards, np.float32).reshape(shape), at == terminated, at == truncated, at != ended + 1, 0.5, n_step
    )
    return [column[:, 0].tolist() for column in found]


def test_transitions_cut_off_by_the_end_of_a_fragment_are_incomplete() -> None:
    rewards, discounts, steps, complete = transitions_of([1.0, 2.0, 4.0, 8.0], 3)
    assert rewards[:2] == [1 + 1 + 1, 2 + 2 + 2]
    assert discounts[:2] == [0.125, 0.125]
    assert steps[:2] == [3, 3]
    assert complete == [True, True, False, False]


def test_a_terminated_episode_does_not_bootstrap() -> None:
    rewards, discounts, steps, complete = transitions_of([1.0, 2.0, 4.0, 0.0, 16.0], 3, terminated=2)
    assert rewards[:3] == [3.0, 4.0, 4.0]
    assert discounts[:3] == [0.0, 0.0, 0.0]
    assert steps[:3] == [3, 2, 1]
    assert complete == [True, True, True, False, False]


def test_a_truncated_episode_bootstraps_from_its_final_observation() -> None:
    rewards, discounts, steps, complete = transitions_of([1.0, 2.0, 4.0, 0.0, 16.0], 3, truncated=2)
    assert rewards[:3] == [3.0, 4.0, 4.0]
    assert discounts[:3] == [0.125, 0.25, 0.5]
    assert steps[:3] == [3, 2, 1]
    assert complete == [True, True, True, False, False]


def test_a_one_step_transition_is_the_step_itself() -> None:
    rewards, discounts, steps, complete = transitions_of([1.0, 2.0, 4.0, 0.0, 16.0], 1, terminated=2)
    assert rewards == [1.0, 2.0, 4.0, 0.0, 16.0]
    assert discounts == [0.5, 0.5, 0.0, 0.5, 0.5]
    assert complete == [True, True, True, False, True]
    assert steps[:3] == [1, 1, 1]
