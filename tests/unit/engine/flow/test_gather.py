"""One item from every worker, joined."""

import pytest

from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.evolution.generations import GatherWorkers


@pytest.fixture
def trainee(make_trainee):
    """A trainee with three remote workers, which never start."""
    return make_trainee(A2C(A2C.Config(num_workers=3)))[0]


def test_items_are_gathered_in_worker_order_once_every_worker_has_delivered_one(trainee) -> None:
    gather = GatherWorkers(trainee)
    assert gather((3, "c")) == []
    assert gather((1, "a")) == []
    assert gather((2, "b")) == [["a", "b", "c"]]


def test_the_next_item_of_a_worker_that_is_ahead_waits_for_the_other_workers(trainee) -> None:
    gather = GatherWorkers(trainee)
    for worker, item in ((1, "a1"), (1, "a2"), (2, "b1")):
        assert gather((worker, item)) == []
    assert gather((3, "c1")) == [["a1", "b1", "c1"]]
    assert gather((2, "b2")) == []
    assert gather((3, "c2")) == [["a2", "b2", "c2"]]


def test_waiting_items_are_saved_in_checkpoints(trainee) -> None:
    gather, resumed = GatherWorkers(trainee), GatherWorkers(trainee)
    gather((2, "b"))
    gather((3, "c"))
    resumed.load_state(gather.state())
    assert resumed((1, "a")) == [["a", "b", "c"]]


def test_an_item_without_a_worker_is_refused(trainee, wording) -> None:
    with wording.raised(RuntimeError):
        GatherWorkers(trainee)((None, "x"))
