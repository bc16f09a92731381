"""Running mean and variance that can be merged exactly from parts (parallel Welford algorithm)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of a set of arrays with equal shapes.

    Attributes:
        count: Number of samples.
        mean: Mean of the samples, in their shape.
        squares: Sum of squared deviations from the mean, in the samples' shape.
    """

    count: float
    mean: Doubles
    squares: Doubles

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Moments:
        """Returns the moments of an empty set of samples, given the shape of a sample."""
        return cls(0.0, np.zeros(shape), np.zeros(shape))

    @classmethod
    def of(cls, samples: NDArray[np.generic], leading: int) -> Moments:
        """Computes the moments of samples over their leading axes.

        Args:
            samples: Numbers, [*leading axes, *shape].
            leading: Number of leading axes, which enumerate the samples.
        """
        shape = samples.shape[leading:]
        flat = samples.reshape(math.prod(samples.shape[:leading]), *shape).astype(np.float64)
        if not len(flat):
            return cls.empty(shape)
        mean = flat.mean(axis=0)
        flat -= mean
        return cls(float(len(flat)), mean, np.square(flat, out=flat).sum(axis=0))

    def merged(self, other: Moments) -> Moments:
        """Returns the moments of the union of two sets of samples, computed from the moments of each.

        Source:
            Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
        """
        count = self.count + other.count
        if count == 0:
            return self
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        squares = self.squares + other.squares + np.square(delta) * (self.count * other.count / count)
        return Moments(count, mean, squares)

    @property
    def variance(self) -> Doubles:
        """Population variance of the samples; 1 for fewer than two samples, as a neutral scale."""
        return self.squares / self.count if self.count >= 2 else np.ones_like(self.mean)

    def state(self) -> dict[str, object]:
        """Returns count, mean and squared deviations as plain data, for a checkpoint."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    @classmethod
    def from_state(cls, state: dict[str, object]) -> Moments:
        """Restores count, mean and squared deviations from `state()`.

        Raises:
            ValueError: The state is malformed.
        """
        count = float(state["count"])  # type: ignore[arg-type]
        mean, squares = np.asarray(state["mean"], np.float64), np.asarray(state["squares"], np.float64)
        if mean.shape != squares.shape or not (count >= 0 and np.isfinite(mean).all() and (squares >= 0).all()):
            raise ValueError(f"invalid moments: count {count:g}, mean {mean.shape}, squares {squares.shape}")
        return cls(count, mean, squares)


def merge_named(total: dict[str, Moments], delta: Mapping[str, Moments]) -> None:
    """Merges the statistics of new data into the running statistics, by name and in place."""
    for name, moments in delta.items():
        total[name] = total[name].merged(moments) if name in total else moments
