"""Explained variance of value estimates.

Its functions use methods that NumPy arrays and torch tensors share.
"""

from __future__ import annotations

from typing import Any, TypeVar

from rlrun.engine.functional.masked import masked_mean

T = TypeVar("T")

ROUNDING = 1e-12
"""Bound of the variance of constant numbers by rounding, relative to the squared mean."""


def explained_variance(values: T, targets: T, valid: T) -> T:
    """Explained variance 1 - Var(targets - values) / Var(targets) over the valid entries, [].

    It is 1 for values that equal the targets up to a constant, 0 for values as good as a constant, and negative for
    worse ones.

    Args:
        values: Estimates, finite as in `masked_mean`, of any shape.
        targets: Value targets, of the same shape.
        valid: 1 for valid entries and 0 elsewhere, of the same shape and type.
    """
    mean = masked_mean(targets, valid)
    errors = targets - values  # type: ignore[operator]
    return explained_part(  # type: ignore[no-any-return]
        mean,
        masked_mean((targets - mean) ** 2, valid),  # type: ignore[operator]
        masked_mean((errors - masked_mean(errors, valid)) ** 2, valid),
    )


def explained_part(mean: Any, variance: Any, error_variance: Any) -> Any:
    """Explained variance 1 - error_variance / variance, []; 0 for constant targets.

    Args:
        mean: Mean of the targets, [].
        variance: Their variance, [].
        error_variance: Variance of targets minus values, [].
    """
    varies = variance > ROUNDING * mean**2
    return varies * (1 - error_variance / (variance + ~varies))
