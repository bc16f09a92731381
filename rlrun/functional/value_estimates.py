"""How good value estimates are: the part of their targets' variance that they explain.

Written with methods that NumPy arrays and torch tensors share.
"""

from __future__ import annotations

from typing import Any, TypeVar

from rlrun.functional.masked import masked_mean

T = TypeVar("T")

ROUNDING = 1e-12
"""Variance, as a part of the squared mean, that rounding alone gives to constant numbers."""


def explained_variance(values: T, targets: T, valid: T) -> T:
    """Returns 1 - Var(targets - values) / Var(targets) over the valid cells, [].

    It is 1 where values are the targets but for a shift, and 0 where they tell no more than a constant would. It is
    negative where they tell less.

    Args:
        values: Estimates, finite as in `masked_mean`, of any shape.
        targets: What they should be, of the same shape.
        valid: 1 where a cell counts and 0 elsewhere, of the same shape and type.
    """
    mean = masked_mean(targets, valid)
    errors = targets - values  # type: ignore[operator]
    return explained_part(  # type: ignore[no-any-return]
        mean,
        masked_mean((targets - mean) ** 2, valid),  # type: ignore[operator]
        masked_mean((errors - masked_mean(errors, valid)) ** 2, valid),
    )


def explained_part(mean: Any, variance: Any, error_variance: Any) -> Any:
    """Returns 1 - error_variance / variance, [].

    Constant targets have no variance that anything could explain: of them it is 0.

    Args:
        mean: Mean of the targets, [].
        variance: Their variance, [].
        error_variance: Variance of targets minus values, [].
    """
    varies = variance > ROUNDING * mean**2
    return varies * (1 - error_variance / (variance + ~varies))
