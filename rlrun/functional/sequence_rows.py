"""Rows of consecutive steps out of a replay: which step follows which, and how often to sample a row (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MAX_SHARE = 0.9
"""What a sequence's largest error counts in its priority; the rest is the mean's."""


def row_priorities(distance: Tensor, valid: Tensor) -> Tensor:
    """Returns the priorities of rows, [S]: of a single step its error, of a sequence mostly its largest one.

    Args:
        distance: Absolute TD errors, [S, L].
        valid: 1 where a step counts and 0 elsewhere, [S, L].

    Source:
        Kapturowski et al., "Recurrent experience replay in distributed reinforcement learning", ICLR 2019, section 2.3.
    """
    if distance.shape[1] == 1:
        return distance.squeeze(-1)
    counted = distance * valid
    mean = counted.sum(1) / valid.sum(1).clamp(min=1.0)
    return MAX_SHARE * counted.amax(1) + (1 - MAX_SHARE) * mean


def following_steps(steps: Tensor) -> Tensor:
    """Returns which steps of their rows stand behind n-step transitions, [S, L].

    Args:
        steps: How many steps each transition takes, [S, L]; of 0 the step itself follows.
    """
    # A sum of ones in place of arange: it takes type and device along.
    return steps + steps.new_ones(steps.shape[1]).cumsum(0) - 1
