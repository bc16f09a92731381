"""Progress towards the targets of a run's spec (`expect`), from the training results so far.

By contrast, `rlrun regress` judges by evaluating checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlrun.errors import SpecError
from rlrun.report.configurations import Group
from rlrun.report.reading import RunView
from rlrun.runs.trial_result import TrialResult
from rlrun.runs.trial_status import is_complete
from rlrun.spec.experiment import ExpectConfig


@dataclass(frozen=True)
class Reached:
    """Seeds of a configuration that have reached the targets of the spec.

    Attributes:
        label: Name of the configuration.
        reached: Number of seeds that have reached the targets.
        seeds: Number of seeds.
        needed: Number of seeds that must reach the targets.
        when: Env steps at which each of these seeds reached the targets, ascending.
        under_way: Env steps of each seed that has not reached the targets but has budget left, ascending.
        budget: Env steps within which a seed must reach the targets; None if unknown.
    """

    label: str
    reached: int
    seeds: int
    needed: int
    when: list[float]
    under_way: list[int]
    budget: int | None

    @property
    def passed(self) -> bool:
        """Whether enough seeds have reached the targets."""
        return self.reached >= self.needed

    @property
    def missed(self) -> bool:
        """Whether too few seeds have reached the targets or still can."""
        return self.reached + len(self.under_way) < self.needed


def expectation_of(spec: dict[str, Any]) -> ExpectConfig | None:
    """Targets of a spec (`expect`), None without valid ones."""
    expect = spec.get("expect")
    try:
        return ExpectConfig.parse(expect) if isinstance(expect, dict) else None
    except SpecError:
        return None


def reached_by(run: RunView, groups: Sequence[Group]) -> list[Reached]:
    """Number of seeds of each configuration that have reached the targets, [] without targets."""
    expect = expectation_of(run.spec)
    if expect is None:
        return []
    return [_reached(group, expect, _budget(run, expect)) for group in groups]


def _reached(group: Group, expect: ExpectConfig, budget: int | None) -> Reached:
    when, under_way = [], []
    for sample in group.samples:
        first = min((_first(trial, expect) for trial in sample), default=np.inf)
        if np.isfinite(first):
            when.append(float(first))
        elif any(_is_under_way(trial, expect) for trial in sample):
            under_way.append(max(trial.env_steps for trial in sample))
    seeds = len(group.samples)
    needed = expect.needed_passes(seeds)
    return Reached(group.label, len(when), seeds, needed, sorted(when), sorted(under_way), budget)


def _budget(run: RunView, expect: ExpectConfig) -> int | None:
    stop = run.spec.get("stop")
    own = stop.get("env_steps") if isinstance(stop, dict) else None
    return expect.within_env_steps or (int(own) if isinstance(own, int | float) else None)


def _is_under_way(trial: TrialResult, expect: ExpectConfig) -> bool:
    """Whether a trial may still reach the targets, since it has budget left."""
    seconds = trial.last_result.get("time_total_s")
    if expect.within_seconds is not None and seconds is not None and seconds >= expect.within_seconds:
        return False
    if expect.within_env_steps is not None:
        return trial.env_steps < expect.within_env_steps
    return not is_complete(trial.status)


def expectation_text(expect: ExpectConfig) -> str:
    """Formats targets as text: "episode_return_mean >= 450 within 150,000 env steps"."""
    limits = []
    if expect.within_env_steps is not None:
        limits.append(f"within {expect.within_env_steps:,} env steps")
    if expect.within_seconds is not None:
        limits.append(f"within {expect.within_seconds:g} s of training")
    wanted = " and ".join(f"{metric} >= {least:g}" for metric, least in expect.metrics.items())
    return " ".join([wanted, *([" and ".join(limits)] if limits else [])])


def _first(trial: TrialResult, expect: ExpectConfig) -> float:
    """Env steps at which a trial first reached all targets at once, infinity if it never did."""
    columns = trial.columns.values
    steps, seconds = columns["env_steps"], columns["time_total_s"]
    there = np.isfinite(steps)
    for metric, least in expect.metrics.items():
        there &= columns.get(metric, np.full(len(steps), np.nan)) >= least
    if expect.within_env_steps is not None:
        there &= steps <= expect.within_env_steps
    if expect.within_seconds is not None:
        there &= seconds <= expect.within_seconds
    return float(steps[there].min()) if there.any() else float("inf")
