"""NoisyNet: dense layers whose parameters have learned noise, redrawn for each forward pass (torch)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.torch_network import WrappedModule


@dataclass(frozen=True)
class NoisyLayer:
    """Parameter names and sizes of a noisy dense layer, whose weights have learned standard deviations.

    Attributes:
        weight: Name of the weights [outputs, inputs] in the module.
        bias: Name of the biases [outputs], "" without biases.
        weight_sigma: Name of the weights' standard deviations.
        bias_sigma: Name of the biases' standard deviations.
        inputs: Number of input features.
        outputs: Number of output features.
    """

    weight: str
    bias: str
    weight_sigma: str
    bias_sigma: str
    inputs: int
    outputs: int


class NoisyNet(WrappedModule):
    """Adds factorized Gaussian noise to the parameters of a network's dense layers (NoisyNet).

    The network's own parameters are the means, and `sigmas` the standard deviations. Convolutions have no noise.

    Attributes:
        net: Network whose dense layers have noise.
        layers: Names and sizes of the parameters of the network's dense layers.
        num_noise: Number of noise variables per sample: for each layer one per input, then one per output.

    Args:
        net: Network whose dense layers have noise.
        sigma: Initial standard deviation of a parameter, multiplied by the square root of its layer's number of inputs.

    Source:
        Fortunato et al., arXiv:1706.10295, sections 3 (b) and 3.2.
    """

    def __init__(self, net: nn.Module, sigma: float) -> None:
        super().__init__()
        self.net = net
        self.sigmas = nn.ParameterList()
        layers = []
        for name, layer in net.named_modules(prefix="net"):
            if not isinstance(layer, nn.Linear):
                continue
            number, has_bias = len(self.sigmas), layer.bias is not None
            for parameter in (layer.weight, layer.bias) if has_bias else (layer.weight,):
                self.sigmas.append(torch.full_like(parameter, sigma / math.sqrt(layer.in_features)))
            layers.append(
                NoisyLayer(
                    f"{name}.weight",
                    f"{name}.bias" if has_bias else "",
                    f"sigmas.{number}",
                    f"sigmas.{number + 1}" if has_bias else "",
                    layer.in_features,
                    layer.out_features,
                )
            )
        self.layers = tuple(layers)
        self.num_noise = sum(layer.inputs + layer.outputs for layer in layers)

    @override
    def forward(self, *arguments: Any) -> Any:
        """Runs the network with the means of its parameters, without noise."""
        return self.net(*arguments)

    def drawn(self, views: Mapping[str, Tensor], noise: Tensor) -> dict[str, Tensor]:
        """Returns all parameters of the network by name, with noise added to dense layers.

        Args:
            views: This module's parameters by name.
            noise: Noise factors per input and output of each layer, [num_noise], from
                `rlrun.engine.policy.exploration.parameter_noise.factors`.
        """
        drawn, start = dict(views), 0
        for layer in self.layers:
            middle, end = start + layer.inputs, start + layer.inputs + layer.outputs
            of_inputs, of_outputs = noise[start:middle], noise[middle:end]
            products = of_outputs.unsqueeze(1) * of_inputs
            drawn[layer.weight] = views[layer.weight] + views[layer.weight_sigma] * products
            if layer.bias:
                drawn[layer.bias] = views[layer.bias] + views[layer.bias_sigma] * of_outputs
            start = end
        return drawn
