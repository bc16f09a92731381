"""Priorities of rows: nine tenths of the largest error plus one tenth of the mean error, over valid steps."""

import pytest
import torch

from rlrun.engine.functional.sequence_rows import row_priorities


def test_a_sequences_priority_is_a_weighted_mean_of_its_largest_and_its_mean_error():
    found = row_priorities(torch.tensor([[1.0, 3.0, 2.0]]), torch.ones(1, 3))
    assert found.tolist() == [pytest.approx(0.9 * 3.0 + 0.1 * 2.0)]


def test_errors_of_invalid_steps_do_not_raise_the_priority():
    errors = torch.tensor([[1.0, 100.0, 2.0], [50.0, 50.0, 50.0]])
    valid = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    assert row_priorities(errors, valid).tolist() == pytest.approx([0.9 * 2.0 + 0.1 * 1.5, 0.0])


def test_the_priority_of_a_single_step_is_its_error():
    assert row_priorities(torch.tensor([[4.0], [0.5]]), torch.ones(2, 1)).tolist() == [4.0, 0.5]
