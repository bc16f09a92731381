"""How population-based bandits (PB2) choose settings: a Gaussian process of what paid, and where it is most hopeful.

What a member gains over an interval is modelled as a function of its settings, of the score it began with, and of
time, since what pays early need not pay later. New settings are those with the largest upper confidence bound.
Members that choose in the same generation know of each other's choices but not yet of their gains: a choice that is
pending narrows the uncertainty around it and leaves the mean as it is.

Sources:
    Parker-Holder, Nguyen, Roberts, "Provably Efficient Online Hyperparameter Optimization with Population-Based
    Bandits", arXiv:2002.02518, sections 3 and 4. The kernel over time is that of Bogunovic, Scarlett, Cevher,
    "Time-Varying Gaussian Process Bandit Optimization", AISTATS 2016; pending points follow Desautels, Krause, Burdick,
    "Parallelizing Exploration-Exploitation Tradeoffs in Gaussian Process Bandit Optimization", JMLR 2014.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Doubles = NDArray[np.float64]

NEWEST = 200
"""So many of the newest gains are modelled; the cost of a model grows with their third power."""
LENGTH_SCALES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Length scales that are tried, as shares of the range of a setting."""
FORGETTING = (0.0, 0.03, 0.1, 0.2, 0.35, 0.5)
"""Shares of what is known that an interval may make worthless."""
NOISE = (0.01, 0.1, 0.3, 1.0)
"""Variances of noise that are tried, relative to the signal's."""
CANDIDATES = 1000
REFINEMENTS = (0.1, 0.03, 0.01, 0.003)
"""Widths of the Gaussians from which points around the best one are drawn in turn, as shares of a range."""
POINTS_PER_REFINEMENT = 50


@dataclass(frozen=True)
class Gain:
    """What one member gained over one interval.

    Attributes:
        time: When the interval began, counted in intervals.
        score: The score it began with.
        params: Its settings during the interval, by name.
        change: What was added to the score.
    """

    time: float
    score: float
    params: Mapping[str, float]
    change: float


def explore(
    history: Sequence[Gain],
    *,
    time: float,
    score: float,
    pending: Sequence[Mapping[str, float]],
    bounds: Mapping[str, tuple[float, float]],
    log_scale: Collection[str] = (),
    generator: np.random.Generator,
) -> dict[str, float]:
    """Returns settings for a member's next interval.

    Without a gain to learn from they are drawn at random.

    Args:
        history: What members gained so far, in any order.
        time: When the next interval begins, counted in intervals.
        score: The score the member begins it with: its parent's.
        pending: Settings that other members have chosen for the same interval.
        bounds: Lowest and highest value of each setting.
        log_scale: Those of them that are explored by their logarithm.
        generator: Where chance comes from; the same one and the same history give the same settings.
    """
    space = _Space(bounds, log_scale)
    known = [gain for gain in history if math.isfinite(gain.score) and math.isfinite(gain.change)]
    known = sorted(known, key=lambda gain: (gain.time, gain.score, *(gain.params[name] for name in bounds)))[-NEWEST:]
    if not known:
        return space.params(generator.random(len(bounds)))
    scores = np.array([gain.score for gain in known])
    place = space.points([gain.params for gain in known])
    inputs = _Inputs(np.array([gain.time for gain in known]), _scaled(scores, scores), place)
    context = float(_scaled(np.array([score]), scores)[0])
    with threadpool_limits(1, "blas"):  # with one thread the last digits are the same on any number of cores
        model = _fitted(inputs, _standardized(np.array([gain.change for gain in known])))
        hope = _Hope(model, time, context, space.points(pending))
        return space.params(_argmax(hope, place, generator))


class _Space:
    """Settings as points of the unit cube."""

    def __init__(self, bounds: Mapping[str, tuple[float, float]], log_scale: Collection[str]) -> None:
        self._bounds = dict(bounds)
        self._logs = set(log_scale)
        self._low, self._high = (
            np.array([math.log(ends[side]) if name in self._logs else ends[side] for name, ends in bounds.items()])
            for side in (0, 1)
        )

    def points(self, settings: Sequence[Mapping[str, float]]) -> Doubles:
        """Returns settings as points [N, D], brought into the cube where they lie outside."""
        values = [[math.log(params[n]) if n in self._logs else params[n] for n in self._bounds] for params in settings]
        numbers = np.array(values, np.float64).reshape(len(settings), len(self._bounds))
        points: Doubles = np.clip((numbers - self._low) / (self._high - self._low), 0, 1)
        return points

    def params(self, point: Doubles) -> dict[str, float]:
        """Returns a point [D] as settings, within their bounds to the last digit."""
        numbers = self._low + point * (self._high - self._low)
        found = {}
        for (name, (low, high)), number in zip(self._bounds.items(), numbers.tolist(), strict=True):
            found[name] = float(min(max(math.exp(number) if name in self._logs else number, low), high))
        return found


@dataclass(frozen=True)
class _Inputs:
    """What gains depend on.

    Attributes:
        time: When each interval began [N].
        context: The score each began with, 0 for the least and 1 for the best of the history [N].
        place: The settings, as points of the unit cube [N, D].
    """

    time: Doubles
    context: Doubles
    place: Doubles

    def at(self, time: float, context: float, place: Doubles) -> _Inputs:
        """Returns other places at one time and in one context."""
        return _Inputs(np.full(len(place), time), np.full(len(place), context), place)

    def joined(self, other: _Inputs) -> _Inputs:
        """Returns both together."""
        return _Inputs(
            np.concatenate([self.time, other.time]),
            np.concatenate([self.context, other.context]),
            np.concatenate([self.place, other.place]),
        )

    def gaps(self, other: _Inputs) -> tuple[Doubles, Doubles]:
        """Returns how far these lie from others: squared distances in settings and context, and times between."""
        mine = np.column_stack([self.context, self.place])
        others = np.column_stack([other.context, other.place])
        squared = np.square(mine[:, None, :] - others[None, :, :]).sum(axis=2)
        return squared, np.abs(self.time[:, None] - other.time[None, :])


