from __future__ import annotations

import weakref

import numpy as np
import pytest

from rlrun.engine.rollout.action_log import FEWEST_ROWS, ActionLog


def numbered(log: ActionLog, fragments: int, length: int, longest: int) -> None:
    """Appends fragments [length, 2] whose rows are numbered, and trims when that is due."""
    for fragment in range(fragments):
        rows = fragment * length + np.arange(length)
        if log.append(np.stack([rows, -rows], axis=1)):
            log.trim(longest)


@pytest.mark.parametrize("longest", [0, 1, 7, 10, 63])
def test_latest_returns_the_requested_number_of_last_actions_of_each_env_slot(longest: int) -> None:
    log = ActionLog()
    numbered(log, 20, 5, longest)
    first, second = log.latest([longest, min(longest, 3)])
    assert first.tolist() == list(range(100 - longest, 100))
    assert second.tolist() == [-row for row in range(100 - min(longest, 3), 100)]


def test_rare_trimming_keeps_memory_bounded_by_the_longest_episode() -> None:
    log, trims = ActionLog(), 0
    fragments = []
    for _ in range(1000):
        actions = np.zeros((5, 2))
        fragments.append(weakref.ref(actions))
        is_full = log.append(actions)
        del actions
        if is_full:
            log.trim(40)
            trims += 1
        assert 5 * sum(fragment() is not None for fragment in fragments) < FEWEST_ROWS + 5
    assert trims < 1000 / 7


def test_a_log_loaded_with_the_latest_actions_of_another_log_continues_like_it() -> None:
    log, other = ActionLog(), ActionLog()
    numbered(log, 3, 5, 12)
    other.load(log.latest([2, 12]))
    for each in (log, other):
        each.append(np.array([[50, 60]]))
    for expected, found in zip(log.latest([3, 13]), other.latest([3, 13]), strict=True):
        np.testing.assert_array_equal(expected, found)


def test_a_log_loaded_from_episodes_without_steps_is_empty() -> None:
    log = ActionLog()
    numbered(log, 1, 5, 0)
    other = ActionLog()
    other.load(log.latest([0, 0]))
    assert [len(actions) for actions in other.latest([0, 0])] == [0, 0]
