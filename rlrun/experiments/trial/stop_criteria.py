"""Stop criteria of a trial: bounds on metrics, a plateau, and decisions of hooks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlrun.engine.settings.metric import Mode
from rlrun.experiments.spec.experiment import EVALUATION_METRICS, TrialSpec
from rlrun.experiments.spec.metric_checks import reported_metrics
from rlrun.experiments.spec.stop_config import PLATEAU, PlateauConfig
from rlrun.experiments.trial.results import Row


class StopCriteria:
    """Stop criteria of a trial: metric bounds, a plateau, and hooks, evaluated on each result row.

    The criteria depend only on result rows, so a resumed trial can restore their state from its rows.

    Args:
        trial: The trial.
    """

    def __init__(self, trial: TrialSpec) -> None:
        self._bounds = trial.stop.bounds
        self._plateau = Plateau(trial)

    def note(self, row: Row) -> None:
        """Updates the state of the criteria with an iteration's result row."""
        self._plateau.note(row)

    def reason(self, row: Row, *, by_hook: str) -> str | None:
        """Reason to stop after a result row; None to continue.

        Args:
            row: The result row.
            by_hook: The reason that a hook gave; "" if none did.
        """
        return stop_reached(self._bounds, row) or by_hook or self._plateau.reason or None

    def is_halfway(self, row: Row) -> bool:
        """Whether a result row has reached half of the bound of any stop criterion."""
        return stop_reached({metric: bound / 2 for metric, bound in self._bounds.items()}, row) is not None


class Plateau:
    """Plateau criterion: counts the evaluations since a trial's metric last improved.

    It does nothing if the trial's settings define no plateau.

    Args:
        trial: The trial.

    Attributes:
        reason: Reason to stop; "" until the plateau is reached.
    """

    def __init__(self, trial: TrialSpec) -> None:
        self.reason = ""
        self._config = trial.stop.plateau
        self._falls = self._config is not None and (self._config.mode or declared_mode(trial, self._config)) == "min"
        self._evaluates = trial.evaluation is not None
        self._best: float | None = None
        self._waited = 0

    def note(self, row: Row) -> None:
        """Updates the plateau with an iteration's result row; ignores rows without a finite value for the metric."""
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
            moved, bound = ("fallen below", -config.min_delta) if self._falls else ("risen above", config.min_delta)
            self.reason = (
                f"{PLATEAU}: {config.metric} has not {moved} {self._best + bound:g} in the last {self._waited} {of}"
            )

    def _improvement(self, value: float, best: float) -> float:
        return best - value if self._falls else value - best


def declared_mode(trial: TrialSpec, plateau: PlateauConfig) -> Mode | None:
    """Direction in which a plateau's metric improves (max or min), declared by the component that measures it."""
    known, measured = reported_metrics(trial.learns, in_world=trial.env.has_many_agents, hooks=trial.hooks)
    return next((metric.mode for metric in (*known, *measured) if metric.matches(plateau.metric)), None)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"


def stop_reached(stop: Mapping[str, float], result: Mapping[str, Any]) -> str | None:
    """Stop criterion that a result row satisfies, as text; None if it satisfies none.

    Examples:
        >>> stop_reached({"env_steps": 100, "episodes": 9}, {"env_steps": 128, "episodes": None})
        'env_steps 128 >= 100'
        >>> stop_reached({"env_steps": 1e6}, {"env_steps": 1_000_448})
        'env_steps 1,000,448 >= 1,000,000'
    """
    for metric, bound in stop.items():
        value = result.get(metric)
        if value is not None and value >= bound:
            return f"{metric} {_number(value)} >= {_number(bound)}"
    return None
