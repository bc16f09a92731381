"""Candidates of a generation: the parameters that its evaluations use (NumPy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.functional.schedules import value_at
from rlrun.functional.seeding import generator
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]


class Candidates(Protocol):
    """Rule by which a worker derives a generation's candidates from the broadcast weights; picklable."""

    @property
    def number(self) -> int:
        """Number of candidates in a generation."""
        ...

    def episode_of(self, candidate: int) -> int:
        """Returns the number that determines a candidate's episode seeds; candidates with one share them."""
        ...

    def parameters(self, weights: Weights, seed: int, generation: int, candidate: int) -> Floats:
        """Returns a candidate's parameters, [A].

        Args:
            weights: What was broadcast last.
            seed: Root seed of the trial.
            generation: Which generation, from 0.
            candidate: Which candidate of it, from 0.
        """
        ...


@dataclass(frozen=True)
class MirroredPairs:
    """Mirrored sampling: the parameters plus and minus the same noise; candidates 2 i and 2 i + 1 are pair i.

    The noise of a pair follows from the seed, so that it never travels. Both begin with the same episode, so that what
    differs is their doing (Salimans et al., arXiv:1703.03864, section 2.1).

    Attributes:
        num_pairs: Pairs in a generation.
    """

    num_pairs: int

    @property
    def number(self) -> int:
        """Two for each pair."""
        return 2 * self.num_pairs

    def episode_of(self, candidate: int) -> int:
        """Returns the number of its pair."""
        return candidate // 2

    def parameters(self, weights: Weights, seed: int, generation: int, candidate: int) -> Floats:
        """Returns a candidate's parameters, [A]."""
        sigma = np.float32(value_at(weights.schedules["sigma"], weights.env_steps))
        noise = perturbation(seed, generation, candidate // 2, len(weights.acting))
        noise *= -sigma if candidate % 2 else sigma
        noise += weights.acting
        return noise


@dataclass(frozen=True)
class ListedCandidates:
    """Candidates whose parameters are broadcast after the present ones, [1 + number, A].

    All begin with the same episode.

    Attributes:
        number: Candidates in a generation.
    """

    number: int

    def episode_of(self, candidate: int) -> int:
        """Returns 0: all share it."""
        return 0

    def parameters(self, weights: Weights, seed: int, generation: int, candidate: int) -> Floats:
        """Returns a candidate's parameters, [A]."""
        own: Floats = weights.acting.reshape(1 + self.number, -1)[1 + candidate]
        return own


@dataclass(frozen=True)
class Samples:
    """Draws from a normal distribution of each parameter; broadcasts are its means and deviations, [2, A].

    The noise of a candidate follows from the seed. All begin with the same episode.

    Attributes:
        number: Candidates in a generation.
    """

    number: int

    def episode_of(self, candidate: int) -> int:
        """Returns 0: all share it."""
        return 0

    def parameters(self, weights: Weights, seed: int, generation: int, candidate: int) -> Floats:
        """Returns a candidate's parameters, [A]."""
        mean, deviation = weights.acting.reshape(2, -1)
        own: Floats = mean + deviation * perturbation(seed, generation, candidate, len(mean))
        return own


def perturbation(seed: int, generation: int, pair: int, size: int) -> Floats:
    """Returns the standard normal noise of a pair, [A]: the same on its worker and on the learner."""
    return generator(seed, "perturbation", generation, pair).standard_normal(size, np.float32)
