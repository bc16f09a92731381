"""Statistics on how far an actor's actions leave the range of the recorded actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

ACTOR_SUPPORT = (
    Metric("q_mean", "", "Mean value of the actor's actions"),
    Metric(
        "outside", "", "Fraction of the actor's actions with a coordinate outside the range of the recorded actions"
    ),
)
"""Metrics that compare an actor's actions with recorded ones."""


def support_statistics(values: Tensor, actions: Tensor, recorded: Tensor, valid: Tensor) -> dict[str, Tensor]:
    """Mean Q value of an actor's actions, and share of actions outside the recorded range (see `ACTOR_SUPPORT`).

    Args:
        values: Q values of the actor's actions, [S, L].
        actions: The actor's actions, [S, L, D].
        recorded: The minibatch's recorded actions, [S, L, D]; their minima and maxima are the recorded range.
        valid: Mask of the valid steps, [S, L].
    """
    actions = actions.detach()
    is_outside = (actions < recorded.amin((0, 1))) | (actions > recorded.amax((0, 1)))
    return {
        "q_mean": masked_mean(values.detach(), valid),
        "outside": masked_mean(is_outside.any(-1).float(), valid),
    }
