"""One item from every worker, joined."""

import pytest

from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.evolution.generations import GatherWorkers


@pytest.fixture
def trainee(make_trainee):
    """A trainee with three remote workers, which never start."""
    return make_trainee(A2C(A2C.Config(num_workers=3)))[0]


def test_items_are_passed_on_once_every_worker_has_one_in_the_order_of_the_workers(trainee) -> None:
    gather = GatherWorkers(trainee)
    assert gather((3, "c")) == []
    assert gather((1, "a")) == []
    assert gather((2, "b")) == [["a", "b", "c"]]


def test_a_worker_that_is_ahead_waits_for_the_others_with_its_next_item(trainee) -> None:
    gather = GatherWorkers(trainee)
    for worker, item in ((1, "a1"), (1, "a2"), (2, "b1")):
        assert gather((worker, item)) == []
    assert gather((3, "c1")) == [["a1", "b1", "c1"]]
    assert gather((2, "b2")) == []
    assert gather((3, "c2")) == [["a2", "b2", "c2"]]


def test_what_waits_is_kept_in_checkpoints(trainee) -> None:
    gather, resumed = GatherWorkers(trainee), GatherWorkers(trainee)
    gather((2, "b"))
    gather((3, "c"))
    resumed.load_state(gather.state())
    assert resumed((1, "a")) == [["a", "b", "c"]]


def test_an_item_of_no_worker_is_refused(trainee, wording) -> None:
    with wording.raised(RuntimeError):
        GatherWorkers(trainee)((None, "x"))
