"""Losses of scalar TD errors in value methods: Huber loss or squared error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.algorithms.loss_metrics import TD_METRICS
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.settings.config import ConfigModel, PositiveFloat
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

BEYOND_HUBER = "huber_excess"
"""Name of the statistic of TD errors beyond the bound of the Huber loss."""

HUBER_METRICS = (
    *TD_METRICS,
    Metric(BEYOND_HUBER, "", "Part of the TD errors beyond the bound `huber`; 0 with a squared error"),
)
"""`TD_METRICS`, and the statistic of the Huber loss."""


class HuberSettings(ConfigModel):
    """Mixin for configs of value methods with scalar TD errors: settings of the Huber loss."""

    huber: PositiveFloat | None = None
    """Bound of the Huber loss of TD errors, beyond which the loss is linear; null for the squared error. The squared
    error learns the mean return. A bound keeps single large errors from moving the network far, and learns something
    between mean and median where many errors are beyond it."""


def huber(errors: Tensor, bound: float | None) -> Tensor:
    """Huber loss, of any shape: e^2 / 2 for |e| <= bound, else bound (|e| - bound / 2) (Huber, 1964).

    Args:
        errors: Errors e.
        bound: Threshold of the Huber loss; None for the squared error e^2 / 2.
    """
    if bound is None:
        return errors.square() * 0.5
    distances = errors.abs()
    within = distances.clamp(max=bound)
    return within * (distances - 0.5 * within)


def huber_excess(distances: Tensor, valid: Tensor, bound: float | None) -> dict[str, Tensor]:
    """Statistic for `HUBER_METRICS`: how far TD errors exceed the threshold of the Huber loss; 0 for squared error.

    Args:
        distances: Absolute TD errors, [S, L].
        valid: Mask of the valid steps, [S, L].
        bound: Threshold of the Huber loss; None for the squared error.
    """
    beyond = distances.new_zeros(()) if bound is None else masked_mean((distances > bound).float(), valid)
    return {BEYOND_HUBER: beyond}
