"""Decompositions: operations of a traced update in terms of simpler ones, all of which have kernels (torch)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rlrun.learner.numpy_kernels import demand

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


def erf(x: Tensor) -> Tensor:
    """Rational approximation of the error function to float32 accuracy: x P(x^2) / Q(x^2), clamped to where it is 1.

    Source:
        The coefficients of Eigen's `generic_fast_erf_float`.
    """
    clamped = x.clamp(-ERF_BOUND, ERF_BOUND)
    square = clamped * clamped
    return clamped * polynomial(square, ERF_NUMERATOR) / polynomial(square, ERF_DENOMINATOR)


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Polynomial evaluation by Horner's rule; the highest power's coefficient is first."""
    first, second, *others = coefficients
    total = x * first + second
    for coefficient in others:
        total = total * x + coefficient
    return total


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """GELU: x times the normal distribution function of x (Hendrycks and Gimpel, arXiv:1606.08415)."""
    demand(approximate == "none" and x.dtype == torch.float32)
    return x * normal_cdf(x)


def gelu_backward(gradient: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    """Gradient of the GELU."""
    demand(approximate == "none" and x.dtype == torch.float32)
    density = (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    return gradient * (normal_cdf(x) + x * density)


def normal_cdf(x: Tensor) -> Tensor:
    """Distribution function of the standard normal distribution."""
    return erf(x * math.sqrt(0.5)) * 0.5 + 0.5


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm over the last dimensions, with the means and reciprocal deviations that its gradient needs."""
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
    is_needed: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of the layer norm with respect to inputs, weight and bias."""
    demand(x.ndim > len(shape))
    rows, dims = list(range(x.ndim - len(shape))), list(range(x.ndim - len(shape), x.ndim))
    normal = (x - mean) * scale
    scaled = gradient if weight is None else gradient * weight
    along = scaled - scaled.mean(dims, keepdim=True) - normal * (scaled * normal).mean(dims, keepdim=True)
    return (
        along * scale if is_needed[0] else None,
        (gradient * normal).sum(rows) if is_needed[1] else None,
        gradient.sum(rows) if is_needed[2] else None,
    )


def logsumexp(x: Tensor, dims: list[int], keepdim: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials; finite where an infinite maximum would be subtracted from itself."""
    most = x.amax(dims, keepdim=True)
    most = most.masked_fill(most.abs() == math.inf, 0.0)
    found: Tensor = (x - most).exp().sum(dims, keepdim=True).log() + most
    return found if keepdim else found.squeeze(tuple(dims))


_ATEN = torch.ops.aten

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _ATEN.gelu.default: gelu,
    _ATEN.gelu_backward.default: gelu_backward,
    _ATEN.native_layer_norm.default: layer_norm,
    _ATEN.native_layer_norm_backward.default: layer_norm_backward,
    _ATEN.logsumexp.default: logsumexp,
}
"""Decompositions by operation."""
