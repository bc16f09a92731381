"""Summary of a run: number of trials, status, results of the configurations, and best trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlrun.engine.checkpoint.format import verify_checkpoint
from rlrun.engine.messages.errors import CheckpointError
from rlrun.engine.settings.metric import Mode
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.report.configurations import Group, groups_of, is_number, value_text
from rlrun.report.curves import sample_points
from rlrun.report.reading import RunView, counterpart
from rlrun.report.statistics import Estimate, bootstrapped, iqm, mean
from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS, common_axis

TRIALS_TRIED = 5
"""Maximum number of the best trials that are searched for a valid checkpoint."""


@dataclass(frozen=True)
class GroupSummary:
    """Results of a configuration, aggregated over its seeds.

    Attributes:
        label: Name of the configuration.
        params: Values of the varying parameters.
        seeds: Number of trials or populations.
        status: Number of trials by status, such as "3 terminated".
        env_steps: Mean env steps over the trials.
        sgd_steps: Mean SGD steps over the trials.
        mean: Mean of the metric's last values with its interval; None if there are no values.
        iqm: Interquartile mean of the last values with its interval; None if there are no values.
        best: Best value of the metric over all trials and iterations.
        counterpart: Mean over trials of the last value of the metric's counterpart (the same return, measured in
            training instead of evaluations, or the reverse); None without values.
    """

    label: str
    params: dict[str, Any]
    seeds: int
    status: str
    env_steps: float | None
    sgd_steps: float | None
    mean: Estimate | None
    iqm: Estimate | None
    best: float | None
    counterpart: float | None


@dataclass(frozen=True)
class BestTrial:
    """Trial of a run with the best value of the metric over all iterations.

    Attributes:
        trial: Name of the trial.
        value: Best value of the metric.
        checkpoint: Best checkpoint of the trial, or the newest valid one if the metric is minimized; None if there is
            none.
    """

    trial: str
    value: float
    checkpoint: Path | None


def summarise(groups: Iterable[Group], metric: str, mode: Mode) -> list[GroupSummary]:
    """Summarizes groups of trials; the result is sorted by mean, best first, with groups without values last."""
    found = [_summary(group, metric, mode) for group in groups]
    there = [summary for summary in found if summary.mean is not None]
    there.sort(key=lambda summary: summary.mean.value if summary.mean else 0.0, reverse=mode == "max")
    return there + [summary for summary in found if summary.mean is None]


def best_trial(run: RunView, metric: str, mode: Mode) -> tuple[BestTrial | None, list[str]]:
    """Best trial of a run, with its best valid checkpoint.

    Returns:
        The trial (None if no trial has a value), and the problems with checkpoints that were skipped.
    """
    scored = [(value, trial) for trial in run.trials if (value := trial.best(metric, mode)) is not None]
    scored.sort(key=lambda pair: pair[0], reverse=mode == "max")
    problems: list[str] = []
    for value, trial in scored[:TRIALS_TRIED]:
        checkpoint = _best_checkpoint(trial, metric, mode, problems)
        if checkpoint is not None:
            return BestTrial(trial.name, value, checkpoint), problems
    return (BestTrial(scored[0][1].name, scored[0][0], None) if scored else None), problems


def shape_text(run: RunView) -> str:
    """Number of trials as a product, as text: "6 configurations x 3 seeds = 18 trials"."""
    trials = f"{len(run.trials)} trial{'s' * (len(run.trials) != 1)}"
    populations = Counter(trial.population for trial in run.trials if trial.population is not None)
    if populations:
        members = max(populations.values())
        return f"{_counted(len(populations), 'population')} of {_counted(members, 'member')}"
    groups = groups_of(run)
    seeds = Counter(len(group.samples) for group in groups)
    if len(run.trials) < 2:
        return trials
    if len(seeds) == 1:
        return f"{_counted(len(groups), 'configuration')} x {_counted(next(iter(seeds)), 'seed')} = {trials}"
    return f"{_counted(len(groups), 'configuration')}, {trials}"


def status_text(trials: Sequence[TrialResult]) -> str:
    """Status of trials as text: "terminated", or "3 terminated, 1 running" if they differ."""
    counts = Counter(trial.status.lower() for trial in trials)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def varied_text(run: RunView) -> dict[str, str]:
    """Describes the values of each parameter that varies between a run's trials, as a list or, if many, a range."""
    values: dict[str, dict[str, Any]] = {}
    for trial in run.trials:
        for name, value in trial.params.items():
            values.setdefault(name, {}).setdefault(value_text(value), value)
    return {name: _values_text(list(found.items())) for name, found in values.items()}


def _values_text(found: list[tuple[str, Any]]) -> str:
    numbers = [value for _, value in found if is_number(value)]
    if len(found) > 6 and len(numbers) == len(found):
        return f"{value_text(min(numbers))} to {value_text(max(numbers))}"
    shown = ", ".join(text for text, _ in found[:6])
    return shown if len(found) <= 6 else f"{shown}, ... ({len(found)} values)"


def _summary(group: Group, metric: str, mode: Mode) -> GroupSummary:
    axis = common_axis(trial.last_result for trial in group.trials)
    strata = [[_last_value(sample_points(sample, metric, axis, mode)[1]) for sample in s] for s in group.strata]
    ends = [kept for stratum in strata if (kept := np.array([value for value in stratum if value is not None])).size]
    bests = [best for trial in group.trials if (best := trial.best(metric, mode)) is not None]
    other = counterpart(metric)
    others = [] if other is None else [last for trial in group.trials if (last := trial.final(other)) is not None]
    return GroupSummary(
        label=group.label,
        params=group.params,
        seeds=len(group.samples),
        status=status_text(group.trials),
        env_steps=_mean_count(group, ENV_STEPS),
        sgd_steps=_mean_count(group, SGD_STEPS),
        mean=bootstrapped(mean, ends) if ends else None,
        iqm=bootstrapped(iqm, ends) if ends else None,
        best=None if not bests else max(bests) if mode == "max" else min(bests),
        counterpart=float(np.mean(others)) if others else None,
    )


def _mean_count(group: Group, counter: str) -> float | None:
    counts = [count for trial in group.trials if isinstance(count := trial.last_result.get(counter), int)]
    return float(np.mean(counts)) if counts else None


def _last_value(values: Any) -> float | None:
    return float(values[-1]) if len(values) else None


def _best_checkpoint(trial: TrialResult, metric: str, mode: Mode, problems: list[str]) -> Path | None:
    if mode == "max" and (best := trial.best_checkpoint_by(metric)) is not None:
        try:
            verify_checkpoint(best)
        except CheckpointError as error:
            problems.append(str(error))
        else:
            return best
    problems += [reason for skipped in trial.checkpoints.skipped if (reason := skipped.reason) not in problems]
    return trial.checkpoint


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
