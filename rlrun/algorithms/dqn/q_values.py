"""Acting network and recorder of Q values (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.views import viewed
from rlrun.engine.nn.acting import ActingNetwork, Heads, TransformedOutputs
from rlrun.engine.policy.action_spaces.action_space import Floats
from rlrun.engine.policy.fragment_collector import FragmentCollector, Recording


class QValues(Recording):
    """Recorder of the Q values of all actions at the time of acting, `q_values` [T + 1, B, A].

    Args:
        num_actions: Number of Discrete actions, A.
    """

    reads_heads = True

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions

    @override
    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates the column `q_values` [T + 1, B, A]."""
        return {"q_values": np.full((length + 1, slots, self.num_actions), np.nan, np.float32)}

    @override
    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records the Q values of one step."""
        batch["q_values"][where] = heads["outputs"] if acts is None else heads["outputs"][acts]

    @override
    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        """Computes the missing Q values of the fragment's final observations."""
        values = batch["q_values"]
        behind = collector.filter(map_tree(lambda leaf: leaf[-1], viewed(batch)["obs"]))
        closing = collector.closing_heads(behind)["outputs"]
        values[-1] = np.where(np.isnan(values[-1]), closing, values[-1])


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
