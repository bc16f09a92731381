"""Acting by the expected values of return distributions (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.engine.nn.acting import ActingNetwork, TransformedOutputs
from rlrun.engine.policy.action_spaces.action_space import Floats


class ExpectedReturns(TransformedOutputs):
    """Acting network whose outputs are Q values: the means of another network's return distributions.

    Args:
        network: Acting network of return distributions.
        returns: Representation of returns in the network's outputs.
    """

    def __init__(self, network: ActingNetwork, returns: ReturnModel) -> None:
        super().__init__(network)
        self.returns = returns

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Replaces return distributions by Q values [B, A]."""
        return self.returns.means(outputs)
