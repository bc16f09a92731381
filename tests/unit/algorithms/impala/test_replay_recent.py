import numpy as np
import pytest

from rlrun.algorithms.impala.impala import ReplayRecent
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.sources.items import from_items


def numbered(number):
    return SampleBatch(number=np.full((1, 1), number), valid=np.ones((1, 1), bool))


def delivered(operator, numbers):
    return [int(batch["number"][0, 0]) for batch in from_items(map(numbered, numbers)).combine(operator)]


@pytest.mark.parametrize("proportion", [0.25, 1.0, 1.5])
def test_new_fragments_arrive_in_order_and_recent_ones_repeat_in_the_set_proportion(proportion):
    total = 100
    found = delivered(ReplayRecent(proportion, slots=3, seed=0), range(total))
    assert len(found) == total + int(total * proportion)
    newest, repeated = -1, 0
    for number in found:
        if number == newest + 1:
            newest = number
        else:
            repeated += 1
            assert newest - 2 <= number <= newest
    assert (newest, repeated) == (total - 1, int(total * proportion))


def test_draws_and_kept_fragments_are_restored_from_the_saved_state():
    straight, first, second = (ReplayRecent(0.7, slots=4, seed=seed) for seed in (5, 5, 6))
    expected = delivered(straight, range(40))
    begun = delivered(first, range(20))
    second.load_state(first.state())
    assert begun + delivered(second, range(20, 40)) == expected
