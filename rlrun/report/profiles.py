"""Comparison of methods over several envs: performance profiles and aggregate scores (arXiv:2108.13264).

A method is an algorithm with its settings; its tasks are the envs. To make envs comparable, the returns of each env are
scaled so that the lowest final value of all methods is 0 and the highest is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.settings.metric import Mode
from rlrun.report.configurations import Group, params_text
from rlrun.report.curves import sample_points
from rlrun.report.reading import RunView, axis_of
from rlrun.report.statistics import (
    Estimate,
    Strata,
    bootstrapped,
    iqm,
    mean,
    median,
    probability_of_improvement,
)

Floats = NDArray[np.float64]
Scores = dict[str, dict[str, Floats]]
"""Type of scores: method -> task -> final values of its seeds."""

MOST_METHODS = 8
THRESHOLDS = 26


@dataclass(frozen=True)
class Method:
    """Scores of one method over all tasks.

    Attributes:
        label: Name of the method.
        seeds: Number of seeds with a final value, by task.
        iqm: Interquartile mean over all tasks' scores.
        mean: Mean over tasks of the task's mean score.
        median: Median over tasks of the task's mean score.
        optimality_gap: Mean amount by which scores fall short of 1.
        profile: For each threshold, the share of scores at or above it, averaged over tasks.
        probability: Probability that the best method improves on this one; None for the best one.
    """

    label: str
    seeds: dict[str, int]
    iqm: Estimate
    mean: Estimate
    median: Estimate
    optimality_gap: Estimate
    profile: list[Estimate]
    probability: Estimate | None


@dataclass(frozen=True)
class Profiles:
    """Performance profiles of methods over tasks.

    Attributes:
        tasks: Envs, each with the two final values (worst and best) that were mapped to 0 and 1.
        thresholds: Normalized scores at which profiles are evaluated.
        methods: The methods, best interquartile mean first.
        left_out: Methods without values in all envs.
        equal: Envs that are left out since all final values are equal.
    """

    tasks: dict[str, tuple[float, float]]
    thresholds: list[float]
    methods: list[Method]
    left_out: list[str]
    equal: list[str]


def profiles(runs: Sequence[RunView], groups: Sequence[Group], metric: str, mode: Mode) -> Profiles | None:
    """Performance profiles of all methods that were trained in every env; None if there is only one method or env.

    Envs in which all final values are equal are left out.

    Args:
        runs: The runs.
        groups: The configurations of all runs.
        metric: Metric that ranks the trials.
        mode: Whether higher or lower values of this metric are better.
    """
    scores = _scores(runs, groups, metric, mode)
    tasks = list(dict.fromkeys(task for found in scores.values() for task in found))
    whole = {label: found for label, found in scores.items() if len(found) == len(tasks)}
    if not whole:
        return None
    worst, best = (np.min, np.max) if mode == "max" else (np.max, np.min)
    pooled = {task: np.concatenate([found[task] for found in whole.values()]) for task in tasks}
    ends = {task: (float(worst(values)), float(best(values))) for task, values in pooled.items() if np.ptp(values)}
    if len(ends) < 2 or len(whole) < 2:
        return None
    scaled = {label: [_scaled(found[task], *ends[task]) for task in ends] for label, found in whole.items()}
    order = sorted(scaled, key=lambda label: -float(iqm(scaled[label])))
    thresholds = np.linspace(0.0, 1.0, THRESHOLDS)
    methods = [_method(label, list(ends), scaled, order[0], thresholds) for label in order[:MOST_METHODS]]
    left_out = [label for label in scores if label not in whole]
    equal = [task for task in tasks if task not in ends]
    return Profiles(ends, [float(t) for t in thresholds], methods, left_out, equal)


def env_of(run: RunView, group: Group) -> str:
    """Env of a configuration: the run's env, or the configuration's value if the env varies."""
    return str(group.params.get("env", run.env))


def _method(
    label: str, tasks: Sequence[str], scaled: Mapping[str, list[Floats]], first: str, thresholds: Floats
) -> Method:
    strata = scaled[label]
    return Method(
        label=label,
        seeds={task: len(scores) for task, scores in zip(tasks, strata, strict=True)},
        iqm=bootstrapped(iqm, strata),
        mean=bootstrapped(mean, strata),
        median=bootstrapped(median, strata),
        optimality_gap=bootstrapped(mean, [1.0 - scores for scores in strata]),
        profile=[bootstrapped(mean, _reached(strata, threshold)) for threshold in thresholds],
        probability=None if label == first else probability_of_improvement(scaled[first], strata),
    )


def _reached(strata: Strata, threshold: float) -> list[Floats]:
    return [np.asarray(scores >= threshold, np.float64) for scores in strata]


def _scaled(values: Floats, worst: float, best: float) -> Floats:
    return (values - worst) / (best - worst)


def _scores(runs: Sequence[RunView], groups: Sequence[Group], metric: str, mode: Mode) -> Scores:
    """Final values by method and env; if an algorithm was run twice in an env, each run is a method."""
    by_name = {run.name: run for run in runs}
    rows = [(by_name[group.run], group, _final_values(by_name[group.run], group, metric, mode)) for group in groups]
    rows = [row for row in rows if len(row[2])]
    keys = [(_method_name(run.algorithm, group.params), env_of(run, group)) for run, group, _ in rows]
    if len(set(keys)) < len(keys):
        keys = [(_method_name(run.name, group.params), env_of(run, group)) for run, group, _ in rows]
    scores: Scores = {}
    for (method, env), (_, _, values) in zip(keys, rows, strict=True):
        scores.setdefault(method, {})[env] = values
    return scores


def _final_values(run: RunView, group: Group, metric: str, mode: Mode) -> Floats:
    axis = axis_of([run], None)
    courses = [sample_points(sample, metric, axis, mode)[1] for sample in group.samples]
    return np.array([values[-1] for values in courses if len(values)], np.float64)


def _method_name(name: str, params: Mapping[str, Any]) -> str:
    others = {key: value for key, value in params.items() if key != "env"}
    return f"{name}, {params_text(others)}" if others else name
