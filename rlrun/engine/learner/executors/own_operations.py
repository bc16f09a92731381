"""Custom operations in updates, which replace torch operations on large tables with loops."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from typing_extensions import override

from rlrun.engine.kernels.steps import Array, write_quantile_pairs
from rlrun.engine.learner.executors.numpy_kernels import KERNELS, Emit

_LIBRARY = torch.library.Library("rlrun", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("quantile_pairs(Tensor estimates, Tensor targets) -> Tensor")  # type: ignore[no-untyped-call]


def quantile_pairs_in_torch(estimates: Tensor, targets: Tensor) -> Tensor:
    """Returns the quantile Huber losses of all pairs of estimates and targets, and their slopes, in torch operations.

    Args:
        estimates: Estimated quantiles q, and their fractions tau, [2, R, N].
        targets: Samples t of the target distributions, [R, M].

    Returns:
        For each quantile, the mean over targets of |tau - [t < q]| H(t - q) with the Huber loss H of bound 1, and the
        derivative of this mean with respect to q, [2, R, N].

    Source:
        Dabney et al., arXiv:1710.10044, eqs. 9 and 10 with kappa = 1.
    """
    quantiles, fractions = (each.unsqueeze(-1) for each in estimates)
    errors = targets.unsqueeze(-2) - quantiles
    weights = (fractions - (errors < 0).to(errors.dtype)).abs()
    within = errors.clamp(-1.0, 1.0)
    return torch.stack([(weights * within * (errors - 0.5 * within)).mean(-1), -(weights * within).mean(-1)])


_LIBRARY.impl("quantile_pairs", quantile_pairs_in_torch, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]

QUANTILE_PAIRS: Any = torch.ops.rlrun.quantile_pairs.default
"""The operation of `quantile_pairs_in_torch`, which executors replace with loops without a table [R, N, M]."""


def quantile_pairs(emit: Emit, out: Array, estimates: Array, targets: Array) -> None:
    """Emits a NumPy call for quantile Huber losses of all pairs, and their slopes."""
    emit(write_quantile_pairs, estimates, targets, out=out)


KERNELS[QUANTILE_PAIRS] = quantile_pairs


class QuantileHuber(torch.autograd.Function):
    """Mean quantile Huber loss of each estimate over the targets, with gradients for the estimates."""

    @staticmethod
    @override
    def forward(ctx: Any, quantiles: Tensor, fractions: Tensor, targets: Tensor) -> Tensor:
        """Computes the losses [R, N].

        Args:
            ctx: Torch's context, which keeps the slopes for `backward`.
            quantiles: Estimated quantiles, [R, N].
            fractions: Fractions of the estimated quantiles, [R, N].
            targets: Samples of the target distributions, [R, M].
        """
        found: Tensor = QUANTILE_PAIRS(torch.stack([quantiles, fractions]), targets)
        losses: Tensor = found[0]
        ctx.save_for_backward(found[1])
        return losses

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Computes the gradient with respect to the quantiles, [R, N]; fractions and targets get none."""
        (slopes,) = ctx.saved_tensors
        return gradient * slopes, None, None
