"""Network modules with batch normalization, residual blocks or dropout (torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from rlrun.engine.nn.batch_norm import BatchNormLinear, RenormalizedLinear
from rlrun.engine.nn.dense_net import NORMALIZATION_EPSILON, RMS_EPSILON
from rlrun.engine.nn.encoders import ACTIVATIONS, NormalizedLinear, mlp
from rlrun.engine.nn.model_config import Activation
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.nn.network_spec import KEPT_UNITS


class ExtendedNetworkModule(NetworkModule):
    """Torch network whose dense layers may have batch (re)normalization, residual blocks or dropout.

    Dropout in the hidden layers of a feed-forward network takes its random mask as an additional input, `KEPT_UNITS`
    [S, L, sum of the hidden widths], for S sequences of L steps: 0 for dropped units.
    """

    @override
    def _linear(self, inputs: int, outputs: int) -> nn.Linear:
        return RenormalizedLinear(inputs, outputs) if self.spec.renormalizes else super()._linear(inputs, outputs)

    @override
    def _mlp(self, inputs: int, hiddens: Sequence[int]) -> nn.Sequential:
        spec = self.spec
        if spec.residual and hiddens:
            make = inverted_residual_layers if spec.batch_norm else residual_layers
            return make(inputs, hiddens[-1], len(hiddens), spec.activation)
        if spec.batch_norm and hiddens:
            return batch_norm_layers(inputs, hiddens, spec.activation)
        return mlp(inputs, hiddens, spec.activation, self._linear if spec.renormalizes else spec.normalization)

    @override
    def _features(self, trunk: nn.Sequential, x: Tensor, inputs: Mapping[str, Any]) -> Tensor:
        kept = inputs.get(KEPT_UNITS)
        return super()._features(trunk, x, inputs) if kept is None else with_dropout(trunk, x, kept.flatten(0, 1))


def with_dropout(layers: nn.Sequential, x: Tensor, kept: Tensor) -> Tensor:
    """Runs dense layers with dropout, which zeroes units after each linear map, before its activation.

    Args:
        layers: Linear layers with normalization and activations, from `rlrun.engine.nn.encoders.mlp`.
        x: Inputs, [N, D].
        kept: Factor by which each linear layer's outputs are multiplied, 0 for dropped units, [N, sum of widths].

    Source:
        Hiraoka et al., "Dropout Q-functions for doubly efficient reinforcement learning", arXiv:2110.02034, figure 1.
    """
    widths = [layer.out_features for layer in layers if isinstance(layer, nn.Linear)]
    factors = iter(torch.split(kept, widths, -1))
    for layer in layers:
        if isinstance(layer, NormalizedLinear):
            x = layer.norm(F.linear(x, layer.weight, layer.bias) * next(factors))
        elif isinstance(layer, nn.Linear):
            x = layer(x) * next(factors)
        else:
            x = layer(x)
    return x


EXPANSION = 4
"""Width of a residual block's inner layer, as a multiple of the block's width."""


class DenseBlock(nn.Module):
    """Residual block: passes LayerNorm(x) through two dense layers, and adds the result to x.

    The inner layer is four times as wide as the block.

    Args:
        width: Number of features, H.
        activation: Activation after the inner layer.

    Source:
        Lee et al., "SimBa: simplicity bias for scaling up parameters in deep RL", arXiv:2410.09754, eq. 4.
    """

    def __init__(self, width: int, activation: Activation) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=NORMALIZATION_EPSILON)
        self.first = nn.Linear(width, EXPANSION * width)
        self.activation = ACTIVATIONS[activation]()
        self.second = nn.Linear(EXPANSION * width, width)

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Adds the output of the two dense layers to N feature vectors [N, H]."""
        added: Tensor = x + self.second(self.activation(self.first(self.norm(x))))
        return added


def residual_layers(inputs: int, width: int, blocks: int, activation: Activation) -> nn.Sequential:
    """Creates a linear layer, followed by residual blocks and a final LayerNorm."""
    last = nn.LayerNorm(width, eps=NORMALIZATION_EPSILON)
    return nn.Sequential(nn.Linear(inputs, width), *(DenseBlock(width, activation) for _ in range(blocks)), last)


class InvertedBlock(nn.Module):
    """Inverted residual block: passes x through two batch-normalized dense layers, and adds the result to x.

    The inner layer is four times as wide as the block.

    Args:
        width: Number of features, H.
        activation: Activation after each of the two layers.

    Source:
        FlashSAC, arXiv:2604.04539.
    """

    def __init__(self, width: int, activation: Activation) -> None:
        super().__init__()
        self.first = BatchNormLinear(width, EXPANSION * width)
        self.second = BatchNormLinear(EXPANSION * width, width)
        self.activation = ACTIVATIONS[activation]()

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Adds the output of the two dense layers to N feature vectors [N, H]."""
        added: Tensor = x + self.activation(self.second(self.activation(self.first(x))))
        return added


class RMSNorm(nn.Module):
    """RMS normalization: divides features by their root mean square, and multiplies them by a learned scale.

    Args:
        width: Number of features, H.

    Source:
        Zhang and Sennrich, "Root mean square layer normalization", arXiv:1910.07467, eq. 4.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Normalizes N feature vectors [N, H]."""
        return x / (x.square().mean(-1, keepdim=True) + RMS_EPSILON).sqrt() * self.weight


def inverted_residual_layers(inputs: int, width: int, blocks: int, activation: Activation) -> nn.Sequential:
    """Creates a linear layer with batch-normalized inputs, followed by inverted residual blocks and a final RMSNorm."""
    first = BatchNormLinear(inputs, width, of_inputs=True, of_outputs=False)
    return nn.Sequential(first, *(InvertedBlock(width, activation) for _ in range(blocks)), RMSNorm(width))


def batch_norm_layers(inputs: int, hiddens: Sequence[int], activation: Activation) -> nn.Sequential:
    """Creates a multi-layer perceptron with batch normalization of its inputs and of each activation's inputs."""
    first, *others = hiddens
    layers = BatchNormLinear(inputs, first, of_inputs=True), ACTIVATIONS[activation]()
    return nn.Sequential(*layers, *mlp(first, others, activation, BatchNormLinear))
