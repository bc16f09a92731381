"""Replay priorities of sequences, and indices of the observations from which n-step returns bootstrap (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MAX_SHARE = 0.9
"""Weight eta of the maximum TD error in a sequence's priority (R2D2); the mean has weight 1 - eta."""


def row_priorities(distance: Tensor, valid: Tensor) -> Tensor:
    """Returns the replay priority of each sequence: eta * max + (1 - eta) * mean of its absolute TD errors (R2D2).

    Args:
        distance: Absolute TD errors, [sequences, steps].
        valid: 1 for valid steps and 0 elsewhere, [sequences, steps].

    Source:
        Kapturowski et al., "Recurrent experience replay in distributed reinforcement learning", ICLR 2019, section 2.3.
    """
    if distance.shape[1] == 1:
        return distance.squeeze(-1)
    counted = distance * valid
    mean = counted.sum(1) / valid.sum(1).clamp(min=1.0)
    return MAX_SHARE * counted.amax(1) + (1 - MAX_SHARE) * mean


def following_steps(steps: Tensor) -> Tensor:
    """Returns, for each step of a sequence, the index of the observation from which its n-step return bootstraps.

    Args:
        steps: Number of steps n in the return from each step, [sequences, steps]; 0 gives the index of the step itself.
    """
    # Unlike arange, a cumulative sum of ones has the dtype and device of `steps`.
    return steps + steps.new_ones(steps.shape[1]).cumsum(0) - 1
