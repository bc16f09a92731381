"""MLP forward pass in NumPy, for acting: five to ten times faster than torch for small batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rlrun.nn.model_config import Activation, Normalization

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


NORMALIZATION_EPSILON = 1e-5
"""Added to the variance before the square root in LayerNorm."""


def layer_norm(x: Floats, scale: Floats, shift: Floats) -> Floats:
    """LayerNorm of rows [B, D] with learned scale and shift [D], in place (Ba et al., arXiv:1607.06450, eq. 4)."""
    x -= x.mean(-1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(NORMALIZATION_EPSILON))
    x *= scale
    x += shift
    return x


class DenseNet:
    """MLP in NumPy with parameters loaded from a flat vector.

    Args:
        layers: (name, activation) of each layer, first to last; None for no activation.
        normalization: Normalisation before each activation; None for none.
    """

    def __init__(
        self, layers: Sequence[tuple[str, Activation | None]], normalization: Normalization | None = None
    ) -> None:
        self.layers = tuple(layers)
        self.normalization = normalization
        self._parts: list[tuple[Floats, Floats, Callable[[Floats], Floats] | None]] = []

    def load(self, parameter: Callable[[str], Floats]) -> None:
        """Loads weights and biases by name.

        Weights are stored transposed and contiguous: the small matrix products of acting run faster on them.

        Args:
            parameter: Function from a parameter's name to the array.
        """
        self._parts = [
            (
                np.ascontiguousarray(parameter(f"{name}.weight").T),
                parameter(f"{name}.bias"),
                None if activation is None else self._activation(name, activation, parameter),
            )
            for name, activation in self.layers
        ]

    def _activation(
        self, name: str, activation: Activation, parameter: Callable[[str], Floats]
    ) -> Callable[[Floats], Floats]:
        """Activation of a layer, after its normalisation if there is one."""
        activated = ACTIVATIONS[activation]
        if self.normalization is None:
            return activated
        scale, shift = parameter(f"{name}.norm.weight"), parameter(f"{name}.norm.bias")
        return lambda x: activated(layer_norm(x, scale, shift))

    def __call__(self, x: Floats) -> Floats:
        """Forward pass from inputs [B, D] to outputs [B, K]."""
        for weight, bias, activation in self._parts:
            x = x @ weight
            x += bias
            if activation is not None:
                x = activation(x)
        return x
