"""Networks for action selection that output Q values, including IQN's, and a recorder of Q values (NumPy)."""

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
from rlrun.engine.nn.dense_net import ACTIVATIONS
from rlrun.engine.nn.model_config import Activation
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.policy.action_spaces.action_space import Floats
from rlrun.engine.policy.fragment_collector import FragmentCollector, Recording


class QValues(Recording):
    """Records the Q values computed while acting: `q_values` [T + 1, B, A] for T steps in B parallel envs.

    Args:
        num_actions: Number of Discrete actions, A.
    """

    reads_heads = True

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions

    @override
    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates the column `q_values` [steps + 1, envs, num_actions]."""
        return {"q_values": np.full((length + 1, slots, self.num_actions), np.nan, np.float32)}

    @override
    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records the Q values of one step."""
        batch["q_values"][where] = heads["outputs"] if acts is None else heads["outputs"][acts]

    @override
    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        """Computes the missing Q values of the rollout fragment's final observations."""
        values = batch["q_values"]
        behind = collector.filter(map_tree(lambda leaf: leaf[-1], viewed(batch)["obs"]))
        closing = collector.closing_heads(behind)["outputs"]
        values[-1] = np.where(np.isnan(values[-1]), closing, values[-1])


class ExpectedReturns(TransformedOutputs):
    """Network for action selection that outputs Q values: the means of another network's return distributions.

    Args:
        network: Network that outputs return distributions.
        returns: Representation of returns in the network's outputs.
    """

    def __init__(self, network: ActingNetwork, returns: ReturnModel) -> None:
        super().__init__(network)
        self.returns = returns

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Replaces return distributions with Q values [envs, num_actions]."""
        return self.returns.means(outputs)


def midpoints(number: int) -> Floats:
    """Returns the midpoints [K] of K equal parts of the interval from 0 to 1."""
    return (np.arange(number, dtype=np.float32) + np.float32(0.5)) / np.float32(number)


def waves(fractions: Floats, number: int) -> Floats:
    """Cosines cos(pi i tau) of fractions tau [..., K] for i from 0 to C - 1, [..., K, C]."""
    cosines: Floats = np.cos(fractions[..., None] * (np.float32(np.pi) * np.arange(number, dtype=np.float32)))
    return cosines


class MeanQuantiles(TransformedOutputs):
    """Network for action selection in IQN, which outputs Q values: means of quantiles at K fixed midpoints.

    Args:
        network: Inner network, whose head `outputs` gives the features of the observation, [B, D].
        returns: Representation of returns: numbers of quantiles and cosines.
        activation: Activation of features and hidden layer.
        slots: Slices of the decoder's parameters in the loaded vector, by name.
    """

    def __init__(
        self, network: ActingNetwork, returns: ReturnModel, activation: Activation, slots: Mapping[str, ParameterSlot]
    ) -> None:
        super().__init__(network)
        self.slots = dict(slots)
        self.activation = activation
        self._waves = waves(midpoints(returns.acting_quantiles), returns.num_cosines)

    @override
    def load(self, flat: Floats) -> None:
        """Loads the flat vector of parameters, and computes the embeddings of the K fractions, [K, num_features]."""
        super().load(flat)

        def parameter(name: str) -> Floats:
            slot = self.slots[name]
            return flat[slot.offset : slot.offset + slot.size].reshape(slot.shape)

        embedded = self._waves @ parameter("embedding.weight").T + parameter("embedding.bias")
        self._embedded = np.maximum(embedded, 0)
        self._hidden = parameter("hidden.weight").T.copy(), parameter("hidden.bias").copy()
        self._output = parameter("output.weight").T.copy(), parameter("output.bias").copy()

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Q values [envs, num_actions] as means of quantiles; the mean is folded into the linear output layer."""
        activate = ACTIVATIONS[self.activation]
        products = activate(outputs.copy())[:, None] * self._embedded
        weight, bias = self._hidden
        hidden = activate(products.reshape(-1, products.shape[-1]) @ weight + bias)
        means = hidden.reshape(len(outputs), -1, hidden.shape[-1]).mean(1)
        values: Floats = means @ self._output[0] + self._output[1]
        return values
