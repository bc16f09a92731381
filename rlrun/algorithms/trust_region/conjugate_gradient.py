"""Conjugate gradient method for symmetric positive definite systems (torch)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor, steps: int) -> Tensor:
    """Solves A x = b for a symmetric positive definite A, from x = 0.

    Args:
        product: Product of A with a vector, [N].
        target: b, [N].
        steps: Number of iterations; N give the exact solution up to rounding.

    Returns:
        The approximate solution x, [N]. Where rounding makes p^T A p <= 0 or the residual is 0, x stays as it is.

    Source:
        Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems", 1952, eqs. 3:1.
    """
    found = torch.zeros_like(target)
    residual = direction = target
    square = (residual * residual).sum()
    for _ in range(steps):
        along = product(direction)
        curvature = (direction * along).sum()
        size = torch.where(curvature > 0, square / curvature, torch.zeros_like(square))
        found = found + size * direction
        residual = residual - size * along
        smaller = (residual * residual).sum()
        ratio = torch.where(square > 0, smaller / square, torch.zeros_like(square))
        direction, square = residual + ratio * direction, smaller
    return found
