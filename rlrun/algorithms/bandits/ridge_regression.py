"""Recursive ridge regressions, in float64 (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class RidgeRegressions:
    """Recursive ridge regressions on D features, with square roots of their inverse Gram matrices.

    A regression of targets y on rows x has the Gram matrix A = ridge I + sum x x^T, and the coefficients A^-1 b with
    b = sum y x. A^-1 is stored as a root S with S S^T = A^-1. A new row updates it by the Sherman-Morrison formula in
    the form of Potter: with f = S^T x and a = 1 / (1 + f^T f),

        S <- S - a / (1 + sqrt(a)) (S f) f^T.

    So A^-1 never loses a positive eigenvalue to rounding, and S z of standard normal z is a draw from N(0, A^-1).

    Args:
        number: Number of regressions, M.
        features: Number of features, D.
        ridge: Ridge penalty on the squared norm of the coefficients.

    Attributes:
        roots: Roots S of the inverse Gram matrices, [M, D, D].
        weighted_sums: Target-weighted sums b of the rows, [M, D].

    Source:
        Sherman and Morrison, "Adjustment of an inverse matrix corresponding to a change in one element of a given
        matrix", 1950; its square-root form by Potter in Kaminski, Bryson and Schmidt, "Discrete square root filtering",
        1971, section III.
    """

    def __init__(self, number: int, features: int, ridge: float) -> None:
        self.roots: Doubles = np.repeat(np.eye(features)[None] / np.sqrt(ridge), number, 0)
        self.weighted_sums: Doubles = np.zeros((number, features))

    def add(self, which: int, row: NDArray[Any], target: float) -> None:
        """Rank-one update of a regression by one observation.

        Args:
            which: Index of the regression.
            row: Features x, [D].
            target: Target y.
        """
        root, x = self.roots[which], row.astype(np.float64)
        f = x @ root
        a = 1 / (1 + f @ f)
        root -= np.outer(root @ f, f * (a / (1 + np.sqrt(a))))
        self.weighted_sums[which] += target * x

    def coefficients(self) -> Doubles:
        """Ridge estimates A^-1 b of the coefficients, [M, D]."""
        found: Doubles = self.roots @ (self.roots.transpose(0, 2, 1) @ self.weighted_sums[..., None])
        return found[..., 0]

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: copies of S and b."""
        return {"roots": self.roots.copy(), "weighted_sums": self.weighted_sums.copy()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Creates regressions from the `state()` of others."""
        number, features = np.shape(state["weighted_sums"])
        regressions = cls(number, features, ridge=1.0)
        regressions.roots[:] = state["roots"]
        regressions.weighted_sums[:] = state["weighted_sums"]
        return regressions
