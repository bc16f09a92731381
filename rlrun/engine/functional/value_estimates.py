"""Explained variance, which measures how well values predict returns.

The functions accept NumPy arrays and torch tensors.
"""

from __future__ import annotations

from typing import Any, TypeVar

from rlrun.engine.functional.masked import masked_mean

T = TypeVar("T")

ROUNDING = 1e-12
"""Bound on the variance that constant numbers have due to rounding, relative to the squared mean."""


def explained_variance(values: T, targets: T, valid: T) -> T:
    """Returns the explained variance 1 - Var(targets - values) / Var(targets) over the valid entries, a scalar.

    The result is 1 if the values equal the targets up to a constant, 0 if they are no better than a constant, and
    negative if they are worse.

    Args:
        values: Value estimates of any shape, finite even in invalid entries.
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
    """Returns the explained variance 1 - error_variance / variance, a scalar; 0 for constant targets.

    Args:
        mean: Mean of the targets, a scalar.
        variance: Variance of the targets, a scalar.
        error_variance: Variance of the differences between targets and value estimates, a scalar.
    """
    varies = variance > ROUNDING * mean**2
    return varies * (1 - error_variance / (variance + ~varies))
