"""Evidence in a card (folder for sharing a policy): results of all seeds, and the seed whose weights are shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.report.configurations import Group, Sample, groups_of
from rlrun.report.reading import RunView
from rlrun.report.statistics import Estimate, bootstrapped, iqm

ONE_SEED = "one seed, so no interval"
"""Remark on the result of a single seed, which says little about what an algorithm reaches."""


@dataclass(frozen=True)
class SeedResult:
    """Evaluation of one seed's checkpoint.

    Attributes:
        trial: The seed's trial; for a population, its best member.
        checkpoint: The evaluated checkpoint.
        returns: Return of each episode.
    """

    trial: TrialResult
    checkpoint: Path
    returns: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean return of the episodes."""
        return float(np.mean(self.returns))


@dataclass(frozen=True)
class CardEvidence:
    """Evaluations of all seeds of a configuration, and the seed whose weights are shared.

    Attributes:
        group: The configuration.
        seeds: Evaluated seeds, in the order of the run.
        missing: Reasons why other seeds of the configuration have no result.
        shared: The seed whose weights are shared.
        is_named: Whether the user has chosen the shared seed; otherwise it is the seed with the median mean return.
    """

    group: Group
    seeds: tuple[SeedResult, ...]
    missing: tuple[str, ...]
    shared: SeedResult
    is_named: bool

    @property
    def estimate(self) -> Estimate | None:
        """Interquartile mean of the seeds' mean returns, with a confidence interval; None for a single seed."""
        means = [seed.mean for seed in self.seeds]
        return bootstrapped(iqm, [means]) if len(means) > 1 else None

    @property
    def worst(self) -> SeedResult:
        """The seed with the lowest mean return."""
        return min(self.seeds, key=lambda seed: seed.mean)


def configuration_named(run: RunView, trial: str | None) -> Group:
    """Configuration of a run to share in a card: the configuration of a given trial, or the run's only one.

    Raises:
        UsageError: The run has several configurations, and no trial is given.
    """
    groups = groups_of(run)
    if trial is not None:
        return next(group for group in groups if any(own.name == trial for own in group.trials))
    if len(groups) == 1:
        return groups[0]
    names = "\n".join(f"  {run.name}/{group.trials[0].name}" for group in groups)
    raise UsageError(
        f"{run.name} has {len(groups)} configurations, but a card describes only one. Name one of its trials "
        f"(the card includes the other seeds):\n{names}"
    )


def gather(
    run: RunView,
    group: Group,
    trial: str | None,
    checkpoint_of: Callable[[TrialResult], Path],
    evaluate: Callable[[Path], tuple[float, ...]],
) -> CardEvidence:
    """Evaluates every seed of a configuration.

    Args:
        run: The run.
        group: The configuration.
        trial: Name of the trial whose weights are shared; None for the seed with the median mean return (the lower of
            the two middle ones, if the number of seeds is even).
        checkpoint_of: Function that returns a trial's checkpoint.
        evaluate: Function that evaluates a checkpoint and gives the return of each episode.

    Raises:
        CheckpointError: The given trial has no checkpoint, or no trial has one.
    """
    metric, mode = run.goal
    seeds: list[SeedResult] = []
    missing: list[str] = []
    for sample in group.samples:
        member = _member(sample, trial, metric, mode)
        try:
            checkpoint = checkpoint_of(member)
        except CheckpointError as error:
            if member.name == trial:
                raise
            missing.append(f"{member.name} ({member.shown_status}) has no checkpoint")
            last = error
            continue
        seeds.append(SeedResult(member, checkpoint, evaluate(checkpoint)))
    if not seeds:
        raise last
    named = next((seed for seed in seeds if seed.trial.name == trial), None)
    median = sorted(seeds, key=lambda seed: seed.mean)[(len(seeds) - 1) // 2]
    return CardEvidence(group, tuple(seeds), tuple(missing), named or median, is_named=named is not None)


def _member(sample: Sample, trial: str | None, metric: str, mode: str) -> TrialResult:
    """Trial that represents a sample: the named trial, or a population's best member by its last value."""
    named = next((member for member in sample if member.name == trial), None)
    if named is not None or len(sample) == 1:
        return named or sample[0]
    scored = [(value, member) for member in sample if (value := member.final(metric)) is not None]
    if not scored:
        return sample[0]
    return (max if mode == "max" else min)(scored, key=lambda pair: pair[0])[1]
