"""Population-based bandits (PB2): settings chosen by the upper confidence bound of a Gaussian process over gains.

A member's gain over an interval is modeled as a function of its settings, its initial score and the time, since good
settings change during training. The new settings are those with the largest upper confidence bound. Members that choose
in the same generation know each other's choices, but not yet the resulting gains: a pending choice reduces the variance
around it, and leaves the mean unchanged.

Sources:
    Parker-Holder, Nguyen, Roberts, "Provably Efficient Online Hyperparameter Optimization with Population-Based
    Bandits", arXiv:2002.02518, sections 3 and 4. The kernel over time is from Bogunovic, Scarlett, Cevher,
    "Time-Varying Gaussian Process Bandit Optimization", AISTATS 2016; pending points follow Desautels, Krause, Burdick,
    "Parallelizing Exploration-Exploitation Tradeoffs in Gaussian Process Bandit Optimization", JMLR 2014.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rlrun.experiments.search.lineage import Generation
from rlrun.experiments.spec.tuning import Pb2Config


def modelled(
    settings: Pb2Config,
    generations: Sequence[Generation],
    generation: int,
    score: float,
    taken: Sequence[Mapping[str, Any]],
    draws: np.random.Generator,
) -> dict[str, float]:
    """Suggests a population member's hyperparameters for its next interval, using PB2's Gaussian process.

    Args:
        settings: Settings of the scheduler.
        generations: The population's generations so far.
        generation: Number of the current generation.
        score: Score of the parent, as reported.
        taken: New hyperparameters of other members in this generation.
        draws: Generator of random draws.
    """
    sign = 1.0 if settings.mode == "max" else -1.0
    return explore(
        gains(generations, sign),
        time=generation,
        score=sign * score,
        pending=taken,
        bounds=dict(sorted(settings.bounds.items())),  # sorted, so that the order in the spec does not matter
        log_scale=settings.log_scale,
        generator=draws,
    )


def gains(generations: Sequence[Generation], sign: float) -> list[Gain]:
    """Score improvement of each population member over each interval that it finished with a score.

    A member that copied another member's weights starts the interval with the other member's score.

    Args:
        generations: A population's generations, oldest first.
        sign: 1 if higher values of the metric are better, -1 if lower ones are.
    """
    found = []
    began: dict[str, Gain] = {}
    scores: dict[str, float | None] = {}  # latest scores; an asynchronous population has one member per line
    for line in generations:
        scores |= {member.trial: member.score for member in line.members}
        for member in line.members:
            before = began.pop(member.trial, None)
            if before is not None and member.score is not None:
                change = sign * member.score - before.score
                found.append(Gain(before.time, before.score, before.params, change))
            start = scores.get(member.parent) if member.parent is not None else member.score
            if start is not None:
                began[member.trial] = Gain(line.generation, sign * start, member.params, 0.0)
    return found


Doubles = NDArray[np.float64]

NEWEST = 200
"""Maximum number of newest gains in the Gaussian process, whose cost is cubic in their number."""
LENGTH_SCALES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Grid of kernel length scales, as fractions of a setting's range."""
FORGETTING = (0.0, 0.03, 0.1, 0.2, 0.35, 0.5)
"""Grid of forgetting rates of the time-varying kernel: the fraction of correlation that is lost over an interval."""
NOISE = (0.01, 0.1, 0.3, 1.0)
"""Grid of noise variances, relative to the signal's variance."""
CANDIDATES = 1000
REFINEMENTS = (0.1, 0.03, 0.01, 0.003)
"""Standard deviations of the Gaussians around the best point in successive refinements, as fractions of a range."""
POINTS_PER_REFINEMENT = 50


@dataclass(frozen=True)
class Gain:
    """Score gain of a population member over one interval: a data point of PB2's Gaussian process.

    Attributes:
        time: Start of the interval, in units of intervals since the beginning.
        score: Score at the start.
        params: Settings during the interval, by name.
        change: Increase of the score.
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
    """Chooses a population member's next hyperparameters, which maximize PB2's upper confidence bound.

    If no gain is known yet, hyperparameters are sampled at random.

    Args:
        history: Gains of members so far, in any order.
        time: Start of the next interval, in units of intervals since the beginning.
        score: Score of the member at the start of the interval, which is the score of its parent.
        pending: Other members' settings for the same interval, whose gains are not known yet.
        bounds: Range of each setting.
        log_scale: Settings that are explored on a logarithmic scale.
        generator: Generator of random draws; the result is determined by the generator and the history.
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
    with threadpool_limits(1, "blas"):  # equal results, to the last digit, on any number of cores
        model = _fitted(inputs, _standardized(np.array([gain.change for gain in known])))
        hope = _ConfidenceBound(model, time, context, space.points(pending))
        return space.params(_argmax(hope, place, generator))


class _Space:
    """Affine or logarithmic mapping between settings and points of the unit cube."""

    def __init__(self, bounds: Mapping[str, tuple[float, float]], log_scale: Collection[str]) -> None:
        self._bounds = dict(bounds)
        self._logs = set(log_scale)
        self._low, self._high = (
            np.array([math.log(ends[side]) if name in self._logs else ends[side] for name, ends in bounds.items()])
            for side in (0, 1)
        )

    def points(self, settings: Sequence[Mapping[str, float]]) -> Doubles:
        """Maps settings to points [N, D] of the unit cube, with clipping."""
        values = [[math.log(params[n]) if n in self._logs else params[n] for n in self._bounds] for params in settings]
        numbers = np.array(values, np.float64).reshape(len(settings), len(self._bounds))
        points: Doubles = np.clip((numbers - self._low) / (self._high - self._low), 0, 1)
        return points

    def params(self, point: Doubles) -> dict[str, float]:
        """Maps a point [D] of the unit cube to settings within their bounds."""
        numbers = self._low + point * (self._high - self._low)
        found = {}
        for (name, (low, high)), number in zip(self._bounds.items(), numbers.tolist(), strict=True):
            found[name] = float(min(max(math.exp(number) if name in self._logs else number, low), high))
        return found


