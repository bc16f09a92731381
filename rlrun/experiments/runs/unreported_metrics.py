"""Metrics that a spec names but that no result contains, such as a misspelled number of the env's infos.

The names of numbers in infos and of per-step columns are known only from episodes, so a spec is checked for them once
episodes have ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.messages.explain import dotted
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.named_metrics import metric_keys, metric_values
from rlrun.experiments.trial.results import RETURN, Row

MOST_NAMES = 5
"""Maximum number of reported metrics that a message lists."""

_OF_EPISODES = re.compile(r"(|.*?/)(info|episode_columns)/.+")


class UnreportedMetrics:
    """Finds the metrics of episodes that a spec names but a run does not report, from result rows as they come.

    Args:
        spec: The experiment as plain data.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._awaited = _metrics_of_episodes(spec)

    def found(self, row: Row, all_rows: Callable[[], Iterable[Row]]) -> list[str]:
        """Messages on the metrics that a trial would have reported by now, at most one for each metric and run.

        Args:
            row: A new result row of the trial.
            all_rows: Function that returns all rows of the trial, which may begin before a resume.
        """
        due = {metric: place for metric, place in self._awaited.items() if metric in row or _has_episodes(row, metric)}
        if not due:
            return []
        self._awaited = {metric: place for metric, place in self._awaited.items() if metric not in due}
        names = {**row} if due.keys() <= row.keys() else {name: None for each in (*all_rows(), row) for name in each}
        return _messages(due, names, "no result so far has")


def unreported_metrics(spec: Mapping[str, Any], trials: Sequence[TrialResult]) -> list[str]:
    """Messages on the metrics of episodes that a spec names but that no trial of its run has reported.

    Args:
        spec: The experiment as plain data, possibly invalid.
        trials: The run's trials.
    """
    rows = [trial.last_result for trial in trials]
    due = {
        metric: place
        for metric, place in _metrics_of_episodes(spec).items()
        if not any(metric in row for row in rows) and any(_has_episodes(row, metric) for row in rows)
    }
    names = dict.fromkeys(name for trial in trials for name in trial.columns.reported) if due else {}
    return _messages(due, names, "no result has")


def _metrics_of_episodes(spec: Mapping[str, Any]) -> dict[str, str]:
    """Metrics that a spec names and whose names are known only from episodes, each with its place in the spec."""
    named: dict[str, str] = {}
    for location, metric in (*metric_keys(spec), *metric_values(spec)):
        if _OF_EPISODES.fullmatch(metric):
            named.setdefault(metric, dotted(part for part in location if part != metric))
    return named


def _has_episodes(row: Row, metric: str) -> bool:
    """Whether a row is based on finished episodes of the kind that a metric measures."""
    kind = _OF_EPISODES.fullmatch(metric)
    return kind is not None and row.get(f"{kind[1]}{RETURN}") is not None


def _messages(due: Mapping[str, str], reported: Mapping[str, object], says: str) -> list[str]:
    """Messages on the metrics that are not among the reported ones, each with the nearest reported name."""
    messages = []
    for metric, place in due.items():
        if metric not in reported and (kind := _OF_EPISODES.fullmatch(metric)):
            alike = [name for name in reported if name.startswith(f"{kind[1]}{kind[2]}/")]
            listed = f"; reported are {', '.join(alike[:MOST_NAMES])}" if alike else ""
            messages.append(f"{place}: {says} '{metric}'{did_you_mean(metric, alike) or listed}")
    return messages
