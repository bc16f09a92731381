"""Operations as sequences of elementary ones, for executors that have kernels of the latter alone (torch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def layer_norm(
    x: Tensor, shape: Sequence[int], scale: Tensor, shift: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """LayerNorm of rows (Ba et al., arXiv:1607.06450, eq. 4).

    Args:
        x: Rows, [N, D].
        shape: Shape of what is normalised, (D,).
        scale: Learned scale, [D].
        shift: Learned shift, [D].
        epsilon: Added to the variance before the square root.

    Returns:
        Normalised rows, their means [N, 1], and the reciprocals of their standard deviations [N, 1].
    """
    mean = x.mean(-1, keepdim=True)
    centered = x - mean
    reciprocal = (centered.pow(2).mean(-1, keepdim=True) + epsilon).rsqrt()
    return centered * reciprocal * scale + shift, mean, reciprocal


def layer_norm_backward(
    gradient: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    reciprocal: Tensor,
    scale: Tensor,
    shift: Tensor,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of LayerNorm with respect to rows [N, D], scale [D] and shift [D], those that are wanted."""
    normalized = (x - mean) * reciprocal
    of_x = None
    if wanted[0]:
        of_normalized = gradient * scale
        along = normalized * (of_normalized * normalized).mean(-1, keepdim=True)
        of_x = reciprocal * (of_normalized - of_normalized.mean(-1, keepdim=True) - along)
    of_scale = (gradient * normalized).sum(0) if wanted[1] else None
    return of_x, of_scale, gradient.sum(0) if wanted[2] else None


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.native_layer_norm.default: layer_norm,
    torch.ops.aten.native_layer_norm_backward.default: layer_norm_backward,
}
"""Decompositions by operation."""
