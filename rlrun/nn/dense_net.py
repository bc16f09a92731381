"""A NumPy mirror of dense torch layers, for acting: five to ten times cheaper per small call than torch itself.

It is plain data (offsets into the flat parameter vector), so it is made once from the torch module by
`rlrun.policy.flat_parameters` and travels to workers that never import torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

VARIANCE_FLOOR = 1e-6
"""What is added to a variance that depends on features, all of which may be 0."""


def tanh(x: Floats) -> Floats:
    """Applies tanh in place."""
    np.tanh(x, out=x)
    return x


def relu(x: Floats) -> Floats:
    """Applies max(x, 0) in place."""
    np.maximum(x, 0, out=x)
    return x


def elu(x: Floats) -> Floats:
    """Applies x if positive, exp(x) - 1 otherwise."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def silu(x: Floats) -> Floats:
    """Applies x * sigmoid(x)."""
    activated: Floats = x / (1 + np.exp(-x))
    return activated


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {"Tanh": tanh, "ReLU": relu, "ELU": elu, "SiLU": silu}


@dataclass(frozen=True)
class DenseLayer:
    """Where one layer's parameters lie in the flat vector, and what follows it.

    Attributes:
        weight: Offset of the weights [outputs, inputs].
        bias: Offset of the biases [outputs].
        shape: (outputs, inputs).
        activation: Name of the torch activation, "" for none.
    """

    weight: int
    bias: int
    shape: tuple[int, int]
    activation: str


class DenseNet:
    """Dense layers over views of a flat parameter vector."""

    def __init__(self, layers: Sequence[DenseLayer]) -> None:
        """Takes the layers, first to last."""
        self.layers = tuple(layers)
        self._parts: list[tuple[Floats, Floats, Callable[[Floats], Floats] | None]] = []

    def load(self, flat: Floats) -> None:
        """Takes new parameters.

        Weights are stored transposed and contiguous: the small matrix products of acting run faster on them.
        """
        self._parts = [
            (
                np.ascontiguousarray(flat[layer.weight : layer.weight + math.prod(layer.shape)].reshape(layer.shape).T),
                flat[layer.bias : layer.bias + layer.shape[0]],
                ACTIVATIONS[layer.activation] if layer.activation else None,
            )
            for layer in self.layers
        ]

    def __call__(self, x: Floats) -> Floats:
        """Maps inputs [B, D] to outputs [B, K]."""
        for weight, bias, activation in self._parts:
            x = x @ weight
            x += bias
            if activation is not None:
                x = activation(x)
        return x

    def __getstate__(self) -> dict[str, object]:
        """Leaves the parameters out: they arrive by a broadcast."""
        return {"layers": self.layers, "_parts": []}
