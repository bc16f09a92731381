"""Graph rewrites of slow operations, for updates compiled for the CPU (torch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

TANH_BOUND = 7.90531110763549805
TANH_NUMERATOR = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
TANH_DENOMINATOR = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def rational_tanh(x: Tensor) -> Tensor:
    """Rational approximation of tanh to float32 accuracy: x P(x^2) / Q(x^2), with x clamped to where tanh is 1.

    Other types are computed in float32 and rounded once. The compiler turns it into vector instructions, which take a
    sixth of the time of the library's tanh.

    Source:
        The minimax coefficients of Eigen's `generic_fast_tanh_float` (degrees 13 and 6 in x).
    """
    if x.dtype != torch.float32:  # such as bfloat16, in which the polynomials would lose everything
        return rational_tanh(x.float()).to(x.dtype)
    clamped = x.clamp(-TANH_BOUND, TANH_BOUND)
    square = clamped * clamped
    return clamped * polynomial(square, TANH_NUMERATOR) / polynomial(square, TANH_DENOMINATOR)


def polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Polynomial evaluation by Horner's rule; the highest power's coefficient is first."""
    first, second, *others = coefficients
    total = x * first + second
    for coefficient in others:
        total = total * x + coefficient
    return total


def layer_outputs(bias: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
    """Linear layer: inputs @ weight + bias.

    The library's own operation first fills the result with the bias, which costs as much as the activation after it. A
    separate addition is fused with the activation. It is written as a difference, since the compiler would turn a
    product and a sum back into the library's operation.
    """
    return torch.mm(inputs, weight) - (-bias)


REWRITES: dict[torch._ops.OpOverload[..., Any], Callable[..., Tensor]] = {
    torch.ops.aten.tanh.default: rational_tanh,
    torch.ops.aten.addmm.default: layer_outputs,
}
"""Decomposition table for tracing: operations and their replacements."""


NARROW = 16
"""Maximum number of columns of a narrow matrix product."""


def turn_narrow_products(graph: torch.fx.GraphModule) -> None:
    """Rewrites products A B with few columns and more rows as (B^T A^T)^T, in place.

    The gradient of a first layer's weights is such a product (many units, few inputs), and so is that of its inputs.
    The library takes several times longer for a tall and narrow result than for a flat one.

    Args:
        graph: A graph from `make_fx`, with the shapes of results in its metadata.
    """
    operations, insert = torch.ops.aten, graph.graph.call_function
    for node in list(graph.graph.nodes):
        if node.target is not operations.mm.default:
            continue
        left, right = node.args
        rows, columns = node.meta["tensor_meta"].shape
        if 1 < columns < rows and (columns <= NARROW or left.target is operations.t.default):
            with graph.graph.inserting_before(node):
                first, second = insert(operations.t.default, (right,)), insert(operations.t.default, (left,))
                product = insert(operations.mm.default, (first, second))
                turned = insert(
                    operations.clone.default,
                    (insert(operations.t.default, (product,)),),
                    {"memory_format": torch.contiguous_format},
                )
            node.replace_all_uses_with(turned)
            graph.graph.erase_node(node)
    graph.recompile()
