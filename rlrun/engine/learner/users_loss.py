"""Checks of loss functions that users have written: settings that they read, and the results that they return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.objective import Loss, LossFunction, Objective
from rlrun.engine.learner.update import GRAD_NORM, require_loss
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.settings.metric import Metric


def checked(
    objectives: Sequence[Objective], owner: type, declared: Sequence[Metric], announce: Callable[[str], None]
) -> list[Objective]:
    """Returns the objectives with losses that check their results at each call (a traced loss is called only once).

    Args:
        objectives: All objectives of a learner.
        owner: Class of the user's algorithm.
        declared: Metrics of losses that the algorithm declares.
        announce: Callback that receives a warning about declared metrics that no loss returns.
    """
    statistics = _DeclaredStatistics(objectives, owner, declared, announce)
    return [each if each.loss is None else replace(each, loss=_Checked(each, statistics)) for each in objectives]


class _DeclaredStatistics:
    """Once every loss has been called, warns about declared metrics that none of them returns.

    Metrics that a built-in base class declares are not checked, since some of them depend on settings.
    """

    def __init__(
        self,
        objectives: Sequence[Objective],
        owner: type,
        declared: Sequence[Metric],
        announce: Callable[[str], None],
    ) -> None:
        built_in = [base for base in owner.__mro__ if base.__module__.startswith("rlrun.")]
        inherited = {metric.name for base in built_in for metric in vars(base).get("learner_metrics", ())}
        own = [metric.name for metric in declared]
        self._missing = [name for name in own if name not in inherited and "<" not in name]
        self._to_come = {each.name for each in objectives if each.loss is not None}
        self._is_alone, self._owner, self._announce = len(objectives) == 1, owner.__name__, announce

    def note(self, objective: Objective, loss: Loss) -> None:
        """Notes the statistics that a loss has returned."""
        returned = {objective.statistic(name, is_alone=self._is_alone) for name in (*loss.statistics, GRAD_NORM)}
        self._missing = [name for name in self._missing if name not in returned]
        self._to_come.discard(objective.name)
        if self._missing and not self._to_come:
            self._announce(
                f"{self._owner} declares the metric {self._missing[0]} in learner_metrics, but its loss does not "
                "return it as a statistic"
            )
            self._missing = []


class _Checked:
    """Loss function of an objective, with checks of its results."""

    def __init__(self, objective: Objective, statistics: _DeclaredStatistics) -> None:
        assert objective.loss is not None
        self._objective, self._statistics = objective, statistics
        self._loss: LossFunction = objective.loss

    def __call__(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Calls the loss function.

        Raises:
            TrainingFailed: The loss function did not return a `Loss`, or its total or a statistic is not a scalar.
        """
        loss = require_loss(self._objective, self._loss(outputs, batch, _Scheduled(scheduled)))
        for name, value in (("total", loss.total), *loss.statistics.items()):
            if not isinstance(value, Tensor) or value.shape:
                raise TrainingFailed(_not_scalar(self._loss, name, value))
        self._statistics.note(self._objective, loss)
        return loss


class _Scheduled(dict[str, Tensor]):
    """Current values of scheduled settings by name, each a scalar."""

    def __missing__(self, name: str) -> Tensor:
        raise LookupError(f"{name} is not scheduled: annotate it as Schedule, or read self.config.{name}")


def _not_scalar(loss: Any, name: str, value: Any) -> str:
    """Returns the error message for a loss whose total, or whose statistic `name`, is not a scalar tensor."""
    part = "a total" if name == "total" else f"the statistic {name!r}"
    found = f"of shape {list(value.shape)}" if isinstance(value, Tensor) else f"that is a {type(value).__name__}"
    remedy = "use masked_mean" if isinstance(value, Tensor) else "use torch.as_tensor"
    return f"{_written_in(loss)} returns {part} {found}; it must be a scalar: {remedy}"


def _written_in(loss: Any) -> str:
    """Returns the file and name of a loss function, as in "spo.py: SPO.loss"; a method's name includes the class."""
    while isinstance(loss, partial):
        loss = loss.func
    if inspect.ismethod(loss):
        owner = type(loss.__self__)
        return f"{Path(inspect.getfile(owner)).name}: {owner.__name__}.{loss.__name__}"
    return f"{Path(inspect.getfile(loss)).name}: {loss.__qualname__}"
