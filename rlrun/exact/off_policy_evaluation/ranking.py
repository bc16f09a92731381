"""Ranking of several policies by one off-policy estimator, with paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from rlrun.exact.off_policy_evaluation.estimators import ValueEstimate
from rlrun.exact.off_policy_evaluation.evaluation import DR, FQE, PolicyEvaluation

RANKED_BY = (f"weighted {DR}", FQE)
"""Estimators by which policies are ranked: the first one that has an estimate of every policy."""


@dataclass(frozen=True)
class RankedPair:
    """Difference between the value estimates of two policies on the same episodes.

    Attributes:
        better: Index of the policy with the higher estimate.
        worse: Index of the other policy.
        difference: Difference of their estimates.
        ci95: 95 % confidence interval of the difference, paired by episodes.
    """

    better: int
    worse: int
    difference: float
    ci95: tuple[float, float]

    @property
    def is_resolved(self) -> bool:
        """Whether the interval excludes 0, so that the data distinguish the two policies."""
        return self.ci95[0] > 0


@dataclass(frozen=True)
class Ranking:
    """Policies ordered by their value estimates.

    Attributes:
        estimator: Name of the estimator.
        order: Indices of the policies, the best one first.
        pairs: Differences of all pairs of policies, in this order.
    """

    estimator: str
    order: tuple[int, ...]
    pairs: tuple[RankedPair, ...]

    @property
    def num_resolved(self) -> int:
        """Number of pairs of policies that the data distinguish."""
        return sum(pair.is_resolved for pair in self.pairs)


def ranked(evaluations: Sequence[PolicyEvaluation]) -> Ranking:
    """Ranks policies that were evaluated on the same episodes, with the same discount and seed."""
    for estimator in RANKED_BY:
        rows = [evaluation.judged_by(estimator) for evaluation in evaluations]
        estimates = [row.estimate for row in rows if row is not None and row.estimate is not None]
        if len(estimates) == len(evaluations):
            break
    order = sorted(range(len(estimates)), key=lambda index: -estimates[index].value)
    pairs = [_pair(estimates, better, worse) for better, worse in combinations(order, 2)]
    return Ranking(estimator, tuple(order), tuple(pairs))


def _pair(estimates: Sequence[ValueEstimate], better: int, worse: int) -> RankedPair:
    difference = estimates[better].minus(estimates[worse])
    return RankedPair(better, worse, difference.value, difference.ci95)
