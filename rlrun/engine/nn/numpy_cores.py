"""LSTM and GRU cells in NumPy, for acting; equivalent to the cells in `rlrun.engine.nn.torch_cores`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.nn.dense_net import in_memory

Floats = NDArray[np.float32]


class Lstm:
    """LSTM cell in NumPy, with gates in torch's order: input, forget, candidate, output.

    The recurrent state of B env slots, [B, 2 H], concatenates hidden state and memory cells.

    Args:
        width: Number of features, H.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._weights: Floats = np.zeros((0, 0), np.float32)
        self._bias: Floats = np.zeros(0, np.float32)

    def load(self, inputs: Floats, bias: Floats, hidden: Floats) -> None:
        """Loads input weights [4 H, D], biases [4 H] and hidden-state weights [4 H, H], for D inputs and width H."""
        # One product with concatenated inputs and hidden state takes half the time of two.
        self._weights = in_memory(self._weights, np.concatenate([inputs.T, hidden.T]))
        self._bias = in_memory(self._bias, bias)
        # sigmoid(x) = (1 + tanh(x / 2)) / 2, so one tanh serves all four gates; the weights include the factor 1 / 2.
        for gate in (0, 1, 3):
            own = slice(gate * self.width, (gate + 1) * self.width)
            self._weights[:, own] *= 0.5
            self._bias[own] *= 0.5

    def __call__(self, inputs: Floats, state: Floats) -> Floats:
        """Runs one LSTM step on inputs [B, D]; returns the state [B, 2 H], whose first H features are the outputs."""
        width = self.width
        gates = np.concatenate([inputs, state[:, :width]], -1) @ self._weights
        gates += self._bias
        np.tanh(gates, out=gates)
        after = np.empty_like(state)
        cells = after[:, width:]
        np.multiply(gates[:, width : 2 * width] + 1, state[:, width:], out=cells)
        cells += (gates[:, :width] + 1) * gates[:, 2 * width : 3 * width]
        cells *= 0.5
        np.tanh(cells, out=after[:, :width])
        after[:, :width] *= 0.5 * (gates[:, 3 * width :] + 1)
        return after


class Gru:
    """GRU cell in NumPy, with gates in torch's order: reset, update, candidate.

    The recurrent state of B env slots is the hidden state, [B, H].

    Args:
        width: Number of features, H.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._inputs: Floats = np.zeros((0, 0), np.float32)
        self._bias: Floats = np.zeros(0, np.float32)
        self._hidden: Floats = np.zeros((0, 0), np.float32)

    def load(self, inputs: Floats, bias: Floats, hidden: Floats) -> None:
        """Loads input weights [3 H, D], biases [3 H] and hidden-state weights [3 H, H], for D inputs and width H."""
        self._inputs, self._hidden = in_memory(self._inputs, inputs.T), in_memory(self._hidden, hidden.T)
        self._bias = in_memory(self._bias, bias)
        # sigmoid(x) = (1 + tanh(x / 2)) / 2, as in `Lstm`.
        for part in (self._inputs, self._hidden, self._bias):
            part[..., : 2 * self.width] *= 0.5

    def __call__(self, inputs: Floats, state: Floats) -> Floats:
        """Runs one GRU step on inputs [B, D]; returns the new hidden state, [B, H], which is also the output."""
        width = self.width
        of_inputs, of_hidden = inputs @ self._inputs, state @ self._hidden
        of_inputs += self._bias
        gates = np.tanh(of_inputs[:, : 2 * width] + of_hidden[:, : 2 * width])
        gates += 1
        gates *= 0.5
        candidate = np.tanh(of_inputs[:, 2 * width :] + gates[:, :width] * of_hidden[:, 2 * width :])
        after: Floats = candidate + gates[:, width:] * (state - candidate)
        return after
