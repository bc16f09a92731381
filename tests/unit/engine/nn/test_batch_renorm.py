"""Batch renormalisation: a minibatch's statistics in losses, running ones elsewhere, and both after the warm-up."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rlrun.engine.nn.batch_renorm import WARMUP, BatchRenorm, RenormalizedLinear, batch_statistics
from rlrun.engine.nn.torch_network import TorchNetwork

ROWS = torch.randn(64, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0, 0.1]) + 2


def renormalized(layer: BatchRenorm, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Outputs by a minibatch's statistics, and the moved ones."""
    with batch_statistics(TorchNetwork(nn.Sequential(layer), prefix="net.")) as moved:
        outputs = layer(x)
    return outputs.detach(), moved


def layer_of(steps: float, mean: list[float], variance: list[float]) -> BatchRenorm:
    layer = BatchRenorm(len(mean))
    with torch.no_grad():
        layer.steps.fill_(steps)
        layer.mean.copy_(torch.tensor(mean))
        layer.variance.copy_(torch.tensor(variance))
    return layer


def test_a_minibatch_is_normalised_by_itself_and_moves_the_running_statistics() -> None:
    layer = layer_of(0, [0, 0, 0], [1, 1, 1])
    outputs, moved = renormalized(layer, ROWS)
    torch.testing.assert_close(outputs.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    variance = ROWS.var(0, correction=0)
    torch.testing.assert_close(outputs.var(0, correction=0), variance / (variance + 1e-3))
    assert sorted(moved) == ["net.0.mean", "net.0.steps", "net.0.variance"]
    torch.testing.assert_close(moved["net.0.mean"], 0.01 * ROWS.mean(0))
    torch.testing.assert_close(moved["net.0.variance"], 0.99 + 0.01 * variance)
    assert moved["net.0.steps"].tolist() == [1]
    assert layer.steps.tolist() == [0]  # nobody but a loss's `assign` changes parameters


def test_running_statistics_normalise_where_no_loss_asks_for_a_minibatch_s() -> None:
    layer = layer_of(5, [2, 2, 2], [4, 25, 0.25])
    expected = (ROWS - 2) / (torch.tensor([4, 25, 0.25]) + 1e-3).sqrt()
    torch.testing.assert_close(layer(ROWS).detach(), expected)
    torch.testing.assert_close(layer(ROWS[:1]).detach(), expected[:1])


@pytest.mark.parametrize("steps", [WARMUP - 1, WARMUP])
def test_running_statistics_take_part_after_the_warm_up_within_bounds(steps: int) -> None:
    layer = layer_of(steps, [2, 2, -100], [1, 0.01, 1])
    outputs, _ = renormalized(layer, ROWS)
    plain, _ = renormalized(layer_of(0, [0, 0, 0], [1, 1, 1]), ROWS)
    if steps < WARMUP:
        torch.testing.assert_close(outputs, plain)
        return
    own = (ROWS.var(0, correction=0) + 1e-3).sqrt()
    running = (torch.tensor([1, 0.01, 1]) + 1e-3).sqrt()
    scale, shift = own / running, (ROWS.mean(0) - torch.tensor([2.0, 2.0, -100.0])) / running
    assert scale[1] > 3 > 1 / 3 > scale[2]
    assert shift[2] > 5
    expected = plain * torch.tensor([scale[0], 3, 1 / 3]) + shift.clamp(-5, 5)
    torch.testing.assert_close(outputs, expected)


def test_no_gradient_reaches_the_running_statistics() -> None:
    layer = RenormalizedLinear(3, 2)
    with batch_statistics(TorchNetwork(layer)):
        layer(ROWS).square().sum().backward()
    layer(ROWS).square().sum().backward()
    assert layer.norm.weight.grad is not None
    assert [layer.norm.mean.grad, layer.norm.variance.grad, layer.norm.steps.grad] == [None] * 3
