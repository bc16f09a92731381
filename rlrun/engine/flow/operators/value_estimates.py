"""Metrics of the value function: mean value estimate and explained variance."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.value_estimates import explained_part
from rlrun.engine.settings.metric import Metric

VALUE_METRICS = (
    Metric("value_mean", "", "Mean value estimate of the training observations, before the update"),
    Metric(
        "explained_variance",
        "",
        "1 - Var(targets - values) / Var(targets); 0 is as good as predicting a constant",
        mode="max",
    ),
)
"""Metrics of value estimates, reported below `learner/`."""


class MeasureValues(Operator):
    """Reports, as metrics, the mean value estimate and the explained variance of the value targets.

    Both are computed over all batches of an iteration, with the values estimated when each batch was collected.
    """

    def __init__(self) -> None:
        self._moments = NO_VALUES

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        self._moments = self._moments.merged(value_moments(item))
        return item

    declared_metrics = tuple(metric.below("learner/") for metric in VALUE_METRICS)

    @override
    def metrics(self) -> dict[str, float]:
        """Returns mean value and explained variance over the batches since the last call."""
        moments, self._moments = self._moments, NO_VALUES
        return value_metrics(moments)


NO_VALUES = Moments.empty((3,))
"""Initial moments, of zero steps."""


def value_moments(batch: SampleBatch) -> Moments:
    """Computes count, mean and variance of values, value targets and residuals over the valid steps of a batch.

    A residual is value target minus value. The mean and the variance have three entries: values, targets, residuals.

    Args:
        batch: `values` [T, B] or [T + 1, B], `value_targets` and `valid` [T, B], for T steps in B env slots.
    """
    valid = batch["valid"]
    values = batch["values"][: len(valid)][valid].astype(np.float64)
    targets = batch["value_targets"][valid].astype(np.float64)
    return Moments.of(np.stack([values, targets, targets - values], -1), 1)


def value_metrics(moments: Moments) -> dict[str, float]:
    """Computes mean value and explained variance from the result of `value_moments`; empty without steps."""
    if not moments.count:
        return {}
    (value_mean, target_mean, _), (_, variance, error_variance) = moments.mean, moments.variance
    explained = explained_part(target_mean, variance, error_variance)
    return {"learner/value_mean": float(value_mean), "learner/explained_variance": float(explained)}
