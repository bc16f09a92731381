"""Recorder of the log-probabilities and values of an acting policy, for losses and initial priorities (NumPy).

Without a recorder, fragments hold raw observations and actions, as stored in replay buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.views import viewed
from rlrun.engine.nn.acting import ActingNetwork, Heads
from rlrun.engine.policy.action_spaces.action_space import Floats, StochasticActions
from rlrun.engine.policy.fragment_collector import Execution, FragmentCollector, Recording


class LogProbsAndValues(Recording):
    """Records the log-probabilities of actions and the state values of a fragment, and normalizes its observations.

    The columns are `logp` [T, B] and `values` [T + 1, B] for T steps in B env slots.

    Values that are not computed at every step come from one pass over the whole fragment. A recurrent network computes
    all values from its state, including the values of final observations. Computing the bootstrap value after the
    fragment does not change the recurrent state.

    Args:
        action_space: Action space with the behavior policy's distributions.
        value_network: Network with the value heads; None if the acting network is recurrent and has these heads itself.
        heads: Name of the value head for each column of values, including those of additional reward streams.
    """

    reads_heads = True

    def __init__(
        self,
        action_space: StochasticActions,
        value_network: ActingNetwork | None,
        heads: Mapping[str, str] = MappingProxyType({"values": "value"}),
    ) -> None:
        self.action_space = action_space
        self.value_network = value_network
        self.heads = dict(heads)  # a mapping proxy cannot be pickled
        self._come_along = False

    @override
    def load(self, flat: Floats) -> None:
        """Loads the value network's weights from the flat vector of parameters needed for acting."""
        if self.value_network is not None:
            self.value_network.load(flat)

    @override
    def collect_by(self, execution: Execution) -> None:
        """Replaces the value network with a different implementation, such as C kernels."""
        if self.value_network is not None:
            self.value_network = execution(self.value_network)

    @override
    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates `outputs` [T, B, K], with K outputs per distribution, and values [T + 1, B], initialized to NaN."""
        return {
            "outputs": np.empty((length, slots, self.action_space.num_outputs), np.float32),
            **{column: np.full((length + 1, slots), np.nan, np.float32) for column in self.heads},
        }

    @override
    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records the parameters of one step's action distributions, and the values if the network computed them."""
        self._come_along = "value" in heads
        batch["outputs"][where] = heads["outputs"] if acts is None else heads["outputs"][acts]
        if self._come_along:
            for column, head in self.heads.items():
                values = heads[head][:, 0]
                batch[column][where] = values if acts is None else values[acts]

    @override
    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        """Completes a fragment: normalizes observations, and adds log-probabilities and missing values.

        If the value of the observation after the last step was already recorded, it is kept.
        """
        collector.filter.filter_fragment(batch)
        seen = viewed(batch)
        # The old log-probability in PPO's ratio is computed from the outputs that the actions were sampled from.
        batch["logp"] = self.action_space.log_prob(batch.pop("outputs"), batch["actions"])
        if self.value_network is None:
            closing = collector.closing_heads(map_tree(lambda leaf: leaf[-1], seen["obs"]))
            for column, head in self.heads.items():
                last = batch[column][-1]
                last[:] = np.where(np.isnan(last), closing[head][:, 0], last)
            return
        missing = len(batch["values"]) - 1 if self._come_along else 0
        cells = batch["values"][missing:].size
        rows = map_tree(lambda leaf: leaf[missing:].reshape(cells, *leaf.shape[2:]), self.value_inputs(seen))
        heads, _ = self.value_network({"obs": rows})
        for column, head in self.heads.items():
            values = batch[column]
            values[missing:] = heads[head].reshape(-1, values.shape[1])

    def value_inputs(self, batch: SampleBatch) -> Any:
        """Returns the value network's inputs, a tree of [T + 1, B, ...]: T steps and the observation after them."""
        return batch["obs"]
