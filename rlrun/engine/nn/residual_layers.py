"""Residual dense layers (torch)."""

from __future__ import annotations

from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.dense_net import NORMALIZATION_EPSILON
from rlrun.engine.nn.encoders import ACTIVATIONS
from rlrun.engine.nn.model_config import Activation

EXPANSION = 4
"""Width of a residual block's inner layer, in units of the block's."""


class DenseBlock(nn.Module):
    """Residual block: x plus two dense layers of LayerNorm(x), the inner one four times as wide.

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
        """Adds the residual to features [N, H]."""
        added: Tensor = x + self.second(self.activation(self.first(self.norm(x))))
        return added


def residual_layers(inputs: int, width: int, blocks: int, activation: Activation) -> nn.Sequential:
    """Creates a linear layer, residual blocks and a LayerNorm."""
    last = nn.LayerNorm(width, eps=NORMALIZATION_EPSILON)
    return nn.Sequential(nn.Linear(inputs, width), *(DenseBlock(width, activation) for _ in range(blocks)), last)
