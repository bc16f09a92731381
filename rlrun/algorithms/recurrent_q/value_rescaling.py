"""Invertible value rescaling (torch tensors, without importing torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

EPSILON = 1e-3
"""Weight of the linear term, which makes the inverse Lipschitz continuous."""


def rescaled(values: Tensor) -> Tensor:
    """Value rescaling h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x.

    Source:
        Pohlen et al., arXiv:1805.11593, section 3.2.
    """
    return values.sign() * ((values.abs() + 1).sqrt() - 1) + EPSILON * values


def unrescaled(values: Tensor) -> Tensor:
    """Inverse of `rescaled`.

    h^-1(x) = sign(x) (((sqrt(1 + 4 eps (|x| + 1 + eps)) - 1) / (2 eps))^2 - 1), of which the inner fraction is computed
    as 2 (|x| + 1 + eps) / (sqrt(...) + 1), to avoid cancellation.

    Source:
        Pohlen et al., arXiv:1805.11593, proposition A.2.
    """
    shifted = values.abs() + 1 + EPSILON
    root = 2 * shifted / ((1 + 4 * EPSILON * shifted).sqrt() + 1)
    return values.sign() * (root.square() - 1)
