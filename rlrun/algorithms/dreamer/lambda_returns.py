"""Lambda-returns of imagined trajectories (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def lambda_returns(rewards: Tensor, discounts: Tensor, values: Tensor, lambda_: float) -> Tensor:
    """Computes lambda-returns of the states of trajectories, without gradient.

    R[H] = values[H],  R[t] = rewards[t] + discounts[t] * ((1 - lambda) * values[t + 1] + lambda * R[t + 1])

    Args:
        rewards: Rewards of the steps from state t to state t + 1, [N, H].
        discounts: Discounts after the steps: gamma times the probability of continuation, [N, H].
        values: Values of the states, [N, H + 1].
        lambda_: Weight of longer returns.

    Returns:
        R[0] to R[H - 1], [N, H].

    Source:
        Hafner et al., arXiv:2301.04104, eq. 7.
    """
    import torch

    found: list[Tensor] = []
    behind = values[:, -1]
    ahead = rewards + discounts * (1 - lambda_) * values[:, 1:]
    for t in reversed(range(rewards.shape[1])):
        behind = ahead[:, t] + discounts[:, t] * lambda_ * behind
        found.append(behind)
    return torch.stack(found[::-1], 1)
