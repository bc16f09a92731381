"""Priorities of rows: nine tenths of the largest error plus one tenth of the mean error, over valid steps."""

import pytest
import torch

from rlrun.engine.functional.sequence_rows import row_priorities


def test_a_sequence_is_as_urgent_as_its_largest_error_for_the_most_part():
    found = row_priorities(torch.tensor([[1.0, 3.0, 2.0]]), torch.ones(1, 3))
    assert found.tolist() == [pytest.approx(0.9 * 3.0 + 0.1 * 2.0)]


def test_errors_of_steps_that_do_not_count_make_a_sequence_no_more_urgent():
    errors = torch.tensor([[1.0, 100.0, 2.0], [50.0, 50.0, 50.0]])
    valid = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    assert row_priorities(errors, valid).tolist() == pytest.approx([0.9 * 2.0 + 0.1 * 1.5, 0.0])


def test_a_single_step_is_as_urgent_as_its_error():
    assert row_priorities(torch.tensor([[4.0], [0.5]]), torch.ones(2, 1)).tolist() == [4.0, 0.5]
