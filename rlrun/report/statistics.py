"""Statistics for few seeds: robust averages, bootstrap intervals, probability of improvement, rank tests.

The measures follow Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(arXiv:2108.13264), and agree with the authors' package rliable (`scripts/check_statistics.py` compares). Scores are in
strata, an array for each task or configuration: a bootstrap draws within every stratum, and averages over strata give
each stratum the same weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlrun.engine.functional.intervals import t_quantile

Floats = NDArray[np.float64]
Strata = Sequence[Floats]

RESAMPLES = 5_000
"""Number of bootstrap resamples."""

CONFIDENCE = 0.95

EXACT_COST = 100_000_000
"""Maximum number of additions for which a rank test is exact."""

_SEED = 0
_RESAMPLED_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Estimate:
    """Estimate with a 95% confidence interval.

    Attributes:
        value: The estimate, computed from the scores themselves.
        low: Lower end of the 95% interval.
        high: Upper end of the 95% interval.
    """

    value: float
    low: float
    high: float


def interquartile_mean(scores: ArrayLike) -> Floats:
    """Interquartile mean over the last axis: mean without the lowest and highest quarter of scores (each rounded down).

    For fewer than 4 scores, this is the mean. (arXiv:2108.13264, section 4.2)

    Examples:
        >>> float(interquartile_mean([1.0, 2.0, 3.0, 100.0]))
        2.5
    """
    values = np.sort(np.asarray(scores, np.float64))
    size = values.shape[-1]
    cut = size // 4
    return np.asarray(values[..., cut : size - cut].mean(axis=-1))


def iqm(strata: Strata) -> Floats:
    """Interquartile mean of the pooled scores of all strata.

    Args:
        strata: One array of scores per stratum (task or configuration); scores are along the last axis.
    """
    return interquartile_mean(np.concatenate(strata, axis=-1))


def mean(strata: Strata) -> Floats:
    """Mean over strata of each stratum's mean score.

    Args:
        strata: One array of scores per stratum (task or configuration); scores are along the last axis.
    """
    return np.asarray(np.mean([scores.mean(axis=-1) for scores in strata], axis=0))


def median(strata: Strata) -> Floats:
    """Median over strata of each stratum's mean score; for a single stratum, the median of its scores.

    Args:
        strata: One array of scores per stratum (task or configuration); scores are along the last axis.
    """
    if len(strata) == 1:
        return np.asarray(np.median(strata[0], axis=-1))
    return np.asarray(np.median([scores.mean(axis=-1) for scores in strata], axis=0))


def bootstrapped(measure: Callable[[Strata], Floats], strata: Sequence[ArrayLike]) -> Estimate:
    """Computes a statistic and its 95% interval by stratified percentile bootstrap, with a fixed random seed.

    Args:
        measure: Function of strata that reduces their last axis, which holds scores: `iqm`, `mean`, `median`.
        strata: One non-empty array of scores per stratum; each is resampled with replacement.
    """
    scores = [np.asarray(stratum, np.float64) for stratum in strata]
    drawn = _in_parts(measure, scores, RESAMPLES, np.random.Generator(np.random.Philox(_SEED)))
    low, high = _interval(drawn)
    return Estimate(float(measure(scores)), low, high)


def probability_of_improvement(ours: Sequence[ArrayLike], theirs: Sequence[ArrayLike]) -> Estimate:
    """Probability that a score of `ours` exceeds a score of `theirs`, averaged over strata.

    Ties count half.

    This is the Mann-Whitney statistic divided by the number of pairs (arXiv:2108.13264, section 4.3); for the interval,
    both sides are resampled independently.

    Args:
        ours: One array of scores per stratum.
        theirs: As many arrays as in `ours`, for the same tasks in the same order.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"cannot pair the runs: one side has {len(ours)} strata, the other {len(theirs)}")
    pairs = [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in zip(ours, theirs, strict=True)]
    draws = np.random.Generator(np.random.Philox(_SEED))

    def resampled(x: Floats, y: Floats) -> Floats:
        wins = (x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])
        rows = draws.multinomial(len(x), np.full(len(x), 1 / len(x)), size=RESAMPLES)
        columns = draws.multinomial(len(y), np.full(len(y), 1 / len(y)), size=RESAMPLES)
        return np.asarray(np.einsum("rx,xy,ry->r", rows, wins, columns, optimize=True) / (len(x) * len(y)))

    value = float(np.mean([_share_of_wins(x, y) for x, y in pairs]))
    low, high = _interval(np.mean([resampled(x, y) for x, y in pairs], axis=0))
    return Estimate(value, low, high)


