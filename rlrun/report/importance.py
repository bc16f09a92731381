"""Parameter importance: the share of the variance between configurations that each parameter explains alone.

For each parameter the configurations are put into bins (its values, or quantiles of a number). The share is epsilon
squared (Kelley 1935): the correlation ratio between bins and score, corrected for the number of bins. The share
measures a parameter's own effect, of any shape, but no interactions: two parameters that matter only in combination
both have a share of 0. The method assumes no model and uses only the order of numbers, so that a logarithmic range
needs no special treatment.

Two numbers show its uncertainty: a 95% bootstrap interval over the configurations, and the share that shuffled scores
reach for any of the parameters in one of 20 sweeps (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.report.configurations import is_number, value_text

Floats = NDArray[np.float64]
Bins = NDArray[np.int64]

LEAST_CONFIGURATIONS = 10
"""Minimum number of configurations for parameter importance."""

NARROW_BELOW = 20
"""Number of configurations below which bootstrap intervals are too narrow."""

PER_BIN = 5
"""Number of configurations per bin of a numeric parameter."""

MOST_BINS = 5

RESAMPLES = 1_000
"""Number of permutations and bootstrap resamples; fewer for very many configurations."""

_DRAWN = 2_000_000

_SEED = 0


@dataclass(frozen=True)
class ParameterEffect:
    """Effect of one parameter on the score: share of explained variance, with uncertainty.

    Attributes:
        name: Name of the parameter.
        share: Share of the variance that the parameter explains alone; may be slightly negative due to noise.
        low: Lower end of the share's 95% interval, at least 0.
        high: Upper end of the interval.
        chance: Share that, with shuffled scores, at least one parameter would reach by chance in 1 out of 20 sweeps.
        bins: For each bin: its values as text, the number of configurations, and their mean score.
    """

    name: str
    share: float
    low: float
    high: float
    chance: float
    bins: list[tuple[str, int, float]]


@dataclass(frozen=True)
class Importance:
    """Parameter importance of a sweep: effects of all parameters on the score.

    Attributes:
        configurations: Number of configurations with a score.
        effects: The parameters that vary, the largest share first; empty if there is no result.
        caveat: Reason for a missing result, or a remark on the result; "" for neither.
    """

    configurations: int
    effects: list[ParameterEffect]
    caveat: str


def importance(params: Sequence[dict[str, Any]], scores: Sequence[float]) -> Importance:
    """Parameter importance: the share of the scores' variance that each parameter explains alone.

    Args:
        params: Each configuration's parameters, all with the same names.
        scores: Each configuration's score, the mean over its seeds.
    """
    values = np.asarray(scores, np.float64)
    count = len(values)
    names = [name for name in (params[0] if params else {}) if len({value_text(p.get(name)) for p in params}) > 1]
    if not names:
        return Importance(count, [], "no parameter varies")
    if count < LEAST_CONFIGURATIONS:
        caveat = (
            f"{count} configurations are too few to tell which parameter matters; at least {LEAST_CONFIGURATIONS} "
            "are needed"
        )
        return Importance(count, [], caveat)
    if np.ptp(values) == 0:
        return Importance(count, [], "all configurations have the same score")
    binned = {name: _binned([p.get(name) for p in params]) for name in names}
    skipped = [name for name, (bins, _) in binned.items() if bins.max() == 0]
    kept = {name: bins for name, bins in binned.items() if name not in skipped}
    effects = [_effect(name, bins, labels, values, tests=len(kept)) for name, (bins, labels) in kept.items()]
    effects.sort(key=lambda effect: effect.share, reverse=True)
    return Importance(count, effects, _caveat(count, effects, skipped))


def variance_share(bins: Bins, scores: Floats) -> Floats:
    """Epsilon squared, 1 - (SS within / (n - bins)) / (SS total / (n - 1)), over the last axis of the scores.

    SS is the sum of squared deviations, either from the bins' means (within) or from the overall mean (total).

    Args:
        bins: The bin of each of the n configurations, [n] or [..., n], from 0; a resample may leave some bins empty.
        scores: Scores, [..., n].
    """
    within, total, count = _sums(np.broadcast_to(bins, scores.shape), scores)
    size = scores.shape[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 1 - (within / np.maximum(size - count, 1)) / (total / (size - 1))
    return np.where(total > 0, share, 0.0)


def _sums(bins: Bins, scores: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Sums of squares within bins and in total, and number of non-empty bins, over the last axis."""
    one_hot = bins[..., None] == np.arange(int(bins.max()) + 1)
    sizes = one_hot.sum(axis=-2)
    centred = scores - scores.mean(axis=-1, keepdims=True)
    sums = (one_hot * centred[..., None]).sum(axis=-2)
    total = (centred**2).sum(axis=-1)
    between = (sums**2 / np.maximum(sizes, 1)).sum(axis=-1)
    return total - between, total, (sizes > 0).sum(axis=-1)


