"""MLP forward pass in NumPy, for acting: five to ten times faster than torch for small batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rlrun.nn.model_config import Activation

Floats = NDArray[np.float32]


def tanh(x: Floats) -> Floats:
    """Tanh activation, in place."""
    np.tanh(x, out=x)
    return x


def relu(x: Floats) -> Floats:
    """ReLU activation, in place."""
    np.maximum(x, 0, out=x)
    return x


def elu(x: Floats) -> Floats:
    """ELU activation: x if positive, else exp(x) - 1."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def silu(x: Floats) -> Floats:
    """SiLU activation: x * sigmoid(x)."""
    activated: Floats = x / (1 + np.exp(-x))
    return activated


ACTIVATIONS: dict[Activation, Callable[[Floats], Floats]] = {"tanh": tanh, "relu": relu, "elu": elu, "silu": silu}


class DenseNet:
    """MLP in NumPy with parameters loaded from a flat vector.

    Args:
        layers: (name, activation) of each layer, first to last; None for no activation.
    """

    def __init__(self, layers: Sequence[tuple[str, Activation | None]]) -> None:
        self.layers = tuple(layers)
        unloaded: Floats = np.zeros((0, 0), np.float32)
        self._parts: list[tuple[Floats, Floats, Callable[[Floats], Floats] | None]] = [
            (unloaded, unloaded, None if activation is None else ACTIVATIONS[activation]) for _, activation in layers
        ]

    def load(self, parameter: Callable[[str], Floats]) -> None:
        """Loads weights and biases by name, into the same memory each time.

        Weights are stored transposed and contiguous: the small matrix products of acting run faster on them.

        Args:
            parameter: Function from a parameter's name to the array.
        """
        self._parts = [
            (in_memory(weight, parameter(f"{name}.weight").T), in_memory(bias, parameter(f"{name}.bias")), activation)
            for (name, _), (weight, bias, activation) in zip(self.layers, self._parts, strict=True)
        ]

    def __call__(self, x: Floats) -> Floats:
        """Forward pass from inputs [B, D] to outputs [B, K]."""
        for weight, bias, activation in self._parts:
            x = x @ weight
            x += bias
            if activation is not None:
                x = activation(x)
        return x


def in_memory(array: Floats, numbers: Floats) -> Floats:
    """Copies numbers into an array, so that who reads its memory finds them; into a new one for another shape."""
    if array.shape != numbers.shape:
        return numbers.copy("C")
    array[...] = numbers
    return array
