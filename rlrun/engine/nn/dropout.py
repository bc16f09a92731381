"""Dropout of hidden units by drawn masks (torch)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlrun.engine.nn.encoders import NormalizedLinear


def with_dropout(layers: nn.Sequential, x: Tensor, kept: Tensor) -> Tensor:
    """Runs dense layers with dropout after each linear map, before normalisation and activation.

    Args:
        layers: Layers of `rlrun.engine.nn.encoders.mlp`.
        x: Inputs, [N, D].
        kept: Factor of each unit of all linear maps, 0 for those that are dropped, [N, sum of widths].

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
