"""Covariance matrix adaptation evolution strategy (NumPy)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.saved_numbers import require_matching


class CovarianceAdaptation:
    """Covariance matrix adaptation evolution strategy (CMA-ES) with active updates, for maximization.

    Args:
        mean: Initial mean of the search distribution, [d].
        sigma: Initial step size.
        size: Population size lambda, at least 2; 4 + 3 ln d is usual.

    Attributes:
        size: Population size lambda.
        mean: Mean of the search distribution, [d].
        sigma: Step size of the search distribution.
        covariance: Covariance of the search distribution in units of sigma**2, [d, d].

    Source:
        Hansen, "The CMA evolution strategy: a tutorial", arXiv:1604.00772, figure 6 and table 1.
    """

    def __init__(self, mean: NDArray[Any], sigma: float, size: int) -> None:
        d = len(mean)
        self.size = size
        self.mean = mean.astype(np.float64)
        self.sigma = sigma
        self.covariance = np.eye(d)
        self.generation = 0
        self._sigma_path, self._path = np.zeros(d), np.zeros(d)
        self._axes, self._lengths = np.eye(d), np.ones(d)
        self._set_rates(d)

    def _set_rates(self, d: int) -> None:
        """Sets recombination weights and learning rates (arXiv:1604.00772, table 1)."""
        raw = math.log((self.size + 1) / 2) - np.log(np.arange(1, self.size + 1))
        parents = self.size // 2
        best, worst = raw[:parents], raw[parents:]
        self._mass = mass = float(best.sum() ** 2 / np.square(best).sum())
        mass_of_worst = float(worst.sum() ** 2 / np.square(worst).sum())
        self._sigma_rate = (mass + 2) / (d + mass + 5)
        self._damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (d + 1)) - 1) + self._sigma_rate
        self._path_rate = (4 + mass / d) / (d + 4 + 2 * mass / d)
        self._rank_one = one = 2 / ((d + 1.3) ** 2 + mass)
        self._rank_mu = mu = min(1 - one, 2 * (0.25 + mass + 1 / mass - 2) / ((d + 2) ** 2 + mass))
        most_negative = min(1 + one / mu, 1 + 2 * mass_of_worst / (mass + 2), (1 - one - mu) / (d * mu))
        positive, negative = raw[raw >= 0].sum(), -raw[raw < 0].sum()
        self._weights = np.where(raw >= 0, raw / positive, most_negative * raw / negative)
        self._parents = parents
        self._mean_weights = best / best.sum()
        self._length = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
        self._generations_per_axes = max(1, int(1 / (10 * d * (one + mu))))

    def candidates(self, noise: NDArray[Any]) -> NDArray[np.float32]:
        """Candidates [lambda, d] from standard normal noise [lambda, d] (arXiv:1604.00772, eqs. 38 to 40)."""
        steps = (noise * self._lengths) @ self._axes.T
        found: NDArray[np.float32] = (self.mean + self.sigma * steps).astype(np.float32)
        return found

    def update(self, candidates: NDArray[Any], returns: NDArray[Any]) -> None:
        """Updates the search with the returns [lambda] of candidates [lambda, d] (arXiv:1604.00772, eqs. 41 to 47).

        Candidates with equal returns are ranked by index, so that the search takes a random step if all are equal.
        """
        d = len(self.mean)
        steps = (candidates[np.argsort(-returns, kind="stable")].astype(np.float64) - self.mean) / self.sigma
        shift = self._mean_weights @ steps[: self._parents]
        self.mean = self.mean + self.sigma * shift
        whitened = self._axes @ ((self._axes.T @ shift) / self._lengths)
        rate = self._sigma_rate
        self._sigma_path = (1 - rate) * self._sigma_path + math.sqrt(rate * (2 - rate) * self._mass) * whitened
        norm = float(np.linalg.norm(self._sigma_path))
        self.generation += 1
        settled = norm / math.sqrt(1 - (1 - rate) ** (2 * self.generation))
        follows = settled < (1.4 + 2 / (d + 1)) * self._length
        rate = self._path_rate
        self._path = (1 - rate) * self._path + follows * math.sqrt(rate * (2 - rate) * self._mass) * shift
        lost = 0.0 if follows else self._rank_one * rate * (2 - rate)
        lengths = np.square((steps @ self._axes) / self._lengths).sum(-1)
        weights = np.where(self._weights >= 0, self._weights, self._weights * d / np.maximum(lengths, 1e-300))
        self.covariance = (
            (1 + lost - self._rank_one - self._rank_mu * self._weights.sum()) * self.covariance
            + self._rank_one * np.outer(self._path, self._path)
            + self._rank_mu * (steps.T * weights) @ steps
        )
        self.sigma *= math.exp(min(1.0, self._sigma_rate / self._damping * (norm / self._length - 1)))
        if self.generation % self._generations_per_axes == 0:
            self._find_axes()

    def _find_axes(self) -> None:
        self.covariance = (self.covariance + self.covariance.T) / 2
        variances, self._axes = np.linalg.eigh(self.covariance)
        self._lengths = np.sqrt(np.maximum(variances, 1e-20))

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: search distribution, evolution paths and generation."""
        return {
            "mean": self.mean,
            "sigma": self.sigma,
            "covariance": self.covariance,
            "generation": self.generation,
            "sigma_path": self._sigma_path,
            "path": self._path,
            "axes": self._axes,
            "lengths": self._lengths,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the search from `state()` of a search over the same number of parameters.

        Raises:
            ValueError: The state has a different number of parameters, numbers that are not finite, or a step size of 0
                or less.
        """
        require_matching(state, self.state(), "the distribution")
        if state["sigma"] <= 0:
            raise ValueError(f"the distribution's step size is {state['sigma']}")
        self.mean = np.asarray(state["mean"], np.float64)
        self.sigma = float(state["sigma"])
        self.covariance = np.asarray(state["covariance"], np.float64)
        self.generation = int(state["generation"])
        self._sigma_path = np.asarray(state["sigma_path"], np.float64)
        self._path = np.asarray(state["path"], np.float64)
        self._axes = np.asarray(state["axes"], np.float64)
        self._lengths = np.asarray(state["lengths"], np.float64)
