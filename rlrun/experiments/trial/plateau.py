"""Plateau of a trial's metric, as a criterion to stop."""

from __future__ import annotations

import math

from rlrun.engine.settings.metric import Mode
from rlrun.experiments.spec.experiment import EVALUATION_METRICS, TrialSpec
from rlrun.experiments.spec.metric_checks import reported_metrics
from rlrun.experiments.spec.stop_config import PLATEAU, PlateauConfig
from rlrun.experiments.trial.results import Row


class Plateau:
    """Best value of a trial's metric, and the evaluations since then; without a plateau to stop at, it never stops.

    It depends on the rows of results alone, so that a resumed trial restores it from those.

    Args:
        trial: The trial.

    Attributes:
        reason: Reason to stop, "" before.
    """

    def __init__(self, trial: TrialSpec) -> None:
        self.reason = ""
        self._config = trial.stop.plateau
        self._falls = self._config is not None and (self._config.mode or declared_mode(trial, self._config)) == "min"
        self._evaluates = trial.evaluation is not None
        self._best: float | None = None
        self._waited = 0

    def note(self, row: Row) -> None:
        """Takes in the row of an iteration; one without an evaluation, or without a finite value, counts nothing."""
        config = self._config
        if config is None or (self._evaluates and row.get(EVALUATION_METRICS[0].name) is None):
            return
        value = row.get(config.metric)
        if value is None or not math.isfinite(value):
            return
        if self._best is None or self._improvement(value, self._best) > config.min_delta:
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited >= config.patience:
            of = "evaluations" if self._evaluates else "results"
            moved = "fallen" if self._falls else "grown"
            self.reason = f"{PLATEAU}: {config.metric} was {self._best:g} and has not {moved} in {self._waited} {of}"

    def _improvement(self, value: float, best: float) -> float:
        return best - value if self._falls else value - best


def declared_mode(trial: TrialSpec, plateau: PlateauConfig) -> Mode | None:
    """Direction in which the metric of a plateau improves, by the declaration of the part that measures it."""
    known, measured = reported_metrics(trial.learns, in_world=trial.env.has_many_agents, hooks=trial.hooks)
    return next((metric.mode for metric in (*known, *measured) if metric.matches(plateau.metric)), None)
