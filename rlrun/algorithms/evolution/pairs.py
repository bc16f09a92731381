"""Gradient estimates from mirrored pairs of perturbations (NumPy)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.evolution.candidates import perturbation


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
    """Gradient for `Learner.apply_gradients`: the negated ascent direction, with weight 1 appended."""
    return np.append(-direction, np.float32(1.0))
