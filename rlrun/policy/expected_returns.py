"""Acting by the means of estimated return distributions (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.nn.acting import ActingNetwork, Heads
from rlrun.policy.action_spaces.action_space import Floats
from rlrun.policy.return_model import ReturnModel


class ExpectedReturns:
    """A network that puts out what describes the actions' returns, as one that puts out their means.

    Args:
        network: The network.
        returns: What its outputs mean.
    """

    def __init__(self, network: ActingNetwork, returns: ReturnModel) -> None:
        self.network = network
        self.returns = returns
        self.state_size = network.state_size

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A]."""
        self.network.load(flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Takes one step."""
        heads, after = self.network(inputs, state, episode_starts, noise)
        return {**heads, "outputs": self.returns.means(heads["outputs"])}, after
