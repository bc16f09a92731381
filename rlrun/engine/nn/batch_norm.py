"""Batch normalization and renormalization; their running statistics count as parameters (torch)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.dense_net import BATCH_NORM_EPSILON
from rlrun.engine.nn.torch_network import TorchNetwork

AllReduceTensor = Callable[[Tensor], Tensor]
"""Function that sums a tensor over all data-parallel learners."""

MOMENTUM = 0.01
"""Fraction by which running statistics move towards the statistics of a minibatch."""

WARMUP = 100_000
"""Number of minibatches that are normalized only by their own statistics, before running statistics are used."""

LARGEST_SCALE = 3.0
"""Maximum ratio between a minibatch's standard deviation and the running one, in either direction."""

LARGEST_SHIFT = 5.0
"""Maximum distance between a minibatch's mean and the running mean, in running standard deviations."""


class SumOverLearners(torch.autograd.Function):
    """Differentiable all-reduce: sums a tensor over the learners, and sums its gradients in the backward pass.

    A learner's loss depends on the other learners' rows through the sum, so each row receives the gradients of all
    learners' losses. All learners must compute the same sequence of sums. All learners have equal weight, so the
    learners' shares of the minibatch must have equal numbers of valid steps.
    """

    @staticmethod
    @override
    def forward(ctx: Any, x: Tensor, all_reduce: AllReduceTensor) -> Tensor:
        """Returns the sum over all learners."""
        ctx.all_reduce = all_reduce
        return all_reduce(x.clone())

    @staticmethod
    @override
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Returns the sum of the gradients of all learners' losses with respect to the sum."""
        return ctx.all_reduce(grads[0].clone()), None


class BatchNorm(nn.Module):
    """Batch normalization (Ioffe and Szegedy, arXiv:1502.03167, algorithm 1).

    Features are normalized by running statistics (mean and variance). Within the context manager `batch_statistics`,
    they are normalized by the minibatch's statistics. The running statistics are parameters, so that checkpoints and
    broadcasts include them.

    Args:
        width: Number of features, D.

    Attributes:
        moved: Running statistics, updated with the minibatch, by name; None outside `batch_statistics`.
        all_reduce: Function that sums a tensor over data-parallel learners, so that statistics cover the whole
            minibatch; None for a single learner.
    """

    moved: dict[str, Tensor] | None
    all_reduce: AllReduceTensor | None

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.mean = nn.Parameter(torch.zeros(width))
        self.variance = nn.Parameter(torch.ones(width))
        self.moved = None
        self.all_reduce = None

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Normalizes a batch of N feature vectors [N, D]."""
        mean, variance = self.mean.detach(), self.variance.detach()
        if self.moved is None:
            return (x - mean) / (variance + BATCH_NORM_EPSILON).sqrt() * self.weight + self.bias
        own_mean = self._mean(x)
        centered = x - own_mean
        own_variance = self._mean(centered.square())
        own_deviation = (own_variance + BATCH_NORM_EPSILON).sqrt()
        normalized = self._corrected(centered / own_deviation, own_mean.detach(), own_deviation.detach())
        self.moved["mean"] = mean + MOMENTUM * (own_mean.detach() - mean)
        self.moved["variance"] = variance + MOMENTUM * (own_variance.detach() - variance)
        return normalized * self.weight + self.bias

    def _mean(self, x: Tensor) -> Tensor:
        """Returns the means [D] over the minibatch's feature vectors [N, D], including other learners' shares."""
        if self.all_reduce is None:
            return x.mean(0)
        total: Tensor = SumOverLearners.apply(torch.cat([x.sum(0), x.new_full((1,), len(x))]), self.all_reduce)
        return total[:-1] / total[-1].detach()

    def _corrected(self, normalized: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        """Returns features normalized by their minibatch's statistics, possibly corrected by the running ones."""
        return normalized


class BatchRenorm(BatchNorm):
    """Batch renormalization (Ioffe, arXiv:1702.03275, algorithm 1) with the constants of CrossQ.

    Minibatch statistics are corrected by the running ones after `WARMUP` minibatches. The minibatch counter
    is also stored as a parameter.

    Args:
        width: Number of features, D.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.steps = nn.Parameter(torch.zeros(1))

    @override
    def _corrected(self, normalized: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        assert self.moved is not None
        steps, running = self.steps.detach(), (self.variance.detach() + BATCH_NORM_EPSILON).sqrt()
        is_warm = (steps >= WARMUP).float()
        scale = (deviation / running).clamp(1 / LARGEST_SCALE, LARGEST_SCALE)
        shift = ((mean - self.mean.detach()) / running).clamp(-LARGEST_SHIFT, LARGEST_SHIFT)
        self.moved["steps"] = steps + 1
        return normalized * (1 + is_warm * (scale - 1)) + is_warm * shift


class RenormalizedLinear(nn.Linear):
    """Dense layer with batch renormalization of its inputs."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.norm = BatchRenorm(inputs)

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Maps N input vectors [N, inputs] to [N, outputs]."""
        return super().forward(self.norm(x))


class BatchNormLinear(nn.Linear):
    """Dense layer without bias, with batch normalization of its outputs, of its inputs, or of both.

    Args:
        inputs: Number of inputs.
        outputs: Number of outputs.
        of_inputs: Whether inputs are normalized.
        of_outputs: Whether outputs are normalized.
    """

    def __init__(self, inputs: int, outputs: int, *, of_inputs: bool = False, of_outputs: bool = True) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.input_norm = BatchNorm(inputs) if of_inputs else None
        self.norm = BatchNorm(outputs) if of_outputs else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Maps N input vectors [N, inputs] to [N, outputs]."""
        if self.input_norm is not None:
            x = self.input_norm(x)
        x = super().forward(x)
        return x if self.norm is None else self.norm(x)


@contextmanager
def batch_statistics(*networks: TorchNetwork) -> Iterator[dict[str, Tensor]]:
    """Context manager in which batch normalization and renormalization use the statistics of each minibatch.

    Yields:
        A dict, filled on exit with the updated running statistics by parameter name; it stays empty if the networks
        have no batch (re)normalization.
    """
    layers = {
        f"{network.prefix}{name}": layer
        for network in networks
        for name, layer in network.module.named_modules()
        if isinstance(layer, BatchNorm)
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


def share_statistics(module: nn.Module, all_reduce: AllReduceTensor) -> bool:
    """Makes batch (re)normalization use the statistics of all data-parallel learners' shares of a minibatch.

    Returns:
        Whether the module has layers with batch (re)normalization.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, BatchNorm)]
    for layer in layers:
        layer.all_reduce = all_reduce
    return bool(layers)
