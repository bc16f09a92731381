"""A target network: a copy of the parameters that follows them (torch)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlrun.learner.staging import over_memory
from rlrun.policy.flat_parameters import FlatParameters


class TargetNetwork:
    """Parameters that stay behind those that learn.

    Args:
        parameters: Where each parameter lies.
        flat: The present parameters [P], which it begins as a copy of.

    Attributes:
        flat: The target network's parameters, [P].
    """

    def __init__(self, parameters: FlatParameters, flat: Tensor) -> None:
        self.flat = flat.clone()
        self._parameters = parameters

    def update(self, flat: Tensor, tau: float, prefix: str) -> None:
        """Moves it by a fraction of the distance to the present parameters.

        Args:
            flat: The present parameters, [P].
            tau: The fraction; 1 copies them.
            prefix: Of the names of the parameters that move; "" for all.

        Raises:
            ValueError: No parameter's name begins with the prefix.
        """
        start, size = self._parameters.range_under(prefix)
        own, present = self.flat[start : start + size], flat[start : start + size]
        if tau == 1.0:
            own.copy_(present)
        else:
            own.lerp_(present, tau)

    def copied(self) -> NDArray[np.float32]:
        """Returns a copy of its parameters, [P]."""
        return self.flat.cpu().numpy().copy()

    def load(self, flat: NDArray[np.float32]) -> None:
        """Loads parameters [P], also from a view into the object store."""
        self.flat.copy_(over_memory(flat))