@dataclass(frozen=True)
class _Model:
    """A Gaussian process of gains with its hyper-parameters.

    Attributes:
        inputs: Where gains are known.
        gains: The gains there, standardised [N].
        length_scale: How far what is known of a point reaches.
        forgetting: The share of it that an interval makes worthless.
        noise: Variance of a gain's noise, relative to the signal's.
        variance: Variance of the signal.
    """

    inputs: _Inputs
    gains: Doubles
    length_scale: float
    forgetting: float
    noise: float
    variance: float

    def correlations(self, one: _Inputs, other: _Inputs) -> Doubles:
        """Returns the kernel between inputs, without noise and of variance 1."""
        squared, between = one.gaps(other)
        return _correlations(squared, between, self.length_scale, self.forgetting)

    def mean(self, where: _Inputs) -> Doubles:
        """Returns the expected gain at inputs [N]."""
        known = self.correlations(self.inputs, self.inputs)
        known[np.diag_indices_from(known)] += self.noise
        mean: Doubles = self.correlations(where, self.inputs) @ np.linalg.solve(known, self.gains)
        return mean

    def standard_deviation(self, where: _Inputs, pending: _Inputs) -> Doubles:
        """Returns how uncertain the gain is at inputs [N] once those that are pending are known as well."""
        seen = self.inputs.joined(pending)
        known = self.correlations(seen, seen)
        known[np.diag_indices_from(known)] += self.noise
        across = self.correlations(seen, where)
        explained = (across * np.linalg.solve(known, across)).sum(axis=0)
        std: Doubles = np.sqrt(self.variance * np.clip(1 - explained, 0, 1))
        return std


@dataclass(frozen=True)
class _Hope:
    """Upper confidence bound of the gain at a time and in a context (arXiv:2002.02518, eq. 6)."""

    model: _Model
    time: float
    context: float
    pending: Doubles

    def __call__(self, place: Doubles) -> Doubles:
        """Returns the bound at places [N, D]."""
        where = self.model.inputs.at(self.time, self.context, place)
        pending = self.model.inputs.at(self.time, self.context, self.pending)
        weight = math.sqrt(0.2 + max(0.0, math.log(0.4 * len(self.model.gains))))  # beta of the paper's appendix
        bound: Doubles = self.model.mean(where) + weight * self.model.standard_deviation(where, pending)
        return bound


def _fitted(inputs: _Inputs, gains: Doubles) -> _Model:
    """Returns the model with the largest marginal likelihood on a grid.

    The variance of the signal has its best value in closed form; a prior worth two gains of variance 1 keeps it away
    from 0 where gains hardly differ.
    """
    squared, between = inputs.gaps(inputs)
    best, best_likelihood = None, -math.inf
    for length_scale, forgetting, noise in itertools.product(LENGTH_SCALES, FORGETTING, NOISE):
        known = _correlations(squared, between, length_scale, forgetting)
        known[np.diag_indices_from(known)] += noise
        factor = np.linalg.cholesky(known)
        whitened = np.linalg.solve(factor, gains)
        variance = float(whitened @ whitened + 2) / (len(gains) + 2)
        likelihood = -np.log(np.diag(factor)).sum() - 0.5 * (len(gains) + 2) * math.log(variance)
        if likelihood > best_likelihood:
            best_likelihood = likelihood
            best = _Model(inputs, gains, length_scale, forgetting, noise, variance)
    assert best is not None
    return best


def _correlations(squared: Doubles, between: Doubles, length_scale: float, forgetting: float) -> Doubles:
    """Returns exp(-d^2 / (2 l^2)) * (1 - forgetting)^(|t - t'| / 2)."""
    correlations: Doubles = np.exp(-squared / (2 * length_scale**2)) * (1 - forgetting) ** (between / 2)
    return correlations


def _argmax(hope: _Hope, known: Doubles, generator: np.random.Generator) -> Doubles:
    """Returns the place with the largest bound among random ones, known ones and those around the best of them."""
    places = np.concatenate([generator.random((CANDIDATES, known.shape[1])), known])
    best: Doubles = places[int(np.argmax(hope(places)))]
    for width in REFINEMENTS:
        around = best + width * generator.standard_normal((POINTS_PER_REFINEMENT, len(best)))
        places = np.clip(np.concatenate([best[None], around]), 0, 1)
        best = places[int(np.argmax(hope(places)))]
    return best


def _scaled(scores: Doubles, history: Doubles) -> Doubles:
    """Returns scores with the least of the history as 0 and the best as 1; all as 0 if they are the same."""
    spread = float(history.max() - history.min())
    scaled: Doubles = (scores - history.min()) / (spread or math.inf)
    return scaled


def _standardized(changes: Doubles) -> Doubles:
    """Returns changes with mean 0 and standard deviation 1, at most two of those from it."""
    std = float(changes.std()) or math.inf
    standardized: Doubles = np.clip((changes - changes.mean()) / std, -2, 2)
    return standardized
