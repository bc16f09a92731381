"""Acting by the means of estimated return distributions (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.nn.acting import ActingNetwork, TransformedOutputs
from rlrun.policy.action_spaces.action_space import Floats


class ExpectedReturns(TransformedOutputs):
    """A network that puts out what describes the actions' returns, as one that puts out their means.

    Args:
        network: The network.
        returns: What its outputs mean.
    """

    def __init__(self, network: ActingNetwork, returns: ReturnModel) -> None:
        super().__init__(network)
        self.returns = returns

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Returns mean returns [B, A]."""
        return self.returns.means(outputs)
