import numpy as np
import pytest

from rlrun.engine.data.sample_batch import SampleBatch, concatenated
from rlrun.engine.data.tree import leaves, map_tree, named_leaves


def fragment_of_cells(time=4, columns=2, first=0):
    cells = np.arange(first, first + time * columns).reshape(time, columns)
    closing = np.arange(first, first + (time + 1) * columns).reshape(time + 1, columns)
    return SampleBatch(
        obs={"a": closing, "b": (closing[..., None],)}, actions=cells, valid=np.ones((time, columns), bool)
    )


def test_the_steps_of_a_fragment_leave_out_its_closing_rows():
    steps = fragment_of_cells().steps()
    assert {leaf.shape[:2] for _, leaf in named_leaves(dict(steps))} == {(4, 2)}
    assert steps["obs"]["a"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_rows_of_length_1_contain_every_cell_once():
    rows = fragment_of_cells().steps().rows(1)
    assert rows["actions"].shape == (8, 1)
    assert rows["obs"]["b"][0].shape == (8, 1, 1)
    assert sorted(rows["actions"].ravel()) == list(range(8))


def test_rows_longer_than_1_hold_consecutive_steps_of_one_slot():
    rows = fragment_of_cells().steps().rows(2)
    assert rows["actions"].tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert rows["obs"]["a"].tolist() == rows["actions"].tolist()


def test_fragments_are_concatenated_side_by_side():
    both = concatenated([fragment_of_cells(), fragment_of_cells(first=100)])
    assert both["actions"][0].tolist() == [0, 1, 100, 101]
    assert both["obs"]["a"].shape == (5, 4)
    assert both.num_rows == 16


def test_fragments_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"different lengths.*\[3, 4\]"):
        concatenated([fragment_of_cells(), fragment_of_cells(time=3)])


def test_invalid_cells_are_set_to_zero_in_a_copy_and_valid_cells_are_unchanged():
    batch = fragment_of_cells().steps()
    batch["valid"][1, 0] = False
    cleared = batch.zero_invalid()
    assert cleared["actions"].tolist() == [[0, 1], [0, 3], [4, 5], [6, 7]]
    assert cleared["obs"]["b"][0][1, 0] == 0
    assert batch["actions"][1, 0] == 2


def test_mapping_a_function_over_a_tree_preserves_its_structure():
    tree = {"x": 1, "y": (2, {"z": 3})}
    assert map_tree(lambda leaf: leaf * 10, tree) == {"x": 10, "y": (20, {"z": 30})}
    assert list(named_leaves(tree)) == [("x", 1), ("y/0", 2), ("y/1/z", 3)]
    assert leaves(5) == [5]
