"""The direction in which mirrored pairs of candidates say that returns grow (NumPy)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.evolution.candidates import perturbation


def summed_perturbations(
    seed: int, generation: int, weights: Iterable[tuple[int, float]], size: int
) -> NDArray[np.float32]:
    """Returns the sum of the noise of pairs, each times a weight, [size].

    The noise is made anew from the seed, pair by pair, in the order given: it is never held or sent as a whole.

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
    """Returns a direction of ascent as what `Learner.apply_gradients` takes: its negative, and the weight 1 behind."""
    return np.append(-direction, np.float32(1.0))
