"""Batch (re)normalization: a minibatch's statistics in losses, running ones elsewhere, and both after the warm-up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlrun.engine.nn.batch_norm import (
    WARMUP,
    BatchNorm,
    BatchRenorm,
    RenormalizedLinear,
    batch_statistics,
)
from rlrun.engine.nn.extended_network_module import batch_norm_layers, inverted_residual_layers
from rlrun.engine.nn.torch_network import TorchNetwork

ROWS = torch.randn(64, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0, 0.1]) + 2


def renormalized(layer: BatchNorm, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Outputs with a minibatch's statistics, and the updated running statistics."""
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


def test_a_minibatch_is_normalized_by_its_own_statistics_and_changes_the_running_ones() -> None:
    layer = layer_of(0, [0, 0, 0], [1, 1, 1])
    outputs, moved = renormalized(layer, ROWS)
    torch.testing.assert_close(outputs.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    variance = ROWS.var(0, correction=0)
    torch.testing.assert_close(outputs.var(0, correction=0), variance / (variance + 1e-3))
    assert sorted(moved) == ["net.0.mean", "net.0.steps", "net.0.variance"]
    torch.testing.assert_close(moved["net.0.mean"], 0.01 * ROWS.mean(0))
    torch.testing.assert_close(moved["net.0.variance"], 0.99 + 0.01 * variance)
    assert moved["net.0.steps"].tolist() == [1]
    assert layer.steps.tolist() == [0]  # only a loss's `assign` changes parameters


def test_outside_losses_rows_are_normalized_by_the_running_statistics() -> None:
    layer = layer_of(5, [2, 2, 2], [4, 25, 0.25])
    expected = (ROWS - 2) / (torch.tensor([4, 25, 0.25]) + 1e-3).sqrt()
    torch.testing.assert_close(layer(ROWS).detach(), expected)
    torch.testing.assert_close(layer(ROWS[:1]).detach(), expected[:1])


@pytest.mark.parametrize("steps", [WARMUP - 1, WARMUP])
def test_after_the_warmup_running_statistics_correct_those_of_a_minibatch_within_bounds(steps: int) -> None:
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


def numbers(module: nn.Module) -> dict[str, NDArray[np.float64]]:
    return {name: each.detach().double().numpy() for name, each in module.named_parameters()}


def randomized(module: nn.Module) -> nn.Module:
    """The module with random parameters; variances are positive."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
            if name.endswith("variance"):
                parameter.square_()
    return module


def by_hand(
    x: NDArray[np.float64], own: dict[str, NDArray[np.float64]], name: str, *, by_batch: bool
) -> NDArray[np.float64]:
    """Batch normalization in float64, with the rows' own statistics or the running ones."""
    mean, variance = (x.mean(0), x.var(0)) if by_batch else (own[f"{name}.mean"], own[f"{name}.variance"])
    normal: NDArray[np.float64] = (x - mean) / np.sqrt(variance + 1e-3) * own[f"{name}.weight"] + own[f"{name}.bias"]
    return normal


def outputs_of(module: nn.Module, *, by_batch: bool) -> NDArray[np.float64]:
    if by_batch:
        with batch_statistics(TorchNetwork(module)):
            return np.asarray(module(ROWS).detach().double().numpy())
    return np.asarray(module(ROWS).detach().double().numpy())


@pytest.mark.parametrize("by_batch", [True, False])
def test_batch_normalization_precedes_activations_and_the_first_layer(by_batch: bool) -> None:
    module = randomized(batch_norm_layers(3, (5, 4), "relu"))
    own = numbers(module)
    x = by_hand(ROWS.double().numpy(), own, "0.input_norm", by_batch=by_batch)
    for layer in ("0", "2"):
        x = np.maximum(by_hand(x @ own[f"{layer}.weight"].T, own, f"{layer}.norm", by_batch=by_batch), 0)
    np.testing.assert_allclose(outputs_of(module, by_batch=by_batch), x, rtol=1e-4, atol=1e-4)
    assert not any(name in own for name in ("0.bias", "2.bias", "2.input_norm.weight"))


@pytest.mark.parametrize("by_batch", [True, False])
def test_inverted_residual_layers_add_two_normalized_layers_and_end_in_an_rms_norm(by_batch: bool) -> None:
    module = randomized(inverted_residual_layers(3, 4, 1, "relu"))
    own = numbers(module)
    x = by_hand(ROWS.double().numpy(), own, "0.input_norm", by_batch=by_batch) @ own["0.weight"].T
    inner = np.maximum(by_hand(x @ own["1.first.weight"].T, own, "1.first.norm", by_batch=by_batch), 0)
    assert inner.shape == (64, 16)
    x = x + np.maximum(by_hand(inner @ own["1.second.weight"].T, own, "1.second.norm", by_batch=by_batch), 0)
    x = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * own["2.weight"]
    np.testing.assert_allclose(outputs_of(module, by_batch=by_batch), x, rtol=1e-4, atol=1e-4)


def test_all_layers_report_moved_statistics_but_plain_batch_norm_counts_no_minibatches() -> None:
    module = inverted_residual_layers(3, 4, 2, "relu")
    with batch_statistics(TorchNetwork(module, prefix="net.")) as moved:
        module(ROWS)
    layers = ["0.input_norm", *(f"{i}.{part}.norm" for i in (1, 2) for part in ("first", "second"))]
    assert set(moved) == {f"net.{layer}.{part}" for layer in layers for part in ("mean", "variance")}
    torch.testing.assert_close(moved["net.0.input_norm.mean"], 0.01 * ROWS.mean(0))
    torch.testing.assert_close(moved["net.0.input_norm.variance"], 0.99 + 0.01 * ROWS.var(0, correction=0))


def test_plain_batch_normalization_never_corrects_a_minibatchs_statistics() -> None:
    plain, renorm = BatchNorm(3), layer_of(WARMUP, [2, 2, -100], [1, 0.01, 1])
    with torch.no_grad():
        plain.mean.copy_(renorm.mean)
        plain.variance.copy_(renorm.variance)
    (found, _), (early, _) = (renormalized(each, ROWS) for each in (plain, layer_of(0, [0, 0, 0], [1, 1, 1])))
    torch.testing.assert_close(found, early)
    assert not torch.allclose(renormalized(renorm, ROWS)[0], found, atol=0.1)
