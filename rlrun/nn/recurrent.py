"""An LSTM acting one step at a time, in NumPy; the mirror of `rlrun.nn.recurrent_q_net`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LstmLayer:
    """Where an LSTM's parameters lie in the flat vector.

    Attributes:
        inputs: Offset of the weights of its inputs, [4 H, D].
        bias: Offset of the biases, [4 H].
        memory: Offset of the weights of what it put out before, [4 H, H].
        shape: (H, D).
    """

    inputs: int
    bias: int
    memory: int
    shape: tuple[int, int]


class Lstm:
    """An LSTM over views of a flat parameter vector.

    The gates lie side by side in torch's order: input, forget, candidate, output. What it remembers is one array
    [B, 2 H]: what it put out last, and its cells.
    """

    def __init__(self, layer: LstmLayer) -> None:
        """Takes where the parameters lie."""
        self.layer = layer
        self._weights: Floats = np.zeros((0, 0), np.float32)
        self._bias: Floats = np.zeros(0, np.float32)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        width, inputs = self.layer.shape
        parts = [
            flat[offset : offset + math.prod(shape)].reshape(shape).T
            for offset, shape in ((self.layer.inputs, (4 * width, inputs)), (self.layer.memory, (4 * width, width)))
        ]
        # One product of inputs and outputs side by side costs half of two.
        self._weights = np.ascontiguousarray(np.concatenate(parts))
        self._bias = flat[self.layer.bias : self.layer.bias + 4 * width].copy()
        # sigmoid(x) = (1 + tanh(x / 2)) / 2, so that one tanh serves all four gates; the halves are put in here.
        for gate in (0, 1, 3):
            own = slice(gate * width, (gate + 1) * width)
            self._weights[:, own] *= 0.5
            self._bias[own] *= 0.5

    def __call__(self, inputs: Floats, memory: Floats) -> Floats:
        """Returns what is remembered after inputs [B, D], [B, 2 H]; the first H numbers are the outputs."""
        width = self.layer.shape[0]
        gates = np.concatenate([inputs, memory[:, :width]], -1) @ self._weights
        gates += self._bias
        np.tanh(gates, out=gates)
        after = np.empty_like(memory)
        cells = after[:, width:]
        np.multiply(gates[:, width : 2 * width] + 1, memory[:, width:], out=cells)
        cells += (gates[:, :width] + 1) * gates[:, 2 * width : 3 * width]
        cells *= 0.5
        np.tanh(cells, out=after[:, :width])
        after[:, :width] *= 0.5 * (gates[:, 3 * width :] + 1)
        return after

    def __getstate__(self) -> dict[str, object]:
        """Leaves the parameters out: they arrive by a broadcast."""
        return {"layer": self.layer, "_weights": np.zeros((0, 0), np.float32), "_bias": np.zeros(0, np.float32)}
