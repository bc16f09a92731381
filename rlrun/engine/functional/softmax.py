"""Numerically stable log-softmax (NumPy)."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


FEW = 8
"""Smallest number of logits for which NumPy's sum along the last axis is faster than a sum of columns."""


def log_softmax(logits: Floats) -> Floats:
    """Computes the logarithm of the softmax over the last axis, in a numerically stable way.

    Fewer than `FEW` logits are added column by column, which is faster; the sums equal NumPy's.
    """
    few = logits.shape[-1] < FEW
    shifted: Floats = logits - (_by_columns(np.maximum, logits) if few else logits.max(axis=-1, keepdims=True))
    powers = np.exp(shifted)
    shifted -= np.log(_by_columns(np.add, powers) if few else powers.sum(axis=-1, keepdims=True))
    return shifted


def _by_columns(combine: np.ufunc, x: Floats) -> Floats:
    """Combines the columns of an array [..., K] one after another, [..., 1]."""
    return reduce(combine, (x[..., column : column + 1] for column in range(x.shape[-1])))