def _effect(name: str, bins: Bins, labels: list[str], scores: Floats, *, tests: int) -> ParameterEffect:
    draws = np.random.Generator(np.random.Philox(_SEED))
    share = float(variance_share(bins, scores))
    resamples = max(100, min(RESAMPLES, _DRAWN // len(scores)))
    shuffled = draws.permuted(np.tile(scores, (resamples, 1)), axis=1)
    chance = float(np.percentile(variance_share(bins, shuffled), 100 - 5 / tests))
    # In a basic bootstrap interval, the sample's own correlation ratio is taken as the truth, so the errors of the
    # resamples estimate the error of the sample.
    within, total, _ = _sums(bins, scores)
    truth = float(1 - within / total)
    rows = draws.integers(len(scores), size=(resamples, len(scores)))
    above, below = np.percentile(variance_share(bins[rows], scores[rows]) - truth, [2.5, 97.5])
    table = [(label, int((bins == n).sum()), float(scores[bins == n].mean())) for n, label in enumerate(labels)]
    return ParameterEffect(name, share, _clipped(share - below), _clipped(share - above), chance, table)


def _binned(values: Sequence[Any]) -> tuple[Bins, list[str]]:
    """Assigns parameter values to bins; returns each value's bin and the bins' labels."""
    distinct = sorted({value_text(value): value for value in values}.items(), key=lambda item: _order(item[1]))
    if all(is_number(value) for _, value in distinct) and len(distinct) > MOST_BINS:
        return _ranges(np.array(values, np.float64), max(2, min(MOST_BINS, len(values) // PER_BIN)))
    if len(distinct) * 2 > len(values):  # if texts rarely repeat, a mean over one or two shows no effect
        return np.zeros(len(values), np.int64), ["all"]
    numbers = {text: number for number, (text, _) in enumerate(distinct)}
    return np.array([numbers[value_text(value)] for value in values]), [text for text, _ in distinct]


def _ranges(values: Floats, count: int) -> tuple[Bins, list[str]]:
    """Bins numbers by quantiles; equal numbers are in one bin."""
    below = np.searchsorted(np.sort(values), values, side="left")
    upto = np.searchsorted(np.sort(values), values, side="right")
    _, bins = np.unique((below + upto) * count // (2 * len(values) + 1), return_inverse=True)
    labels = [
        f"{value_text(float(values[bins == n].min()))} to {value_text(float(values[bins == n].max()))}"
        for n in range(int(bins.max()) + 1)
    ]
    return bins.astype(np.int64), labels


def _order(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if is_number(value) else (1, 0.0, value_text(value))


def _clipped(share: float) -> float:
    return float(min(1.0, max(0.0, share))) if math.isfinite(share) else 0.0


def _caveat(count: int, effects: Sequence[ParameterEffect], skipped: Sequence[str]) -> str:
    parts = []
    if effects and count < NARROW_BELOW:
        parts.append(f"with fewer than {NARROW_BELOW} configurations the intervals are too narrow")
    if skipped:
        parts.append(f"{', '.join(skipped)}: nearly every configuration has a different value")
    return "; ".join(parts)
