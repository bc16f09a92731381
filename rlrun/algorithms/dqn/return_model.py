"""Representation of returns in a Q network: expected value, C51 atoms or quantiles (NumPy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.softmax import log_softmax

Floats = NDArray[np.float32]

ReturnKind = Literal["none", "c51", "quantile", "iqn"]


@dataclass(frozen=True)
class ReturnModel:
    """Representation of an action's return by K outputs of a Q network.

    Attributes:
        kind: `none`: expected return. `c51`: logits of returns evenly spaced from `v_min` to `v_max`. `quantile`:
            quantiles of equal probability. `iqn`: quantiles at random fractions, by an implicit quantile network.
        num_atoms: Number K of atoms or quantiles; unused with `none`.
        v_min: Smallest return in the support of `c51`.
        v_max: Largest return in the support of `c51`.
        acting_quantiles: With `iqn`, number of quantiles whose mean is the Q value when acting and in greedy choices.
        num_cosines: Number of cosines in the embedding of a fraction in `iqn`.
    """

    kind: ReturnKind = "none"
    num_atoms: int = 1
    v_min: float = 0.0
    v_max: float = 0.0
    acting_quantiles: int = 1
    num_cosines: int = 1

    @property
    def numbers_per_action(self) -> int:
        """Number K of network outputs that represent the return of one action."""
        return 1 if self.kind == "none" else self.num_atoms

    @property
    def support(self) -> Floats:
        """Support of C51: the K evenly spaced returns of its atoms."""
        return np.linspace(self.v_min, self.v_max, self.num_atoms, dtype=np.float32)

    def means(self, outputs: Floats) -> Floats:
        """Expected returns (Q values) [envs, num_actions] from K outputs per action, [envs, num_actions * K]."""
        if self.kind == "none":
            return outputs
        described = outputs.reshape(len(outputs), -1, self.num_atoms)
        if self.kind == "quantile":
            means: Floats = described.mean(-1)
            return means
        expected: Floats = np.exp(log_softmax(described)) @ self.support
        return expected
