"""MLP forward pass in NumPy, for acting: five to ten times faster than torch for small batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.nn.model_config import Activation, Normalization

Floats = NDArray[np.float32]


def tanh(x: Floats) -> Floats:
    """Applies the tanh activation to an array, in place."""
    np.tanh(x, out=x)
    return x


def relu(x: Floats) -> Floats:
    """Applies the ReLU activation to an array, in place."""
    np.maximum(x, 0, out=x)
    return x


def elu(x: Floats) -> Floats:
    """Applies the ELU activation: x if positive, else exp(x) - 1."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def silu(x: Floats) -> Floats:
    """Applies the SiLU activation: x * sigmoid(x)."""
    activated: Floats = x / (1 + np.exp(-x))
    return activated


ACTIVATIONS: dict[Activation, Callable[[Floats], Floats]] = {"tanh": tanh, "relu": relu, "elu": elu, "silu": silu}


NORMALIZATION_EPSILON = 1e-5
"""Added to the variance before the square root in LayerNorm."""


RENORM_EPSILON = 1e-3
"""Added to the variance before the square root in batch renormalization."""


def layer_norm(x: Floats, scale: Floats, shift: Floats) -> Floats:
    """LayerNorm of rows [B, D] with learned scale and shift [D], in place (Ba et al., arXiv:1607.06450, eq. 4)."""
    x -= x.mean(-1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(NORMALIZATION_EPSILON))
    x *= scale
    x += shift
    return x


class DenseNet:
    """Multi-layer perceptron in NumPy, with parameters loaded from a flat vector.

    Args:
        layers: Pair (name, activation) of each layer, first to last; an activation of None is the identity.
        normalization: Normalization before each activation; None for none.
        renormalizes: Whether each layer's inputs are normalized by running mean and variance (batch renormalization).
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, Activation | None]],
        normalization: Normalization | None = None,
        *,
        renormalizes: bool = False,
    ) -> None:
        self.layers = tuple(layers)
        self.normalization = normalization
        self._layers = [_Layer(name, activation, normalization, renormalizes) for name, activation in layers]

    def load(self, parameter: Callable[[str], Floats]) -> None:
        """Loads weights and biases by name; each call overwrites the same arrays.

        Weights are stored transposed and contiguous: the small matrix products of acting run faster on them.

        Args:
            parameter: Function that returns the array of a parameter, given its name.
        """
        for layer in self._layers:
            layer.load(parameter)

    def __call__(self, x: Floats) -> Floats:
        """Forward pass from inputs [B, D] to outputs [B, K]."""
        for layer in self._layers:
            x = x @ layer.weight
            x += layer.bias
            if layer.normalizes:
                x = layer_norm(x, layer.scale, layer.shift)
            if layer.activation is not None:
                x = layer.activation(x)
        return x


class ResidualNet:
    """Linear layer, residual blocks and a final LayerNorm in NumPy, for acting.

    The same layers for learning in torch are in `rlrun.engine.nn.extended_network_module`.

    Args:
        name: Common prefix of the layers' parameter names.
        blocks: Number of residual blocks.
        activation: Activation within the blocks.
    """

    def __init__(self, name: str, blocks: int, activation: Activation) -> None:
        self._name, self._activation = name, ACTIVATIONS[activation]
        self._blocks = [f"{name}.{i + 1}" for i in range(blocks)]
        self._arrays: dict[str, Floats] = {}

    def load(self, parameter: Callable[[str], Floats]) -> None:
        """Loads weights and biases by name; each call overwrites the same arrays.

        Args:
            parameter: Function that returns the array of a parameter, given its name.
        """
        dense = [f"{self._name}.0", *(f"{block}.{part}" for block in self._blocks for part in ("first", "second"))]
        norms = [*(f"{block}.norm" for block in self._blocks), f"{self._name}.{len(self._blocks) + 1}"]
        for layer in (*dense, *norms):
            for part in (f"{layer}.weight", f"{layer}.bias"):
                known = self._arrays.get(part, np.zeros((0, 0), np.float32))
                self._arrays[part] = in_memory(known, parameter(part).T)

    def __call__(self, x: Floats) -> Floats:
        """Forward pass from inputs [B, D] to features [B, K]."""
        x = self._dense(f"{self._name}.0", x)
        for block in self._blocks:
            inner = self._activation(self._dense(f"{block}.first", self._norm(f"{block}.norm", x)))
            x = x + self._dense(f"{block}.second", inner)
        return self._norm(f"{self._name}.{len(self._blocks) + 1}", x)

    def _dense(self, name: str, x: Floats) -> Floats:
        outputs: Floats = x @ self._arrays[f"{name}.weight"]
        outputs += self._arrays[f"{name}.bias"]
        return outputs

    def _norm(self, name: str, x: Floats) -> Floats:
        return layer_norm(x * np.float32(1), self._arrays[f"{name}.weight"], self._arrays[f"{name}.bias"])


class _Layer:
    """Parameters of a dense layer; only layers with an activation are normalized."""

    def __init__(
        self, name: str, activation: Activation | None, normalization: Normalization | None, renormalizes: bool
    ) -> None:
        self.name = name
        self.renormalizes = renormalizes
        self.activation = None if activation is None else ACTIVATIONS[activation]
        self.normalizes = normalization is not None and activation is not None
        self.weight = self.bias = self.scale = self.shift = np.zeros((0, 0), np.float32)

    def load(self, parameter: Callable[[str], Floats]) -> None:
        weight, bias = parameter(f"{self.name}.weight").T, parameter(f"{self.name}.bias")
        if self.renormalizes:
            # Constants until the next load: the layer takes them in.
            scale = parameter(f"{self.name}.norm.weight") / np.sqrt(
                parameter(f"{self.name}.norm.variance") + np.float32(RENORM_EPSILON)
            )
            shift = parameter(f"{self.name}.norm.bias") - parameter(f"{self.name}.norm.mean") * scale
            weight, bias = weight * scale[:, None], bias + shift @ weight
        self.weight = in_memory(self.weight, weight)
        self.bias = in_memory(self.bias, bias)
        if self.normalizes:
            self.scale = in_memory(self.scale, parameter(f"{self.name}.norm.weight"))
            self.shift = in_memory(self.shift, parameter(f"{self.name}.norm.bias"))


def in_memory(array: Floats, numbers: Floats) -> Floats:
    """Copies numbers into an existing array, whose memory other objects also use, and returns the array.

    If the shapes differ, returns a new array instead.
    """
    if array.shape != numbers.shape:
        return numbers.copy("C")
    array[...] = numbers
    return array
