import numpy as np
import pytest
import torch

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.minibatches import Passes, Selection, minibatches


@pytest.mark.parametrize(
    ("rows", "length", "minibatch_size", "parts", "size", "spare"),
    [
        (40, 1, 16, 1, 16, 8),  # the last minibatch of a pass is padded
        (32, 1, 16, 1, 16, 0),
        (6, 5, 10, 1, 2, 0),  # whole rows of 5 steps
        (6, 5, 3, 1, 1, 0),  # a row is never cut
        (6, 1, 100, 1, 6, 0),  # a minibatch is never larger than the batch
        (40, 1, 16, 3, 18, 14),  # all parts have the same size, so the minibatch grows
    ],
)
def test_passes_are_divided_into_minibatches_of_equal_size(rows, length, minibatch_size, parts, size, spare):
    passes = [Passes.over(rows, length, minibatch_size, (part, parts)) for part in range(parts)]
    assert {(each.size, each.spare, each.local_size) for each in passes} == {(size, spare, size // parts)}
    orders = [each.order(np.random.Generator(np.random.Philox(3))).reshape(-1, size // parts) for each in passes]
    expected = np.random.Generator(np.random.Philox(3)).permutation(rows)
    together = np.concatenate(orders, axis=1).ravel()
    assert together.tolist() == [*expected.tolist(), *[rows] * spare]


def test_minibatches_gathered_through_a_selection_equal_those_of_the_whole_batch():
    columns = SampleBatch(valid=torch.ones(6, 2), obs={"a": torch.arange(36.0).reshape(6, 2, 3), "b": torch.arange(6)})
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    selection = Selection(columns.map(torch.Tensor.numpy), order.numpy().reshape(3, 2))
    assert selection.shape == (2, 2)
    for number, minibatch in enumerate(minibatches(columns, order, 2)):
        gathered = selection.gathered(number)
        assert gathered["obs"]["a"].tolist() == minibatch["obs"]["a"].tolist()
        assert gathered["obs"]["b"].tolist() == minibatch["obs"]["b"].tolist()
