"""Acting by the means of estimated return distributions (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.nn.acting import ActingNetwork, TransformedOutputs
from rlrun.policy.action_spaces.action_space import Floats


class ExpectedReturns(TransformedOutputs):
    """Network of return distributions as a network of their means, the Q values.

    Args:
        network: The network.
        returns: Meaning of its outputs.
    """

    def __init__(self, network: ActingNetwork, returns: ReturnModel) -> None:
        super().__init__(network)
        self.returns = returns

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Returns mean returns [B, A]."""
        return self.returns.means(outputs)
