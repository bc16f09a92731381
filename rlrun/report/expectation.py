"""Progress towards the targets of a run's spec (`expect`), from the training results so far.

By contrast, `rlrun regress` evaluates checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.runs.trial_status import is_complete
from rlrun.experiments.spec.experiment import ExpectConfig
from rlrun.report.configurations import Group
from rlrun.report.reading import RunView
from rlrun.report.step_axis import ENV_STEPS, STEP_NAMES


@dataclass(frozen=True)
class Reached:
    """Number of seeds of a configuration that have reached the targets of the spec.

    Attributes:
        label: Name of the configuration.
        reached: Number of seeds that have reached the targets.
        seeds: Number of seeds.
        needed: Number of seeds that must reach the targets.
        when: Steps at which the seeds reached the targets, ascending.
        under_way: Steps taken so far by seeds that have not reached the targets but have budget left, ascending.
        budget: Steps within which a seed must reach the targets; None if unknown.
        counter: Metric that counts these steps: `env_steps`, or `sgd_steps` in offline training.
    """

    label: str
    reached: int
    seeds: int
    needed: int
    when: list[float]
    under_way: list[int]
    budget: int | None
    counter: str

    @property
    def passed(self) -> bool:
        """Whether enough seeds have reached the targets of the spec."""
        return self.reached >= self.needed

    @property
    def missed(self) -> bool:
        """Whether the configuration has missed the targets: too few seeds have reached them or can still do so."""
        return self.reached + len(self.under_way) < self.needed


def expectation_of(spec: dict[str, Any]) -> ExpectConfig | None:
    """Targets in the section `expect` of a spec; None if there are no valid targets."""
    expect = spec.get("expect")
    try:
        return ExpectConfig.parse(expect) if isinstance(expect, dict) else None
    except SpecError:
        return None


def reached_by(run: RunView, groups: Sequence[Group]) -> list[Reached]:
    """Counts, for each configuration of a run, the seeds that have reached the spec's targets; [] without targets."""
    expect = expectation_of(run.spec)
    if expect is None:
        return []
    stop = run.spec.get("stop")
    stop = stop if isinstance(stop, dict) else {}
    counter = _counter(stop, expect)
    return [_reached(group, expect, _budget(stop, expect, counter), counter) for group in groups]


def _counter(stop: dict[str, Any], expect: ExpectConfig) -> str:
    return next((metric for metric in (*expect.within_steps, *stop) if metric in STEP_NAMES), ENV_STEPS)


def _reached(group: Group, expect: ExpectConfig, budget: int | None, counter: str) -> Reached:
    when, under_way = [], []
    for sample in group.samples:
        first = min((_first(trial, expect, counter) for trial in sample), default=np.inf)
        if np.isfinite(first):
            when.append(float(first))
        elif any(_is_under_way(trial, expect) for trial in sample):
            under_way.append(max(_steps(trial, counter) for trial in sample))
    seeds = len(group.samples)
    needed = expect.required_passes(seeds)
    return Reached(group.label, len(when), seeds, needed, sorted(when), sorted(under_way), budget, counter)


def _budget(stop: dict[str, Any], expect: ExpectConfig, counter: str) -> int | None:
    own = stop.get(counter)
    return expect.within_steps.get(counter) or (int(own) if isinstance(own, int | float) else None)


def _steps(trial: TrialResult, counter: str) -> int:
    return trial.env_steps if counter == ENV_STEPS else int(trial.last_result.get(counter) or 0)


def _is_under_way(trial: TrialResult, expect: ExpectConfig) -> bool:
    """Whether a trial may still reach the targets, since it has budget left."""
    seconds = trial.last_result.get("time_total_s")
    if expect.within_seconds is not None and seconds is not None and seconds >= expect.within_seconds:
        return False
    if expect.within_steps:
        return all(_steps(trial, counter) < limit for counter, limit in expect.within_steps.items())
    return not is_complete(trial.status)


def expectation_text(expect: ExpectConfig) -> str:
    """Formats targets as text: "episode_return_mean >= 450 within 150,000 env steps"."""
    limits = [f"within {limit:,} {STEP_NAMES[counter]}" for counter, limit in expect.within_steps.items()]
    if expect.within_seconds is not None:
        limits.append(f"within {expect.within_seconds:g} s of training")
    wanted = " and ".join(f"{metric} >= {least:g}" for metric, least in expect.metrics.items())
    return " ".join([wanted, *([" and ".join(limits)] if limits else [])])


def _first(trial: TrialResult, expect: ExpectConfig, counter: str) -> float:
    """Steps at which a trial first reached all targets at once, infinity if it never did."""
    columns = trial.columns.values
    steps, seconds = columns[counter], columns["time_total_s"]
    there = np.isfinite(steps)
    for metric, least in expect.metrics.items():
        there &= columns.get(metric, np.full(len(steps), np.nan)) >= least
    for limited, limit in expect.within_steps.items():
        there &= columns[limited] <= limit
    if expect.within_seconds is not None:
        there &= seconds <= expect.within_seconds
    return float(steps[there].min()) if there.any() else float("inf")
