"""Selection of the metrics that a report page draws as a grid of small charts, by section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.trial.results import is_timing
from rlrun.report.reading import RunView

CLOCK = "time_total_s"

MOST_PER_SECTION = 12

MOST_TRIALS = 200
"""Maximum number of trials for which all metrics are read; the metrics of more trials take too much memory."""

LEAST_SHARE = 0.005
"""Smallest share of the time for which a phase is listed."""

_COUNTERS = frozenset(
    {"iteration", "env_steps", "agent_steps", "sgd_steps", "episodes", "weights_version", "worker_restarts", CLOCK}
)

_GAMES = re.compile(r"evaluation/against/.*|league/.*")

_SUMS = re.compile(r"evaluation/against/.*unbeaten_rate")
"""Metrics that are sums of others, and so are not drawn."""

_RETURNS = re.compile(r"(.*/)?episode_.*|evaluation/.*")

_LEARNER = re.compile(r"(policies/[^/]+/)?learner/.*|policies/.*")

_FIRST = ("policy_loss", "value_loss", "loss", "entropy", "kl", "explained_variance", "clip_fraction", "grad_norm")
"""Last parts of the names of learner metrics that are drawn first, in this order."""


@dataclass(frozen=True)
class MetricGrid:
    """Metrics in a grid of small charts, by section.

    Attributes:
        sections: Names of the metrics, by section title.
        constants: Metrics that are constant in all results, and so are not drawn.
        left_out: Number of varying metrics that are not drawn, since their section is full.
    """

    sections: dict[str, list[str]]
    constants: dict[str, float]
    left_out: int

    @property
    def names(self) -> list[str]:
        """Names of all metrics in the grid."""
        return [name for names in self.sections.values() for name in names]


def grid_metrics(trials: Sequence[TrialResult]) -> list[str]:
    """Names of the numeric metrics in trials' newest results; [] if there are too many trials to read all metrics."""
    if len(trials) > MOST_TRIALS:
        return []
    names = dict.fromkeys(
        name for trial in trials for name, value in trial.last_result.items() if isinstance(value, int | float | None)
    )
    return [name for name in names if _last_part(name) not in _COUNTERS and not _SUMS.fullmatch(name)]


def metric_grid(runs: Sequence[RunView], names: Iterable[str]) -> MetricGrid:
    """Sorts metrics into the sections of a grid, omitting those that are constant within each trial.

    Args:
        runs: The runs, with the columns of the metrics.
        names: Names of the metrics.
    """
    trials = [trial for run in runs for trial in run.trials]
    sections: dict[str, list[str]] = {"Games": [], "Returns": [], "Learner": [], "Time": [], "Others": []}
    constants = {}
    for name in names:
        courses = [values for trial in trials if len(values := _finite(trial, name))]
        if any(np.ptp(values) > 0 for values in courses):
            sections[_section(name)].append(name)
        elif len(distinct := {float(values[0]) for values in courses}) == 1:
            constants[name] = distinct.pop()
    sections["Games"].sort(key=lambda name: name.startswith("league/"))
    sections["Learner"].sort(key=_learner_order)
    left_out = sum(max(0, len(found) - MOST_PER_SECTION) for found in sections.values())
    kept = {title: found[:MOST_PER_SECTION] for title, found in sections.items() if found}
    return MetricGrid(kept, constants, left_out)


def phases(trial: TrialResult) -> list[tuple[str, float]]:
    """Splits a trial's time into phases, in seconds: dataflow operators, evaluation, checkpoints, rest; longest first.

    Args:
        trial: The trial, with the columns of its timings.
    """
    values = trial.columns.values
    found = {
        name.removeprefix("time/").removesuffix("_s"): float(np.nansum(column))
        for name, column in values.items()
        if name.startswith("time/") and name.endswith("_s")
    }
    total = trial.final(CLOCK) or 0.0
    found["rest"] = total - sum(found.values())
    ordered = sorted(found.items(), key=lambda pair: -pair[1])
    return [(name, seconds) for name, seconds in ordered if total and seconds >= LEAST_SHARE * total]


def _section(name: str) -> str:
    if is_timing(name):
        return "Time"
    if _GAMES.fullmatch(name):
        return "Games"
    if _RETURNS.fullmatch(name):
        return "Returns"
    return "Learner" if _LEARNER.fullmatch(name) else "Others"


def _learner_order(name: str) -> int:
    last = _last_part(name)
    return _FIRST.index(last) if last in _FIRST else len(_FIRST)


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]


def _finite(trial: TrialResult, name: str) -> NDArray[np.float64]:
    values = trial.columns.values.get(name, np.empty(0))
    return values[np.isfinite(values)]
