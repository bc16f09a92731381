"""Plateau of a trial's metric, as a criterion to stop."""

from __future__ import annotations

from rlrun.spec.experiment import EVALUATION_METRICS, TrialSpec
from rlrun.spec.stop_config import PLATEAU
from rlrun.trial.results import Row


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
        self._evaluates = trial.evaluation is not None
        self._best: float | None = None
        self._waited = 0

    def note(self, row: Row) -> None:
        """Takes in the row of an iteration; one without an evaluation, or without a value, counts nothing."""
        config = self._config
        if config is None or (self._evaluates and row.get(EVALUATION_METRICS[0].name) is None):
            return
        value = row.get(config.metric)
        if value is None:
            return
        if self._best is None or value > self._best + config.min_delta:
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited >= config.patience:
            of = "evaluations" if self._evaluates else "results"
            self.reason = f"{PLATEAU}: {config.metric} was {self._best:g} and has not grown in {self._waited} {of}"