def mean_difference(ours: Sequence[ArrayLike], theirs: Sequence[ArrayLike]) -> Estimate:
    """Difference of means, `ours` minus `theirs`, averaged over strata, with Welch's t interval.

    The two sides may differ in variance; the degrees of freedom are Satterthwaite's. With three scores against three a
    bootstrap interval covers the difference in at most 89 of 100 cases, as it never leaves the scores' range. Welch's
    interval covers it in 94 to 99 cases if both sides have equally many scores, and in 90 to 94 with 3 against 10
    (`scripts/check_statistics.py --coverage`). (Welch 1947, doi:10.1093/biomet/34.1-2.28)

    Args:
        ours: One array of scores per stratum, 2 or more in each.
        theirs: As many arrays as in `ours`, for the same tasks in the same order.
    """
    pairs = [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in zip(ours, theirs, strict=True)]
    sides = [scores for pair in pairs for scores in pair]
    if min(map(len, sides)) < 2:
        raise ValueError("an interval needs at least two scores on both sides")
    difference = float(np.mean([x.mean() - y.mean() for x, y in pairs]))
    variances = np.array([scores.var(ddof=1) / len(scores) for scores in sides])  # variance of each side's mean
    total = float(variances.sum())
    if total == 0:
        return Estimate(difference, difference, difference)
    shares = variances / total
    degrees = 1 / float(np.sum(shares**2 / [len(scores) - 1 for scores in sides]))
    half = t_quantile(degrees) * math.sqrt(total) / len(pairs)
    return Estimate(difference, difference - half, difference + half)


def rank_test(ours: ArrayLike, theirs: ArrayLike) -> float:
    """Two-sided p value of the Mann-Whitney rank test.

    The p value is exact, over all ways to split the values into two groups of these sizes, including ties. For hundreds
    of values, the normal approximation is used. Unlike a bootstrap, the test is not overconfident with three seeds.

    Examples:
        >>> rank_test([7, 8, 9], [1, 2, 3])  # 2 of the 20 ways are as extreme
        0.1
    """
    x, y = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if len(x) > len(y):
        x, y = y, x
    ranks = _doubled_ranks(np.concatenate([x, y]))
    expected = len(x) * (len(ranks) + 1)
    deviation = abs(int(ranks[: len(x)].sum()) - expected)
    largest = int(np.sort(ranks)[len(y) :].sum())
    if len(ranks) * len(x) * largest > EXACT_COST:
        variance = len(x) * len(y) / len(ranks) * float(np.var(ranks, ddof=1)) if np.ptp(ranks) else 1.0
        return math.erfc(max(0, deviation - 1) / math.sqrt(2 * variance))
    ways = np.zeros((len(x) + 1, largest + 1))  # number of subsets, by size and sum of ranks
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : largest + 1 - rank]
    is_as_extreme = np.abs(np.arange(largest + 1) - expected) >= deviation
    return float(ways[-1, is_as_extreme].sum() / ways[-1].sum())


def holm(p_values: Sequence[float], tests: int | None = None) -> list[float]:
    """Holm's adjustment of p values for multiple tests (Holm 1979).

    Args:
        p_values: The p values.
        tests: Total number of tests, if these p values were selected from more tests on the same data.

    Examples:
        >>> holm([0.01, 0.04, 0.5])
        [0.03, 0.08, 0.5]
    """
    tests = len(p_values) if tests is None else tests
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (tests - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def smallest_p(ours: int, theirs: int) -> float:
    """Smallest possible p value of `rank_test` for groups of these sizes, reached if their values do not overlap."""
    return min(1.0, 2 / math.comb(ours + theirs, ours))


def _in_parts(
    measure: Callable[[Strata], Floats], scores: Strata, resamples: int, draws: np.random.Generator
) -> Floats:
    """Statistic of bootstrap resamples, drawn in batches that fit into memory."""
    at_once = max(1, _RESAMPLED_AT_ONCE // sum(map(len, scores)))
    return np.concatenate(
        [
            measure([s[draws.integers(len(s), size=(min(at_once, resamples - done), len(s)))] for s in scores])
            for done in range(0, resamples, at_once)
        ]
    )


def _interval(drawn: Floats) -> tuple[float, float]:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return float(low), float(high)


def _share_of_wins(x: Floats, y: Floats) -> float:
    return float(np.mean((x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])))


def _doubled_ranks(values: Floats) -> NDArray[np.int64]:
    """Ranks from 1, doubled to be integers; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((2 * last - counts + 1)[inverse], np.int64)
