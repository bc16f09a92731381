"""Means and standardization over the valid entries of batches.

The functions accept NumPy arrays and torch tensors.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def masked_mean(x: T, valid: T) -> T:
    """Returns the mean of numbers over the valid entries; 0 if no entry is valid.

    Args:
        x: The numbers, of any shape. They must be finite even in invalid entries, since NaN times 0 is NaN;
            `SampleBatch.zero_invalid` sets these entries to zero before a batch reaches a loss.
        valid: 1 for valid entries and 0 elsewhere, of the same shape and type.

    Raises:
        ValueError: The shapes differ.
    """
    if x.shape != valid.shape:  # type: ignore[attr-defined]
        shapes = f"x is {list(x.shape)} but the mask is {list(valid.shape)}"  # type: ignore[attr-defined]
        raise ValueError(f"masked_mean: {shapes}; keep every term [S, L], also when L is 1")
    return (x * valid).sum() / valid.sum().clip(1)  # type: ignore[attr-defined, operator, no-any-return]


def standardized(x: NDArray[np.float32], valid: NDArray[np.bool_], epsilon: float = 1e-8) -> NDArray[np.float32]:
    """Returns numbers shifted and scaled to mean 0 and standard deviation 1 over valid entries; invalid ones become 0.

    Invalid entries need not be finite.

    Raises:
        ValueError: The shapes differ; see `masked_mean`.
    """
    weights = valid.astype(np.float64)
    mean = masked_mean(np.where(valid, x, 0.0).astype(np.float64), weights)
    deviations = np.where(valid, x - mean, 0.0)
    scale = np.sqrt(masked_mean(deviations**2, weights)) + epsilon
    result: NDArray[np.float32] = (deviations / scale).astype(np.float32)
    return result
