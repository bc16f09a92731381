"""Population of networks with one architecture, each acting in one of several parallel envs (NumPy)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import map_tree
from rlrun.engine.nn.acting import ActingNetwork, Floats, Heads
from rlrun.engine.nn.dense_net import ACTIVATIONS
from rlrun.engine.nn.model_config import Activation
from rlrun.engine.nn.numpy_network import NumpyNetwork
from rlrun.engine.nn.observation_leaves import dense_inputs


class PopulationNetwork:
    """Population of inference networks, in which network b processes row b of the inputs.

    Networks that consist of dense layers run as one batched product per layer; other networks run one by one.

    Args:
        network: Template for all networks; the template's parameters are ignored.
        size: N, the number of networks.

    Attributes:
        state_size: Size of each network's recurrent state.
    """

    def __init__(self, network: ActingNetwork, size: int) -> None:
        self.size = size
        self.state_size = network.state_size
        plain = network.plain_layers if isinstance(network, NumpyNetwork) else None
        self._dense: _DenseNetworks | None = None
        self._single: list[ActingNetwork] = []
        if isinstance(network, NumpyNetwork) and plain is not None:
            self._dense = _DenseNetworks(network, *plain, size)
        else:
            self._single = [copy.deepcopy(network) for _ in range(size)]

    def load(self, flat: Floats) -> None:
        """Loads one flat parameter vector into all networks of the population."""
        for which in range(self.size):
            self.load_one(which, flat)

    def load_one(self, which: int, flat: Floats) -> None:
        """Loads a flat parameter vector into one network of the population."""
        if self._dense is None:
            self._single[which].load(flat)
        else:
            self._dense.load_one(which, flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Forward pass of one env step of every network; see `ActingNetwork`, with B = N."""
        if self._dense is not None:
            return self._dense(inputs["obs"]), None
        found = [
            network(
                map_tree(lambda leaf, row=row: leaf[row : row + 1], dict(inputs)),
                None if state is None else state[row : row + 1],
                None if episode_starts is None else episode_starts[row : row + 1],
                None if noise is None else noise[row : row + 1],
            )
            for row, network in enumerate(self._single)
        ]
        heads = {name: np.concatenate([own[name] for own, _ in found]) for name in found[0][0]}
        after = [own for _, own in found if own is not None]
        return heads, np.concatenate(after) if after else None


class _DenseNetworks:
    """Population of MLPs with stacked weights, evaluated by batched matrix products."""

    def __init__(
        self, network: NumpyNetwork, head: str, layers: Sequence[tuple[str, Activation | None]], size: int
    ) -> None:
        self._leaves, self._head = network.spec.leaves, head
        slots = network.slots
        self._layers = [
            (slots[f"{name}.weight"], slots[f"{name}.bias"], None if activation is None else ACTIVATIONS[activation])
            for name, activation in layers
        ]
        self._weights = [np.zeros((size, *weight.shape), np.float32) for weight, _, _ in self._layers]
        self._biases = [np.zeros((size, bias.size), np.float32) for _, bias, _ in self._layers]

    def load_one(self, which: int, flat: Floats) -> None:
        for (weight, bias, _), weights, biases in zip(self._layers, self._weights, self._biases, strict=True):
            weights[which] = flat[weight.offset : weight.offset + weight.size].reshape(weight.shape)
            biases[which] = flat[bias.offset : bias.offset + bias.size]

    def __call__(self, observations: Any) -> Heads:
        x = dense_inputs(self._leaves, observations)
        for (_, _, activation), weights, biases in zip(self._layers, self._weights, self._biases, strict=True):
            x = np.matmul(weights, x[:, :, None])[:, :, 0]
            x += biases
            if activation is not None:
                x = activation(x)
        return {self._head: x}
