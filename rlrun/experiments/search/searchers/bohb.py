"""BOHB's searcher (arXiv:1807.01774): maximizes the ratio of the kernel densities of good and bad configurations.

The densities are fitted to the scores at the largest budget (HyperBand rung) that enough configurations have reached.
This is a small budget at first, and a larger one later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rlrun.experiments.search.searchers.dimension import Dimension
from rlrun.experiments.search.searchers.searcher import Configuration, History

RANDOM_FRACTION = 1 / 3
"""Probability of a random configuration (rho in arXiv:1807.01774)."""
GOOD_FRACTION = 0.15
"""Fraction of the configurations that count as good (q in arXiv:1807.01774)."""
SAMPLES = 64
"""Number of sampled candidates, of which the one with the highest density ratio is suggested (N_s)."""
BANDWIDTH_FACTOR = 3.0
"""Factor that widens the kernel bandwidths for sampling (b_w)."""
MIN_BANDWIDTH = 1e-3
"""Minimum kernel bandwidth, for coordinates scaled to [0, 1]."""

Points = npt.NDArray[np.float64]


class BohbSearcher:
    """BOHB's searcher (arXiv:1807.01774, algorithm 2), with the paper's default settings."""

    uses_intermediate_results = True

    def propose(self, history: History, seed: int) -> Configuration:
        """Suggests the next hyperparameter configuration, based on the history of the search."""
        generator = np.random.default_rng(seed)
        ranked = _ranked(history)
        if generator.uniform() < RANDOM_FRACTION or not ranked:
            return {each.location: each.space.draw(generator) for each in history.dimensions}
        good, bad = split(len(ranked), _least(history))
        points = np.array([_point(history, number) for number in ranked])
        options = [len(dimension.options) for dimension in history.dimensions]
        likely, unlikely = Density.fit(points[:good], options), Density.fit(points[-bad:], options)
        samples = likely.sample(SAMPLES, generator)
        ratios = np.maximum(likely.at(samples), 1e-32) / np.maximum(unlikely.at(samples), 1e-32)
        return history.values_at(_coordinates(history.dimensions, samples[int(np.argmax(ratios))]))


def split(number: int, least: int) -> tuple[int, int]:
    """Sizes of the good and bad sets for BOHB's densities (arXiv:1807.01774, eq. 3); the sets may overlap.

    Args:
        number: Number of ranked configurations (N_b).
        least: Minimum size of each of the two sets (N_min).

    Examples:
        >>> split(100, 4), split(6, 4)
        ((15, 85), (4, 4))
    """
    good = max(least, int(GOOD_FRACTION * number))
    return good, max(least, number - good)


def model_budget(history: History) -> float | None:
    """Largest budget with enough scored configurations to fit BOHB's densities; None if there is no such budget.

    At least N_min + 2 configurations are needed, where N_min is the number of dimensions + 1.
    """
    seen = [budget for observed in _scores(history).values() for budget in observed]
    enough = {budget for budget in seen if seen.count(budget) >= _least(history) + 2}
    return max(enough, default=None)


@dataclass(frozen=True)
class Density:
    """Kernel density estimator of BOHB (arXiv:1807.01774, eq. 2), fitted to N points of D dimensions.

    The kernels are Gaussian for numeric dimensions, and Aitchison-Aitken for dimensions whose values are options.

    Attributes:
        centers: Points that the density was fitted to: numbers from 0 to 1, or indices of options, [N, D].
        bandwidths: Standard deviations, or probabilities that an option changes to another one, [D].
        options: Number of options of each dimension, 0 for numeric ones, [D].
    """

    centers: Points
    bandwidths: Points
    options: Sequence[int]

    @classmethod
    def fit(cls, points: Points, options: Sequence[int]) -> Density:
        """Fits a kernel density whose bandwidths follow the normal reference rule, 1.06 * std * N ** (-1 / (4 + D)).

        A dimension with options gets the standard deviation of a Bernoulli variable, sqrt(p * (1 - p)), no matter how
        many options it has.

        Args:
            points: N points of D dimensions, [N, D].
            options: Number of options of each dimension, 0 for numeric ones, [D].
        """
        number, dimensions = points.shape
        bandwidths = []
        for column, count in zip(points.T, options, strict=True):
            shares = np.bincount(column.astype(int), minlength=count) / number if count else np.zeros(0)
            std = math.sqrt((1 - float(np.sum(shares**2))) / 2) if count else float(np.std(column))
            bandwidth = max(1.06 * std * number ** (-1 / (4 + dimensions)), MIN_BANDWIDTH)
            bandwidths.append(min(bandwidth, _widest(count)))
        return cls(points, np.array(bandwidths), options)

    def at(self, points: Points) -> Points:
        """Evaluates the density at M points of D dimensions, [M, D]; returns M values, [M]."""
        kernels = np.ones((len(points), len(self.centers)))
        for place, count in enumerate(self.options):
            width = self.bandwidths[place]
            distance = points[:, place, None] - self.centers[None, :, place]
            if count:
                kernels *= np.where(distance == 0, 1 - width, width / (count - 1))
            else:
                kernels *= np.exp(-0.5 * (distance / width) ** 2) / (width * math.sqrt(2 * math.pi))
        return np.asarray(kernels.mean(axis=1))

    def sample(self, number: int, generator: np.random.Generator) -> Points:
        """Samples points of D dimensions, [number, D], with widened bandwidths; numeric values stay within [0, 1]."""
        points = self.centers[generator.integers(len(self.centers), size=number)].copy()
        for place, count in enumerate(self.options):
            width = min(BANDWIDTH_FACTOR * self.bandwidths[place], _widest(count))
            column = points[:, place]
            if count:
                others = (column + generator.integers(1, count, size=number)) % count
                points[:, place] = np.where(generator.uniform(size=number) < width, others, column)
            else:
                points[:, place] = _truncated(column, width, generator)
        return points


def _widest(options: int) -> float:
    """Maximum useful bandwidth of each dimension; for options, the one at which all options are equally likely."""
    return (options - 1) / options if options else math.inf


def _truncated(centers: Points, width: float, generator: np.random.Generator) -> Points:
    """Samples normal distributions truncated to [0, 1], by rejection."""
    drawn = generator.normal(centers, width)
    while (outside := (drawn < 0) | (drawn > 1)).any():
        # A wide distribution is nearly uniform on [0, 1], but most of its draws are outside.
        again = generator.normal(centers, width) if width < 1 else generator.uniform(size=len(centers))
        drawn = np.where(outside, again, drawn)
    return np.asarray(drawn)


def _least(history: History) -> int:
    """Minimum number of points of a kernel density (N_min)."""
    return len(history.dimensions) + 1


def _scores(history: History) -> dict[int, dict[float, float]]:
    """Scores by configuration and budget, of intermediate and final results.

    Without intermediate results, as without HyperBand, the end of training is the only budget.
    """
    if history.observations:
        return history.observations
    return {number: {math.inf: score} for number, score in history.scores.items() if score is not None}


def _ranked(history: History) -> list[int]:
    """Configurations at the model's budget, ranked by score, the best first.

    Failed configurations without a score there come last.
    """
    budget = model_budget(history)
    if budget is None:
        return []
    losses = {number: history.loss(seen[budget]) for number, seen in _scores(history).items() if budget in seen}
    failed = {number: math.inf for number, score in history.scores.items() if score is None}
    losses = {**failed, **losses}
    return sorted(losses, key=lambda number: (losses[number], number))


def _point(history: History, number: int) -> list[float]:
    """Maps a configuration to a point: numbers scaled to [0, 1], and indices of options."""
    return [
        coordinate if dimension.options else dimension.unit(coordinate)
        for dimension, coordinate in zip(history.dimensions, history.coordinates(number), strict=True)
    ]


def _coordinates(dimensions: Sequence[Dimension], point: Points) -> list[float]:
    return [
        float(place) if dimension.options else dimension.from_unit(float(place))
        for dimension, place in zip(dimensions, point, strict=True)
    ]
