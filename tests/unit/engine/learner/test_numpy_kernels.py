"""Each kernel computes what torch computes, as NumPy calls and in C."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from rlrun.engine.kernels.steps import NoKernel
from rlrun.engine.learner.executors import numpy_update
from rlrun.engine.learner.executors.c_update import in_c
from rlrun.engine.learner.executors.numpy_update import in_numpy
from rlrun.engine.learner.executors.own_operations import QuantileHuber
from tests.rounding import rounding_error

MATRIX, OTHER = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0)).unbind()
LARGE = torch.tensor([[-200.0, -30.0, -1.0, 0.0], [0.5, 19.0, 30.0, 200.0]])
PLACES = torch.tensor([[3], [0], [1], [1], [2], [0]])

OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "arithmetic": lambda x, y: 3 * x + y / 2 - x * y - (1 - x),
    "comparisons": lambda x, y: torch.where((x > 0.5) & (x <= y), x, -y),
    "minimum and maximum": lambda x, y: torch.minimum(x, y) - torch.maximum(x, y),
    "bounds by numbers": lambda x, y: x.clamp(-0.5, 0.5) + y.clamp(min=0) + y.clamp(max=0.1),
    "bounds by tensors": lambda x, y: x.clamp(-y.abs(), y.abs()),
    "powers": lambda x, y: x.pow(2) + x.pow(1) + y.abs().pow(0.3) + 0.9 ** y.abs(),
    "roots": lambda x, y: x.abs().sqrt() + (y.abs() + 1).rsqrt() + (y.abs() + 1).reciprocal(),
    "exponentials": lambda x, y: x.exp() + y.abs().log() + y.abs().log1p(),
    "activations": lambda x, y: torch.tanh(x) + torch.relu(y) + torch.sigmoid(x),
    "softplus": lambda x, y: torch.nn.functional.softplus(x),
    "softmax": lambda x, y: torch.log_softmax(x, -1) + torch.softmax(y, 0),
    "sums": lambda x, y: x.sum() + y.sum(0) + x.sum(-1, keepdim=True) + y.t().sum() + (x > 0).sum(),
    "means": lambda x, y: x.mean() + y.mean(0) + x.mean(-1, keepdim=True),
    "extremes": lambda x, y: x.amin(0) + y.amax(-1, keepdim=True),
    "softmax of few": lambda x, y: torch.log_softmax(x[:, :2], -1) + torch.softmax(y[:3, :2], 0).sum(),
    "sums and extremes of few": lambda x, y: x[:, :3].sum(-1) + y[:, 1:].amax(-1) + (x[:, :2] > 0).sum(-1).float(),
    "norm": lambda x, y: x.reshape(-1).norm(),
    "largest": lambda x, y: x.argmax(-1) + y.argmax(-1, keepdim=True).float(),
    "products": lambda x, y: torch.addmm(y[0, :4], x, y[:4]) + x @ y.t()[:, :4],
    "narrow products": lambda x, y: x[:, :1] @ y[:1] + (x @ y[0].unsqueeze(-1)),
    "joined": lambda x, y: torch.cat([torch.cat([x, y]), torch.stack([x, y]).flatten(0, 1)], -1),
    "positions": lambda x, y: x.gather(-1, PLACES) + y.gather(0, PLACES[:4].expand(4, 4)).sum(),
    "positions in a transposed one": lambda x, y: x.t().contiguous().t().gather(-1, PLACES),
    "added at positions": lambda x, y: torch.zeros_like(x).scatter_add(-1, PLACES.expand(6, 3), y[:, :3]),
    "views": lambda x, y: x.t()[1:3].reshape(-1, 1).expand(-1, 2) + y.view(4, 6)[2:, ::3].sum(),
    "types": lambda x, y: (x > 0).float() + y.double().float() + (3 * y).to(torch.int8).eq(1).float(),
    "layer norms": lambda x, y: F.layer_norm(x, (4,), y[0, :4], y[1, :4]) + F.layer_norm(y, (4,)) * x.sum(),
    "gradients of layer norms": lambda x, y: F.layer_norm(y.expand(3, 6, 4), (4,), x[0, :4], x[1, :4]),
    "other activations": lambda x, y: F.gelu(3 * x) + F.gelu(y) + F.leaky_relu(x) + F.mish(y) + F.hardtanh(x),
    "losses": lambda x, y: F.mse_loss(x, y) + F.huber_loss(x, y) + F.cross_entropy(x, PLACES.squeeze(-1)),
    "spread": lambda x, y: x.std() + x.var(0) + y.std(-1, correction=0).sum(),
    "largest and smallest": lambda x, y: x.max(-1)[0] - x.min(-1)[0] + y.max(-1)[1] + y.min(-1)[1],
    "sums of exponentials": lambda x, y: (
        x.logsumexp(0) + y.logsumexp((0, 1)) + (-y.abs() * math.inf).logsumexp(0).exp()
    ),
    "sums so far": lambda x, y: x.cumsum(0) + (y > 0).cumsum(1),
    "products so far": lambda x, y: x.detach().cumprod(0) - y.cumprod(1),
    "rounded down": lambda x, y: (3 * y).floor() + x.detach(),
    "elements of a vector": lambda x, y: y.flatten()[PLACES] + x.detach(),
    "sorted": lambda x, y: y.sort(-1)[0] + (y > 0).float().sort(-1)[1] * x.detach(),
    "signs": lambda x, y: x.detach().sgn() + (-y).abs(),
    "masks": lambda x, y: x.masked_fill(y > 0.3, -1e9) + y.masked_fill(y[0] > 0, 2.0),
    "layer normalisation": lambda x, y: torch.nn.functional.layer_norm(x, (4,), y[0], y[1]),
    "its scale and shift": lambda x, y: torch.nn.functional.layer_norm(y, (4,), x[0], x[1]),
    "conditions": lambda x, y: ((x > 0) | ~(y > 0)).float() + (x > 0).any().float(),
}


TRANSLATIONS = pytest.mark.parametrize("translate", [in_numpy, in_c])


@TRANSLATIONS
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_and_its_gradient_agree_with_torch(name: str, translate: Any) -> None:
    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        leaf = x.detach().requires_grad_()
        result = OPERATIONS[name](leaf, y)
        if not result.requires_grad:
            return [result]
        return [result.detach(), *torch.autograd.grad(result.square().sum(), leaf, allow_unused=True)]

    update = translate(function, [MATRIX, OTHER])
    for x, y in ((MATRIX, OTHER), (OTHER, MATRIX), (MATRIX, OTHER)):
        expected, found = function(x, y), update([x, y])
        near = rounding_error(2 * MATRIX.numel())
        torch.testing.assert_close(found, expected, rtol=near, atol=near)


@TRANSLATIONS
@pytest.mark.parametrize(
    "activation",
    [
        torch.sigmoid,
        torch.tanh,
        torch.nn.functional.softplus,
        torch.relu,
        torch.nn.functional.elu,
        torch.nn.functional.silu,
    ],
)
def test_activations_and_gradients_of_large_inputs_agree_with_torch(
    activation: Callable[[Tensor], Tensor], translate: Any
) -> None:
    def function(x: Tensor) -> list[Tensor]:
        leaf = x.detach().requires_grad_()
        result = activation(leaf)
        return [result.detach(), *torch.autograd.grad(result.sum(), leaf)]

    update = translate(function, [LARGE])
    torch.testing.assert_close(update([LARGE]), function(LARGE))


@TRANSLATIONS
@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 3), length=st.integers(1, 1200), seed=st.integers(0, 1000))
def test_rows_of_any_length_are_sorted_stably_with_nan_last(translate: Any, rows: int, length: int, seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    x = torch.randint(-9, 9, (rows, length), generator=draws).float()  # many are equal
    x[torch.rand(x.shape, generator=draws) < 0.01] = torch.nan

    def function(x: Tensor) -> list[Tensor]:
        return [*torch.sort(x, stable=True, dim=-1)]

    torch.testing.assert_close(translate(function, [x])([x]), function(x), rtol=0, atol=0, equal_nan=True)
    whole = x.nan_to_num().long()
    torch.testing.assert_close(translate(function, [whole])([whole]), function(whole))


@TRANSLATIONS
@pytest.mark.parametrize(("rows", "quantiles", "targets"), [(1, 1, 1), (3, 25, 46), (2, 16, 7), (5, 37, 1)])
def test_quantile_losses_and_their_gradients_equal_those_over_all_pairs(
    translate: Any, rows: int, quantiles: int, targets: int
) -> None:
    draws = torch.Generator().manual_seed(0)
    estimates, weights = torch.randn(2, rows, quantiles, generator=draws).mul(2).unbind()
    samples, fractions = torch.randn(rows, targets, generator=draws) * 2, torch.rand(rows, quantiles, generator=draws)

    def function(estimates: Tensor, fractions: Tensor, samples: Tensor, weights: Tensor) -> list[Tensor]:
        leaf = estimates.detach().requires_grad_()
        losses = QuantileHuber.apply(leaf, fractions, samples)  # type: ignore[no-untyped-call]
        return [losses.detach(), *torch.autograd.grad((losses * weights).sum(), leaf)]

    given = [estimates, fractions, samples, weights]
    leaf = estimates.double().requires_grad_()
    errors = samples.unsqueeze(1) - leaf.unsqueeze(-1)
    losses = ((fractions.unsqueeze(-1) - (errors < 0).double()).abs() * F.huber_loss(
        errors, torch.zeros_like(errors), reduction="none"
    )).mean(-1)  # fmt: skip
    expected = [losses, *torch.autograd.grad((losses * weights).sum(), leaf)]
    near = rounding_error(targets, size=10.0)
    for found in (function(*given), translate(function, given)(given)):
        torch.testing.assert_close([each.double() for each in found], expected, rtol=0, atol=near)


@TRANSLATIONS
def test_searchsorted_agrees_with_torch_even_for_repeated_bounds(translate: Any) -> None:
    bounds = torch.tensor([-2.0, -1.0, -1.0, 0.0, 3.0])
    numbers = torch.tensor([[-3.0, -2.0, -1.0], [-0.5, 3.0, 4.0], [torch.inf, -torch.inf, torch.nan]])

    def function(bounds: Tensor, x: Tensor) -> list[Tensor]:
        return [torch.searchsorted(bounds, x), torch.searchsorted(bounds, x, right=True)]

    update = translate(function, [bounds, numbers])
    torch.testing.assert_close(update([bounds, numbers]), function(bounds, numbers), rtol=0, atol=0)


@TRANSLATIONS
def test_an_update_that_would_fill_the_memory_is_not_traced(translate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_update, "LARGEST_TRACE_GIB", 2**-20)  # a kibibyte

    def function(x: Tensor) -> list[Tensor]:
        return [x + x, x * x]

    translate(function, [torch.ones(40)])
    with pytest.raises(NoKernel, match="results fill more than"):
        translate(function, [torch.ones(400)])


@TRANSLATIONS
def test_nan_propagates_as_in_torch(translate: Any) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [torch.relu(x), x.clamp(0, 1), x.amax(0), torch.minimum(x, -x)]

    update = translate(function, [MATRIX])
    broken = torch.where(MATRIX > 0.5, torch.nan, MATRIX)
    torch.testing.assert_close(update([broken]), function(broken), equal_nan=True)
