"""How much of the differences between configurations goes with each parameter alone.

For each parameter the configurations are put into bins (its values, or equally full ranges of a number), and the share
of the variance of the score that lies between bins is counted: epsilon squared (Kelley 1935), the correlation ratio
less what as many bins of random scores would show. It sees a parameter's own effect of any shape, and no interactions:
two parameters that matter only together both show nothing. It assumes no model, and the order of a number is all that
counts, so that a logarithmic range needs no special treatment.

Two things say how far to trust it: a 95 % bootstrap interval over the configurations, and what chance shows: a share
that shuffled scores reach for one of the parameters in one of 20 sweeps (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.report.configurations import value_text

Floats = NDArray[np.float64]
Bins = NDArray[np.int64]

LEAST_CONFIGURATIONS = 10
"""Below so many configurations nothing is said."""

NARROW_BELOW = 20
"""Below so many the bootstrap interval covers the truth less often than it says."""

PER_BIN = 5
"""Configurations that a bin of a number should have."""

MOST_BINS = 5

RESAMPLES = 1_000
"""Shufflings and bootstrap resamples, fewer of very many configurations."""

_DRAWN = 2_000_000

_SEED = 0


@dataclass(frozen=True)
class ParameterEffect:
    """What one parameter is to the score.

    Attributes:
        name: The parameter.
        share: Share of the variance that goes with it alone; noise can bring it a little below 0.
        low: Lower end of its 95 % interval, at least 0.
        high: Upper end.
        chance: What shuffled scores reach for any of the parameters in 1 of 20 sweeps.
        bins: Each bin's values as text, its number of configurations and their mean score.
    """

    name: str
    share: float
    low: float
    high: float
    chance: float
    bins: list[tuple[str, int, float]]


@dataclass(frozen=True)
class Importance:
    """What all parameters are to the score.

    Attributes:
        configurations: How many had a score.
        effects: The parameters that vary, the largest share first; empty if nothing can be said.
        caveat: Why nothing can be said, or what to keep in mind; "" if neither.
    """

    configurations: int
    effects: list[ParameterEffect]
    caveat: str


def importance(params: Sequence[dict[str, Any]], scores: Sequence[float]) -> Importance:
    """Returns how much each parameter matters.

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
        return Importance(
            count,
            [],
            f"{count} configurations are too few to say which parameter matters; it takes {LEAST_CONFIGURATIONS}",
        )
    if np.ptp(values) == 0:
        return Importance(count, [], "all configurations have the same score")
    binned = {name: _binned([p.get(name) for p in params]) for name in names}
    skipped = [name for name, (bins, _) in binned.items() if bins.max() == 0]
    kept = {name: bins for name, bins in binned.items() if name not in skipped}
    effects = [_effect(name, bins, labels, values, tests=len(kept)) for name, (bins, labels) in kept.items()]
    effects.sort(key=lambda effect: effect.share, reverse=True)
    return Importance(count, effects, _caveat(count, effects, skipped))


def variance_share(bins: Bins, scores: Floats) -> Floats:
    """Returns epsilon squared, 1 - (SS within / (n - bins)) / (SS total / (n - 1)), over the last axis of the scores.

    Args:
        bins: The bin of each configuration, [n], from 0 without gaps.
        scores: Scores, [..., n].
    """
    within, total, count = _sums(np.broadcast_to(bins, scores.shape), scores)
    size = scores.shape[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 1 - (within / np.maximum(size - count, 1)) / (total / (size - 1))
    return np.where(total > 0, share, 0.0)


def _sums(bins: Bins, scores: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Returns the sums of squares within bins and in all, and how many bins are filled; each over the last axis."""
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
    # In the world that a bootstrap draws from, the sample's own correlation ratio is the truth; how far resamples
    # estimate beside it is how far the sample may be beside the real one (a basic bootstrap interval).
    within, total, _ = _sums(bins, scores)
    truth = float(1 - within / total)
    rows = draws.integers(len(scores), size=(resamples, len(scores)))
    within, total, filled = _sums(bins[rows], scores[rows])
    with np.errstate(invalid="ignore", divide="ignore"):
        again = 1 - (within / np.maximum(len(scores) - filled, 1)) / (total / (len(scores) - 1))
    above, below = np.percentile(np.where(total > 0, again, 0.0) - truth, [2.5, 97.5])
    table = [(label, int((bins == n).sum()), float(scores[bins == n].mean())) for n, label in enumerate(labels)]
    return ParameterEffect(name, share, _clipped(share - below), _clipped(share - above), chance, table)


def _binned(values: Sequence[Any]) -> tuple[Bins, list[str]]:
    """Returns the bin of each value, and what each bin is called."""
    distinct = sorted({value_text(value): value for value in values}.items(), key=lambda item: _order(item[1]))
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for _, value in distinct)
    if is_number and len(distinct) > MOST_BINS:
        return _ranges(np.array(values, np.float64), max(2, min(MOST_BINS, len(values) // PER_BIN)))
    if len(distinct) * 2 > len(values):  # texts that hardly repeat: a mean over one or two is no effect
        return np.zeros(len(values), np.int64), ["all"]
    numbers = {text: number for number, (text, _) in enumerate(distinct)}
    return np.array([numbers[value_text(value)] for value in values]), [text for text, _ in distinct]


def _ranges(values: Floats, count: int) -> tuple[Bins, list[str]]:
    """Cuts numbers into equally full ranges; equal numbers stay together."""
    below = np.searchsorted(np.sort(values), values, side="left")
    upto = np.searchsorted(np.sort(values), values, side="right")
    _, bins = np.unique((below + upto) * count // (2 * len(values) + 1), return_inverse=True)
    labels = [
        f"{value_text(float(values[bins == n].min()))} to {value_text(float(values[bins == n].max()))}"
        for n in range(int(bins.max()) + 1)
    ]
    return bins.astype(np.int64), labels


def _order(value: Any) -> tuple[int, float, str]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (0, float(value), "") if is_number else (1, 0.0, value_text(value))


def _clipped(share: float) -> float:
    return float(min(1.0, max(0.0, share))) if math.isfinite(share) else 0.0


def _caveat(count: int, effects: Sequence[ParameterEffect], skipped: Sequence[str]) -> str:
    parts = []
    if effects and count < NARROW_BELOW:
        parts.append(f"with fewer than {NARROW_BELOW} configurations the intervals come out too narrow")
    if skipped:
        parts.append(f"{', '.join(skipped)}: nearly every configuration has a value of its own")
    return "; ".join(parts)
