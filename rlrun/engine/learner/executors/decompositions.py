"""Rules that split operations of a traced update into simpler ones for which there are kernels (torch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from rlrun.engine.kernels.steps import require
from rlrun.engine.learner.executors.numpy_kernels import CONSTANTS, KERNELS, KERNELS_IN_PLACE, KERNELS_OF_SEVERAL

ERF_BOUND = 4.0
ERF_NUMERATOR = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402080508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
ERF_DENOMINATOR = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)


def decomposition_of(operation: Any) -> Callable[..., Any] | None:
    """Returns a function that computes a torch operation from simpler ones: rlrun's own, or else torch's.

    None if the operation has a kernel, or if there is no such function.
    """
    if operation in DECOMPOSITIONS:
        return DECOMPOSITIONS[operation]
    is_known = any(operation in known for known in (KERNELS, KERNELS_IN_PLACE, KERNELS_OF_SEVERAL, CONSTANTS))
    return None if is_known or is_view(operation) else decomposition_table.get(operation)


def is_view(operation: Any) -> bool:
    """Whether an operation's result is a view of its first operand, so that nothing is computed."""
    if operation is torch.ops.aten._unsafe_view.default:  # its operand is not used elsewhere
        return True
    returned = operation._schema.returns
    return bool(returned) and all(each.alias_info is not None and not each.alias_info.is_write for each in returned)


def erf(x: Tensor) -> Tensor:
    """Computes the error function to float32 accuracy, as x P(x^2) / Q(x^2) with polynomials P, Q and clamped x.

    Source:
        Coefficients of Eigen's `generic_fast_erf_float`.
    """
    require(x.dtype == torch.float32)
    clamped = x.clamp(-ERF_BOUND, ERF_BOUND)
    square = clamped * clamped
    return clamped * polynomial(square, ERF_NUMERATOR) / polynomial(square, ERF_DENOMINATOR)


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Evaluates a polynomial by Horner's rule; the coefficient of the highest power comes first."""
    first, second, *others = coefficients
    total = x * first + second
    for coefficient in others:
        total = total * x + coefficient
    return total


def variance(x: Tensor, dims: list[int] | None, correction: float = 1.0) -> Tensor:
    """Computes the variance of a tensor over given axes, or over all axes."""
    centered = x - x.mean(dims, keepdim=True)
    total = (centered * centered).sum(dims)
    return total / max(x.numel() / total.numel() - correction, 0.0)


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes layer norm over the last dimensions; also returns the means and 1 / std that the gradient needs."""
    dims = list(range(x.ndim - len(shape), x.ndim))
    mean = x.mean(dims, keepdim=True)
    centered = x - mean
    scale = ((centered * centered).mean(dims, keepdim=True) + eps).rsqrt()
    outputs = centered * scale
    outputs = outputs if weight is None else outputs * weight
    return (outputs if bias is None else outputs + bias), mean, scale


def layer_norm_backward(
    gradient: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Computes the gradients of layer norm with respect to inputs, weight and bias; None for those not requested.

    Torch's own decomposition is equivalent, but imports a library for symbolic shapes, which takes seconds.
    """
    outer, inner = list(range(x.ndim - len(shape))), list(range(x.ndim - len(shape), x.ndim))
    normed = (x - mean) * scale
    within = gradient if weight is None else gradient * weight
    number = x[(0,) * len(outer)].numel()
    centered = within * number - within.sum(inner, True) - normed * (within * normed).sum(inner, True)
    of_weight, of_bias = gradient * normed, gradient
    if outer:
        of_weight, of_bias = of_weight.sum(outer), of_bias.sum(outer)
    found = (scale / number * centered, of_weight, of_bias)
    return tuple(each if is_wanted else None for each, is_wanted in zip(found, wanted, strict=True))  # type: ignore[return-value]


def log_sum_exp(x: Tensor, dims: list[int], keepdim: bool = False) -> Tensor:
    """Computes log(sum(exp(x))) of a tensor over given axes.

    Torch's own decomposition is equivalent, but imports torch's compiler, which takes seconds.
    """
    most = x.amax(dims, keepdim=True)
    most = torch.where(most.abs() == torch.inf, torch.zeros_like(most), most)
    sums = (x - most).exp().sum(dims, keepdim=True).log() + most
    return sums if keepdim else sums.squeeze(dims)


def largest(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Computes the maximum of a tensor along an axis, and its index."""
    return x.amax(dim, keepdim), x.argmax(dim, keepdim)


def smallest(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Computes the minimum of a tensor along an axis, and its index."""
    return x.amin(dim, keepdim), (-x).argmax(dim, keepdim)


def scatter(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Copies x, and replaces one element of each slice along an axis with `source`, as in the gradient of a maximum."""
    require(index.shape[dim] == 1)
    return x.scatter_add(dim, index, source - x.gather(dim, index))


_ATEN, _PRIMS = torch.ops.aten, torch.ops.prims

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _ATEN.erf.default: erf,
    _ATEN.logsumexp.default: log_sum_exp,
    _ATEN.max.dim: largest,
    _ATEN.min.dim: smallest,
    _ATEN.scatter.src: scatter,
    _ATEN.native_layer_norm.default: layer_norm,
    _ATEN.native_layer_norm_backward.default: layer_norm_backward,
    _PRIMS.erf.default: erf,
    _PRIMS.var.default: variance,
}
"""Decompositions of operations that torch itself does not decompose further."""
