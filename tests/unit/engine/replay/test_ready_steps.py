from types import SimpleNamespace
from typing import Any

import numpy as np

from rlrun.engine.replay.ready_steps import ReadySteps
from rlrun.engine.replay.streams import Streams

ROWS, SLOTS = 8, 2


def columns(*, ended_at: int | None = None) -> dict[str, Any]:
    """Stored columns of one worker: reward 1 at each step, and an end of slot 0 in a row."""
    numbers = {name: np.zeros((1, ROWS, SLOTS), np.float32) for name in ("n_step_rewards", "discounts", "steps")}
    flags = {name: np.zeros((1, ROWS, SLOTS), np.bool_) for name in ("terminateds", "truncateds")}
    if ended_at is not None:
        flags["terminateds"][0, ended_at, 0] = True
    shape = (1, ROWS, SLOTS)
    values = {"rewards": np.ones(shape, np.float32), "valid": np.ones(shape, np.bool_), **numbers, **flags}
    return {name: SimpleNamespace(values=own) for name, own in values.items()}


def test_a_step_is_ready_once_its_transition_is_complete_or_its_episode_has_ended() -> None:
    ready, streams, stores = ReadySteps(3, 0.5), Streams(1, ROWS, SLOTS, 0), columns(ended_at=3)
    ready.allocate((1, ROWS, SLOTS))
    added = ready.add(streams, stores, 0, slice(0, SLOTS), 0, 4)
    # Slot 0's episode ends in row 3, so rows 0 to 3 are complete. Slot 1's goes on, so only rows 0 and 1 are.
    assert sorted(added.tolist()) == [0, 1, 2, 3, 4, 6]
    assert ready.number == 6
    assert ready.has(np.array([4, 5])).tolist() == [True, False]
    assert stores["n_step_rewards"].values[0, :2].tolist() == [[1.75, 1.75], [1.75, 1.75]]
    assert ready.indices().tolist() == [0, 1, 2, 3, 4, 6]


def test_restored_flags_determine_the_number_of_ready_steps() -> None:
    ready = ReadySteps(1, 0.9)
    ready.allocate((1, ROWS, SLOTS))
    ready.load(np.array([[[True, False], [True, True]]]))
    assert (ready.number, ready.indices().tolist()) == (3, [0, 2, 3])
