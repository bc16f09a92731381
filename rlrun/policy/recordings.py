"""What fragments tell besides actions: log-probabilities and values, for on-policy losses and first priorities (NumPy).

Without one of these a fragment holds raw observations and actions, as a replay keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.data.views import viewed
from rlrun.nn.acting import ActingNetwork, Heads
from rlrun.policy.action_spaces.action_space import Floats, StochasticActions
from rlrun.policy.behavior import BehaviorPolicy


class LogProbsAndValues:
    """`logp` [T, B] of the actions and `values` [T + 1, B] of filtered observations.

    Values that the network does not give with every step come from one pass over the whole fragment. Those of a
    recurrent network follow from its state: it gives all of them, of an episode's final observation too, and that
    behind the fragment without moving the state.

    Args:
        action_space: The distributions.
        value_network: Has the values' heads; None where the network that acts is recurrent and has them.
        heads: The heads of values by column, those of further streams of rewards among them.
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
        self.heads = dict(heads)  # a view of a mapping does not travel
        self._come_along = False

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A]."""
        if self.value_network is not None:
            self.value_network.load(flat)

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Returns empty `outputs` [T, B, K] and values [T + 1, B]."""
        return {
            "outputs": np.empty((length, slots, self.action_space.num_outputs), np.float32),
            **{column: np.full((length + 1, slots), np.nan, np.float32) for column in self.heads},
        }

    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records the outputs, and the values if they come along."""
        self._come_along = "value" in heads
        batch["outputs"][where] = heads["outputs"] if acts is None else heads["outputs"][acts]
        if self._come_along:
            for column, head in self.heads.items():
                values = heads[head][:, 0]
                batch[column][where] = values if acts is None else values[acts]

    def postprocess(self, batch: SampleBatch, policy: BehaviorPolicy) -> None:
        """Filters the observations, and adds log-probabilities and missing values.

        A closing value that is there already is that of a step which goes on, from when it was taken.
        """
        policy.filter_fragment(batch)
        seen = viewed(batch)
        batch["logp"] = self.action_space.log_prob(batch.pop("outputs"), batch["actions"])
        if self.value_network is None:
            closing = policy.closing_heads(map_tree(lambda leaf: leaf[-1], seen["obs"]))
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
        """Returns what the value network sees, a tree of [T + 1, B, ...]."""
        return batch["obs"]
