"""Ascent directions estimated from mirrored pairs of candidates (NumPy)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.evolution.candidates import perturbation


def summed_perturbations(
    seed: int, generation: int, weights: Iterable[tuple[int, float]], size: int
) -> NDArray[np.float32]:
    """Weighted sum of the perturbations of pairs, [size].

    Perturbations are generated from the seed one by one, in the order given: they are never in memory together.

    Args:
        seed: Root seed of the trial.
        generation: Which generation.
        weights: Pairs of pair and weight.
        size: Parameters.
    """
    total = np.zeros(size, np.float32)
    for pair, weight in weights:
        noise = perturbation(seed, generation, pair, size)
        noise *= np.float32(weight)
        total += noise
    return total


def as_gradient(direction: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gradient for `Learner.apply_gradients` of a direction of ascent: its negative, followed by weight 1."""
    return np.append(-direction, np.float32(1.0))