@dataclass(frozen=True)
class _Inputs:
    """Inputs of the Gaussian process.

    Attributes:
        time: Start of each interval, [N].
        context: Initial score of each interval, scaled so that the lowest in the history is 0 and the best is 1, [N].
        place: The settings, as points of the unit cube, [N, D].
    """

    time: Doubles
    context: Doubles
    place: Doubles

    def at(self, time: float, context: float, place: Doubles) -> _Inputs:
        """Inputs at other points, with the time and context of these inputs."""
        return _Inputs(np.full(len(place), time), np.full(len(place), context), place)

    def joined(self, other: _Inputs) -> _Inputs:
        """Concatenates the inputs."""
        return _Inputs(
            np.concatenate([self.time, other.time]),
            np.concatenate([self.context, other.context]),
            np.concatenate([self.place, other.place]),
        )

    def gaps(self, other: _Inputs) -> tuple[Doubles, Doubles]:
        """Distances to other inputs: squared distances of settings and context, and differences of time."""
        mine = np.column_stack([self.context, self.place])
        others = np.column_stack([other.context, other.place])
        squared = np.square(mine[:, None, :] - others[None, :, :]).sum(axis=2)
        return squared, np.abs(self.time[:, None] - other.time[None, :])


@dataclass(frozen=True)
class _Model:
    """Gaussian process of gains, with fitted hyperparameters.

    Attributes:
        inputs: Inputs of known gains.
        gains: The known gains, standardized, [N].
        length_scale: Length scale of the kernel over settings and context.
        forgetting: Fraction of correlation that is lost over an interval.
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
        """Kernel between inputs, without noise and with variance 1."""
        squared, between = one.gaps(other)
        return _correlations(squared, between, self.length_scale, self.forgetting)

    def mean(self, where: _Inputs) -> Doubles:
        """Posterior mean of the gain at inputs, [N]."""
        known = self.correlations(self.inputs, self.inputs)
        known[np.diag_indices_from(known)] += self.noise
        mean: Doubles = self.correlations(where, self.inputs) @ np.linalg.solve(known, self.gains)
        return mean

    def standard_deviation(self, where: _Inputs, pending: _Inputs) -> Doubles:
        """Posterior standard deviation of the gain at inputs [N], as if pending gains were known too."""
        seen = self.inputs.joined(pending)
        known = self.correlations(seen, seen)
        known[np.diag_indices_from(known)] += self.noise
        across = self.correlations(seen, where)
        explained = (across * np.linalg.solve(known, across)).sum(axis=0)
        std: Doubles = np.sqrt(self.variance * np.clip(1 - explained, 0, 1))
        return std


@dataclass(frozen=True)
class _ConfidenceBound:
    """Upper confidence bound of the gain, for a given time and context (arXiv:2002.02518, eq. 6)."""

    model: _Model
    time: float
    context: float
    pending: Doubles

    def __call__(self, place: Doubles) -> Doubles:
        """Upper confidence bounds of the gains at points [N, D]."""
        where = self.model.inputs.at(self.time, self.context, place)
        pending = self.model.inputs.at(self.time, self.context, self.pending)
        weight = math.sqrt(0.2 + max(0.0, math.log(0.4 * len(self.model.gains))))  # beta of the paper's appendix
        bound: Doubles = self.model.mean(where) + weight * self.model.standard_deviation(where, pending)
        return bound


def _fitted(inputs: _Inputs, gains: Doubles) -> _Model:
    """Fits the Gaussian process: maximum marginal likelihood on a grid of hyperparameters.

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
    """Kernel exp(-d^2 / (2 l^2)) * (1 - forgetting)^(|t - t'| / 2)."""
    correlations: Doubles = np.exp(-squared / (2 * length_scale**2)) * (1 - forgetting) ** (between / 2)
    return correlations


def _argmax(hope: _ConfidenceBound, known: Doubles, generator: np.random.Generator) -> Doubles:
    """Approximate maximizer of the upper confidence bound, by random and local search."""
    places = np.concatenate([generator.random((CANDIDATES, known.shape[1])), known])
    best: Doubles = places[int(np.argmax(hope(places)))]
    for width in REFINEMENTS:
        around = best + width * generator.standard_normal((POINTS_PER_REFINEMENT, len(best)))
        places = np.clip(np.concatenate([best[None], around]), 0, 1)
        best = places[int(np.argmax(hope(places)))]
    return best


def _scaled(scores: Doubles, history: Doubles) -> Doubles:
    """Scales scores to 0 for the lowest of the history and 1 for the highest; all 0 if these are equal."""
    spread = float(history.max() - history.min())
    scaled: Doubles = (scores - history.min()) / (spread or math.inf)
    return scaled


def _standardized(changes: Doubles) -> Doubles:
    """Standardizes changes to mean 0 and standard deviation 1, clipped to two standard deviations."""
    std = float(changes.std()) or math.inf
    standardized: Doubles = np.clip((changes - changes.mean()) / std, -2, 2)
    return standardized
