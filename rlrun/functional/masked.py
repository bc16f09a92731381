"""Reductions over the cells that hold experience; the others carry weight 0.

They are written with methods that NumPy arrays and torch tensors share, so losses and batch statistics reduce alike.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def masked_mean(x: T, valid: T) -> T:
    """Returns the mean of x over valid cells, 0 if none is valid.

    Args:
        x: Finite numbers, of any shape: what is no number times 0 is none either. Batches reach a loss with zeros in
            the cells that no step filled (`SampleBatch.zero_invalid`).
        valid: 1 where a cell counts and 0 elsewhere, of the same shape and type.
    """
    return (x * valid).sum() / valid.sum().clip(1)  # type: ignore[attr-defined, operator, no-any-return]


def standardized(x: NDArray[np.float32], valid: NDArray[np.bool_], epsilon: float = 1e-8) -> NDArray[np.float32]:
    """Returns x shifted and scaled to mean 0 and standard deviation 1 over its valid cells, 0 in the others.

    What stands in the others may be no finite number.
    """
    weights = valid.astype(np.float64)
    mean = masked_mean(np.where(valid, x, 0.0).astype(np.float64), weights)
    deviations = np.where(valid, x - mean, 0.0)
    scale = np.sqrt(masked_mean(deviations**2, weights)) + epsilon
    result: NDArray[np.float32] = (deviations / scale).astype(np.float32)
    return result
