"""What a critic of actions says on the acting side (NumPy)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.nn.dense_net import DenseNet
from rlrun.nn.observation_leaves import dense_inputs

Floats = NDArray[np.float32]


class CriticForward(Protocol):
    """A critic as a behavior policy uses it."""

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P], those of other critics included."""

    def values(self, observations: Any, actions: Floats) -> Floats:
        """Returns values [N] of observations [N, ...] and actions [N, D]."""


class DenseCritic:
    """A critic of dense layers, in NumPy."""

    def __init__(self, leaves: Any, net: DenseNet) -> None:
        """Takes the observations' parts and the layers."""
        self.leaves = leaves
        self.net = net

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.net.load(flat)

    def values(self, observations: Any, actions: Floats) -> Floats:
        """Returns values [N]."""
        return self.net(np.concatenate([dense_inputs(self.leaves, observations), actions], -1))[:, 0]
