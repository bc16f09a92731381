"""Candidates of a generation: sampled or perturbed parameter vectors, mirrored pairs, and their evaluations (NumPy)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.evolution.exact_sums import ExactSums
from rlrun.engine.functional.seeding import generator
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.settings.schedules import value_at

Floats = NDArray[np.float32]


class Candidates(Protocol):
    """Interface of the rule by which workers derive a generation's candidate parameters from broadcast weights."""

    @property
    def number(self) -> int:
        """Number of candidates in a generation."""
        ...

    def episode_of(self, candidate: int) -> int:
        """Index that determines a candidate's episode seeds; candidates with equal indices share the seeds."""
        ...

    def parameters(self, weights: Weights, seed: int, generation: int, candidate: int) -> Floats:
        """Computes the flat parameter vector of a candidate.

        Args:
            weights: Latest broadcast weights.
            seed: Root seed of the trial.
            generation: Index of the generation.
            candidate: Index of the candidate within the generation.
        """
        ...


@dataclass(frozen=True)
class MirroredPairs:
    """Mirrored (antithetic) sampling: candidates 2 i and 2 i + 1 are theta + noise and theta - noise of pair i.

    The noise is generated from the seed and never communicated. Both candidates of a pair use the same episode seeds
    (common random numbers; Salimans et al., arXiv:1703.03864, section 2.1).

    Attributes:
        num_pairs: Number of pairs in a generation.
    """

    num_pairs: int

    @property
    def number(self) -> int:
        """Number of candidates in a generation: two per pair."""
        return 2 * self.num_pairs

    def episode_of(self, candidate: int) -> int:
        """Index of the candidate's pair, since the two candidates of a pair share episode seeds."""
        return candidate // 2

    def parameters(self, weights: Weights, seed: int, generation: int, candidate: int) -> Floats:
        """Returns a candidate's flat parameter vector: current parameters plus or minus the pair's noise."""
        sigma = np.float32(value_at(weights.schedules["sigma"], weights.env_steps))
        noise = perturbation(seed, generation, candidate // 2, len(weights.acting))
        noise *= -sigma if candidate % 2 else sigma
        noise += weights.acting
        return noise


@dataclass(frozen=True)
class ListedCandidates:
    """Candidates that workers receive as parameter vectors, which follow the current parameters in the broadcast.

    All candidates of a generation have the same episode seeds.

    Attributes:
        number: Number of candidates in a generation.
    """

    number: int

    def episode_of(self, candidate: int) -> int:
        """Index of the episode seeds: always 0, since all candidates share the seeds."""
        return 0

    def parameters(self, weights: Weights, seed: int, generation: int, candidate: int) -> Floats:
        """Returns the flat parameter vector of a candidate, as broadcast."""
        own: Floats = weights.acting.reshape(1 + self.number, -1)[1 + candidate]
        return own


@dataclass(frozen=True)
class Samples:
    """Candidates sampled from a diagonal normal distribution, whose means and standard deviations are broadcast.

    The noise is generated from the seed. All candidates of a generation have the same episode seeds.

    Attributes:
        number: Number of candidates in a generation.
    """

    number: int

    def episode_of(self, candidate: int) -> int:
        """Index of the episode seeds: always 0, since all candidates share the seeds."""
        return 0

    def parameters(self, weights: Weights, seed: int, generation: int, candidate: int) -> Floats:
        """Samples a candidate's flat parameter vector from the broadcast normal distribution."""
        mean, deviation = weights.acting.reshape(2, -1)
        own: Floats = mean + deviation * perturbation(seed, generation, candidate, len(mean))
        return own


def perturbation(seed: int, generation: int, pair: int, size: int) -> Floats:
    """Standard normal noise of a mirrored pair or a sampled candidate; seeded, so that it is equal on all workers."""
    return generator(seed, "perturbation", generation, pair).standard_normal(size, np.float32)


def summed_perturbations(
    seed: int, generation: int, weights: Iterable[tuple[int, float]], size: int
) -> NDArray[np.float32]:
    """Weighted sum of the pairs' perturbations, [size].

    Perturbations are regenerated from the seed one at a time, in the given order, to save memory.

    Args:
        seed: Root seed of the trial.
        generation: Index of the generation.
        weights: Tuples of pair index and weight.
        size: Number of parameters.
    """
    total = np.zeros(size, np.float32)
    for pair, weight in weights:
        noise = perturbation(seed, generation, pair, size)
        noise *= np.float32(weight)
        total += noise
    return total


def as_gradient(direction: NDArray[np.float32]) -> NDArray[np.float32]:
    """Converts an ascent direction to a gradient for `Learner.apply_gradients`: negates it and appends the weight 1."""
    return np.append(-direction, np.float32(1.0))


@dataclass(frozen=True)
class EvaluationWorkerConfig(WorkerConfig):
    """Config of a worker that evaluates candidate parameter vectors.

    Attributes:
        candidates: Rule that derives candidates from broadcast weights; must be set for a worker.
        episodes: Number of episodes per candidate.
        measures_overshoots: Whether to measure how far actions are outside the bounds of a Box.
    """

    candidates: Candidates | None = None
    episodes: int = 1
    measures_overshoots: bool = False


@dataclass(frozen=True)
class Returns:
    """Evaluation results of the candidates assigned to one worker.

    Attributes:
        generation: Index of the generation.
        candidates: Indices of the candidates, [n].
        returns: Mean return of each candidate, in raw rewards of the env, [n].
        seen: Sums of raw observations and their squares, by the names of the observation filter's entries.
        overshoots: Mean squared overshoot of each candidate's actions beyond the bounds of a Box, averaged over steps
            and episodes, [n]; None if not measured. See `BoxMeanActions.overshoots`.
    """

    generation: int
    candidates: NDArray[np.int32]
    returns: NDArray[np.float64]
    seen: dict[str, ExactSums] = field(default_factory=dict)
    overshoots: NDArray[np.float64] | None = None
