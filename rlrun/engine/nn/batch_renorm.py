"""Batch renormalization of a dense layer's inputs; its running statistics count as parameters (torch)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.dense_net import RENORM_EPSILON
from rlrun.engine.nn.torch_network import TorchNetwork

MOMENTUM = 0.01
"""Part by which running statistics move to a minibatch's."""

WARMUP = 100_000
"""Minibatches that are normalized by their own statistics alone, before the running ones take part."""

LARGEST_SCALE = 3.0
"""Largest ratio of a minibatch's standard deviation and the running one, either way."""

LARGEST_SHIFT = 5.0
"""Largest distance of a minibatch's mean and the running one, in running standard deviations."""


class BatchRenorm(nn.Module):
    """Batch renormalization (Ioffe, arXiv:1702.03275, algorithm 1) with the constants of CrossQ.

    Features are normalized by running statistics (mean and variance). Within the context manager `batch_statistics`,
    they are normalized by the minibatch's statistics, which are corrected by the running ones after `WARMUP`
    minibatches. The running statistics and their counter are parameters, so that checkpoints and broadcasts include
    them.

    Args:
        width: Number of features, D.

    Attributes:
        moved: Within `batch_statistics`, the running statistics updated by the minibatch, by name; else None.
    """

    moved: dict[str, Tensor] | None

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.mean = nn.Parameter(torch.zeros(width))
        self.variance = nn.Parameter(torch.ones(width))
        self.steps = nn.Parameter(torch.zeros(1))
        self.moved = None

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Normalizes a batch of N feature vectors [N, D]."""
        mean, variance = self.mean.detach(), self.variance.detach()
        deviation = (variance + RENORM_EPSILON).sqrt()
        if self.moved is None:
            return (x - mean) / deviation * self.weight + self.bias
        own_mean = x.mean(0)
        centered = x - own_mean
        own_variance = centered.square().mean(0)
        own_deviation = (own_variance + RENORM_EPSILON).sqrt()
        is_warm = (self.steps.detach() >= WARMUP).float()
        scale = (own_deviation.detach() / deviation).clamp(1 / LARGEST_SCALE, LARGEST_SCALE)
        shift = ((own_mean.detach() - mean) / deviation).clamp(-LARGEST_SHIFT, LARGEST_SHIFT)
        normalized = centered / own_deviation * (1 + is_warm * (scale - 1)) + is_warm * shift
        self.moved["mean"] = mean + MOMENTUM * (own_mean.detach() - mean)
        self.moved["variance"] = variance + MOMENTUM * (own_variance.detach() - variance)
        self.moved["steps"] = self.steps.detach() + 1
        return normalized * self.weight + self.bias


class RenormalizedLinear(nn.Linear):
    """Dense layer with batch renormalization of its inputs."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.norm = BatchRenorm(inputs)

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Maps N input vectors [N, inputs] to [N, outputs]."""
        return super().forward(self.norm(x))


@contextmanager
def batch_statistics(*networks: TorchNetwork) -> Iterator[dict[str, Tensor]]:
    """Context manager in which batch renormalization uses the statistics of each minibatch.

    Yields:
        A dict, filled on exit with the updated running statistics by parameter name; empty without batch
        renormalization.
    """
    layers = {
        f"{network.prefix}{name}": layer
        for network in networks
        for name, layer in network.module.named_modules()
        if isinstance(layer, BatchRenorm)
    }
    moved: dict[str, Tensor] = {}
    for layer in layers.values():
        layer.moved = {}
    try:
        yield moved
        for name, layer in layers.items():
            moved |= {f"{name}.{part}": value for part, value in (layer.moved or {}).items()}
    finally:
        for layer in layers.values():
            layer.moved = None
