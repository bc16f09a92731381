"""Lambda-returns of imagined trajectories, by hand."""

from __future__ import annotations

import torch

from rlrun.algorithms.dreamer.lambda_returns import lambda_returns

REWARDS = torch.tensor([[1.0, 2.0, 3.0]])
DISCOUNTS = torch.tensor([[0.5, 0.5, 0.5]])
VALUES = torch.tensor([[10.0, 20.0, 30.0, 40.0]])


def test_lambda_returns_of_three_steps_by_hand() -> None:
    last = 3 + 0.5 * 40  # 23
    middle = 2 + 0.5 * (0.25 * 30 + 0.75 * last)  # 14.375
    first = 1 + 0.5 * (0.25 * 20 + 0.75 * middle)
    found = lambda_returns(REWARDS, DISCOUNTS, VALUES, 0.75)
    torch.testing.assert_close(found, torch.tensor([[first, middle, last]]))


def test_with_lambda_0_they_look_one_step_ahead_and_with_1_to_the_end() -> None:
    torch.testing.assert_close(lambda_returns(REWARDS, DISCOUNTS, VALUES, 0.0), torch.tensor([[11.0, 17.0, 23.0]]))
    torch.testing.assert_close(lambda_returns(REWARDS, DISCOUNTS, VALUES, 1.0), torch.tensor([[7.75, 13.5, 23.0]]))


def test_nothing_counts_behind_an_end() -> None:
    discounts = torch.tensor([[0.5, 0.0, 0.5]])
    assert lambda_returns(REWARDS, discounts, VALUES, 1.0).tolist() == [[2.0, 2.0, 23.0]]
