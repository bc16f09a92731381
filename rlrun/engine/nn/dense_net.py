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
"""Constant added to the variance before the square root in LayerNorm."""


BATCH_NORM_EPSILON = 1e-3
"""Constant added to the variance before the square root in batch normalization and renormalization."""


RMS_EPSILON = 1e-6
"""Constant added to the mean square before the square root in RMSNorm."""


def layer_norm(x: Floats, scale: Floats, shift: Floats) -> Floats:
    """LayerNorm of rows [B, D] with learned scale and shift [D], in place (Ba et al., arXiv:1607.06450, eq. 4)."""
    x -= x.mean(-1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(NORMALIZATION_EPSILON))
    x *= scale
    x += shift
    return x


def rms_norm(x: Floats, scale: Floats) -> Floats:
    """RMSNorm of rows [B, D] with a learned scale [D], in place (Zhang and Sennrich, arXiv:1910.07467, eq. 4)."""
    x /= np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(RMS_EPSILON))
    x *= scale
    return x


class DenseNet:
    """Multi-layer perceptron in NumPy, with parameters loaded from a flat vector.

    Args:
        layers: Pair (name, activation) of each layer, first to last; an activation of None is the identity.
        normalization: Normalization before each activation; None if there is none.
        renormalizes: Whether each layer's inputs are normalized by running mean and variance (batch renormalization).
        batch_norm: Whether the first layer's inputs and each layer's outputs are normalized by running mean and
            variance (batch normalization).
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, Activation | None]],
        normalization: Normalization | None = None,
        *,
        renormalizes: bool = False,
        batch_norm: bool = False,
    ) -> None:
        self.layers = tuple(layers)
        self.normalization = normalization
        self._layers = [
            _Layer(
                name,
                activation,
                normalization,
                renormalizes=renormalizes,
                input_norm=batch_norm and i == 0,
                output_norm=batch_norm,
            )
            for i, (name, activation) in enumerate(layers)
        ]

    def load(self, parameter: Callable[[str], Floats]) -> None:
        """Loads weights and biases by name; each call overwrites the same arrays.

        Weights are stored transposed and contiguous, which speeds up the small matrix products needed for acting.

        Args:
            parameter: Function that returns the array of a parameter, given its name.
        """
        for layer in self._layers:
            layer.load(parameter)

    def parameters(self) -> list[tuple[str, Floats]]:
        """Returns the name and array of each (transposed) weight and bias; only for networks without normalization."""
        layers = [(layer.name, layer.weight, layer.bias) for layer in self._layers]
        return [pair for name, w, b in layers for pair in ((f"{name}.weight", w), (f"{name}.bias", b))]

    def __call__(self, x: Floats) -> Floats:
        """Runs the forward pass from inputs [B, D] to outputs [B, K]."""
        for layer in self._layers:
            x = layer(x)
        return x


class ResidualNet:
    """Linear layer, residual blocks and a final LayerNorm in NumPy, for acting.

    The torch version of these layers, for learning, is in `rlrun.engine.nn.extended_network_module`.

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
        """Runs the forward pass from inputs [B, D] to features [B, K]."""
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


class InvertedResidualNet:
    """Linear layer, residual blocks with batch normalization and a final RMSNorm in NumPy, for acting.

    The torch version of these layers, for learning, is in `rlrun.engine.nn.extended_network_module`.

    Args:
        name: Common prefix of the layers' parameter names.
        blocks: Number of residual blocks.
        activation: Activation within the blocks.
    """

    def __init__(self, name: str, blocks: int, activation: Activation) -> None:
        self._first = _Layer(f"{name}.0", input_norm=True)
        self._blocks = [
            tuple(_Layer(f"{name}.{i + 1}.{part}", activation, output_norm=True) for part in ("first", "second"))
            for i in range(blocks)
        ]
        self._last, self._scale = f"{name}.{blocks + 1}.weight", np.zeros(0, np.float32)

    def load(self, parameter: Callable[[str], Floats]) -> None:
        """Loads weights and biases by name; each call overwrites the same arrays.

        Args:
            parameter: Function that returns the array of a parameter, given its name.
        """
        for layer in (self._first, *(layer for block in self._blocks for layer in block)):
            layer.load(parameter)
        self._scale = in_memory(self._scale, parameter(self._last))

    def __call__(self, x: Floats) -> Floats:
        """Runs the forward pass from inputs [B, D] to features [B, K]."""
        x = self._first(x)
        for first, second in self._blocks:
            x = x + second(first(x))
        return rms_norm(x, self._scale)


class _Layer:
    """Dense layer with its parameters; only layers with an activation have a LayerNorm.

    Normalization by running statistics is constant until the next `load`, so weights and biases include it. With batch
    normalization of inputs or outputs, the layer has no other bias.
    """

    def __init__(
        self,
        name: str,
        activation: Activation | None = None,
        normalization: Normalization | None = None,
        *,
        renormalizes: bool = False,
        input_norm: bool = False,
        output_norm: bool = False,
    ) -> None:
        self.name = name
        self.input_norm = "norm" if renormalizes else "input_norm" if input_norm else None
        self.output_norm = "norm" if output_norm else None
        self.has_bias = not (input_norm or output_norm)
        self.activation = None if activation is None else ACTIVATIONS[activation]
        self.normalizes = normalization is not None and activation is not None
        self.weight = self.bias = self.scale = self.shift = np.zeros((0, 0), np.float32)

    def load(self, parameter: Callable[[str], Floats]) -> None:
        weight = parameter(f"{self.name}.weight").T
        bias = parameter(f"{self.name}.bias") if self.has_bias else np.zeros(weight.shape[1], np.float32)
        if self.input_norm is not None:
            scale, shift = _running_norm(f"{self.name}.{self.input_norm}", parameter)
            weight, bias = weight * scale[:, None], bias + shift @ weight
        if self.output_norm is not None:
            scale, shift = _running_norm(f"{self.name}.{self.output_norm}", parameter)
            weight, bias = weight * scale, bias * scale + shift
        self.weight = in_memory(self.weight, weight)
        self.bias = in_memory(self.bias, bias)
        if self.normalizes:
            self.scale = in_memory(self.scale, parameter(f"{self.name}.norm.weight"))
            self.shift = in_memory(self.shift, parameter(f"{self.name}.norm.bias"))

    def __call__(self, x: Floats) -> Floats:
        x = x @ self.weight
        x += self.bias
        if self.normalizes:
            x = layer_norm(x, self.scale, self.shift)
        return x if self.activation is None else self.activation(x)


def _running_norm(name: str, parameter: Callable[[str], Floats]) -> tuple[Floats, Floats]:
    """Returns factor and offset of each feature in batch normalization by running statistics."""
    scale = parameter(f"{name}.weight") / np.sqrt(parameter(f"{name}.variance") + np.float32(BATCH_NORM_EPSILON))
    return scale, parameter(f"{name}.bias") - parameter(f"{name}.mean") * scale


def in_memory(array: Floats, numbers: Floats) -> Floats:
    """Copies numbers into an existing array, whose memory other objects share, and returns the array.

    If the shapes differ, returns a new array instead.
    """
    if array.shape != numbers.shape:
        return numbers.copy("C")
    array[...] = numbers
    return array
