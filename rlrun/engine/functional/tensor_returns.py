"""Advantages over fragments of tensors whose env slots are reset in the step that ends an episode (torch).

A fragment has T steps in B env slots. Row t + 1 after an episode's end is the next episode's first observation, so a
truncated step takes the value of its final observation from `final_values` [T, B] instead of from the next row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def tensor_gae(
    rewards: Tensor,
    values: Tensor,
    final_values: Tensor,
    terminateds: Tensor,
    truncateds: Tensor,
    gamma: float,
    gae_lambda: float,
) -> tuple[Tensor, Tensor]:
    """Computes generalized advantage estimates and value targets, as `rlrun.engine.functional.returns.gae` does.

    Args:
        rewards: Rewards, [T, B].
        values: Values of the observations before each step and after the last, [T + 1, B].
        final_values: Values of the final observations of truncated episodes, [T, B]; ignored elsewhere.
        terminateds: Whether the step terminated its episode, [T, B].
        truncateds: Whether the step truncated its episode, [T, B].
        gamma: Discount factor.
        gae_lambda: Weight between one-step (0) and Monte Carlo (1) estimates.

    Returns:
        Advantages and value targets (advantages + values), each [T, B].

    Source:
        Schulman et al., arXiv:1506.02438, eqs. 11-16.
    """
    following = torch.where(truncateds, final_values, values[1:]).masked_fill_(terminateds, 0.0)
    advantages = rewards + gamma * following - values[:-1]
    decays = (gamma * gae_lambda) * (~(terminateds | truncateds)).to(rewards.dtype)
    for t in range(len(rewards) - 2, -1, -1):
        advantages[t].addcmul_(decays[t], advantages[t + 1])
    return advantages, advantages + values[:-1]


def tensor_standardized(x: Tensor, valid: Tensor, epsilon: float = 1e-8) -> Tensor:
    """Returns numbers shifted and scaled to mean 0 and standard deviation 1 over valid entries; invalid ones become 0.

    The means are computed in float64, as by `rlrun.engine.functional.masked.standardized`.
    """
    weights = valid.double()
    count = weights.sum().clamp(min=1)
    numbers = torch.where(valid, x, 0.0).double()
    deviations = (numbers - numbers.sum() / count) * weights
    scale = (deviations.square().sum() / count).sqrt() + epsilon
    return (deviations / scale).float()


def final_values(
    batch: Mapping[str, Any], evaluate: Callable[[Any, Tensor | None, Tensor], Mapping[str, Tensor]]
) -> Tensor:
    """Returns the values from which truncated steps bootstrap, [T, B]; other entries are undefined.

    Args:
        batch: Columns of a fragment: `values` [T + 1, B], and `finals`, a dict. The dict holds the `index` [N], within
            T * B, of each known final observation, the observations `obs` [N, ...] and the recurrent `state` [N, S]. If
            steps were dropped, it also holds the mask `before` [T, B] of steps whose final observation is in the next
            row.
        evaluate: Function from observations [N, ...], recurrent states [N, S] and episode starts [N] to values [N].
    """
    values: Tensor = batch["values"]
    finals = batch["finals"]
    found = values[:-1].clone()  # the value of the step's own observation, if the final one is unknown
    if len(finals["index"]):
        starts = torch.zeros_like(finals["index"], dtype=torch.bool)
        state = finals["state"] if finals["state"].shape[-1] else None
        found.view(-1)[finals["index"]] = evaluate(finals["obs"], state, starts)["values"]
    if "before" in finals:
        found[:-1] = torch.where(finals["before"][:-1], values[1:-1], found[:-1])
    return found
