"""Updates with C kernels: their values, their bits, and many minibatches in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.kernels.library import library
from rlrun.engine.learner.executors import c_update
from rlrun.engine.learner.executors.c_update import in_c
from rlrun.engine.learner.executors.numpy_update import in_numpy
from rlrun.engine.learner.optimizers import SGD, Adam, AdamW, Optimizer, RMSProp
from rlrun.engine.learner.update import fresh_state

STRANGE = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -104.0, 89.0, 0.625, -0.6249], np.float32)


def applied(kernel: str, numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Runs an elementwise kernel of one operand."""
    found = np.empty_like(numbers)
    given, size = ctypes.c_void_p(numbers.ctypes.data), ctypes.c_int64(4)
    getattr(library(), f"{kernel}_f32_f32")(
        ctypes.c_void_p(found.ctypes.data), given, given, ctypes.c_int64(len(numbers)), size, size, size
    )
    return found


@pytest.mark.parametrize("function", ["exp", "log", "tanh", "log1p", "expm1"])
def test_functions_are_accurate_to_3_units_in_the_last_place_and_right_for_extreme_inputs(function: str) -> None:
    drawn = np.random.default_rng(0).normal(0, 3, 100_000).astype(np.float32)
    numbers = np.abs(drawn) if function.startswith("log") else drawn
    exact = getattr(np, function)(numbers.astype(np.float64))
    assert (np.abs(applied(function, numbers) - exact) <= 3 * np.spacing(np.abs(exact).astype(np.float32))).all()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(applied(function, STRANGE), getattr(np, function)(STRANGE), rtol=1e-3)


def test_subnormal_numbers_are_not_flushed_to_zero_once_the_kernels_are_loaded() -> None:
    library()
    assert np.float32(1e-40) / np.float32(2) > 0
    assert (torch.tensor(1e-40) / 2).item() > 0


def layers(sizes: list[int], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(a, b, generator=generator) / a**0.5 for a, b in pairwise(sizes)]


def gradients(weights: list[Tensor], x: Tensor, activation: Callable[[Tensor], Tensor]) -> list[Tensor]:
    leaves = [weight.detach().requires_grad_() for weight in weights]
    for leaf in leaves[:-1]:
        x = activation(x @ leaf)
    loss = (torch.log_softmax(x @ leaves[-1], -1).square().mean(-1) + (x @ leaves[-1]).tanh().sum(-1)).mean()
    return [loss.detach(), *torch.autograd.grad(loss, leaves)]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 70), min_size=3, max_size=4),
    rows=st.integers(1, 67),
    activation=st.sampled_from([torch.tanh, torch.relu, torch.nn.functional.elu, torch.nn.functional.silu]),
    seed=st.integers(0, 1000),
)
def test_gradients_have_at_most_four_times_the_error_of_torchs(
    sizes: list[int], rows: int, activation: Callable[[Tensor], Tensor], seed: int
) -> None:
    weights = layers(sizes, seed)
    x = torch.randn(rows, sizes[0], generator=torch.Generator().manual_seed(seed + 1))

    def function(x: Tensor, *weights: Tensor) -> list[Tensor]:
        return gradients(list(weights), x, activation)

    found = in_c(function, [x, *weights])([x, *weights])
    exact = gradients([weight.double() for weight in weights], x.double(), activation)
    for ours, theirs, right in zip(found, function(x, *weights), exact, strict=True):
        rounding = 1e-6 * float(right.abs().max())
        assert (ours - right).abs().max() <= 4 * (theirs - right).abs().max() + rounding


@pytest.mark.parametrize("optimizer", [Adam(), AdamW(), RMSProp(), RMSProp(centered=True), SGD(), SGD(momentum=0.9)])
def test_optimizers_compiled_to_c_make_the_same_steps_as_in_torch(optimizer: Optimizer) -> None:
    draws = torch.Generator().manual_seed(0)
    states = [fresh_state(optimizer, 5000) for _ in range(2)]
    parameters = [torch.randn(5000, generator=torch.Generator().manual_seed(1)) for _ in range(2)]

    def function(flat: Tensor, gradient: Tensor, lr: Tensor, *state: Tensor) -> list[Tensor]:
        optimizer.step(flat, gradient, dict(zip(optimizer.parts, state, strict=True)), lr)
        return [flat.sum()]

    def arguments(number: int, gradient: Tensor) -> list[Tensor]:
        return [parameters[number], gradient, torch.tensor(1e-2), *states[number].values()]

    update = in_c(function, arguments(0, torch.zeros(5000)))
    for _ in range(20):
        gradient = torch.randn(5000, generator=draws)
        update(arguments(0, gradient))
        function(*arguments(1, gradient))
    torch.testing.assert_close(parameters[0], parameters[1], rtol=1e-5, atol=1e-6)


def test_updates_in_c_read_int8_action_masks() -> None:
    logits, mask = (
        torch.tensor([[0.5, 2.0, -1.0], [1.0, 0.0, 3.0]]),
        torch.tensor([[1, 0, 1], [0, 1, 1]]).to(torch.int8),
    )

    def best_allowed(logits: Tensor, mask: Tensor) -> list[Tensor]:
        return [torch.where(mask != 0, logits, -1e9).amax(-1)]

    (found,) = in_c(best_allowed, [logits, mask])([logits, mask])
    assert found.tolist() == [0.5, 3.0]


def learned_line(translate: Any, calls_of: list[int]) -> tuple[Tensor, NDArray[np.float32]]:
    """Learns a line from minibatches, a few per call; returns the weights and the sums of loss and rate."""
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1
    rows = np.random.default_rng(0).permuted(np.tile(np.arange(64), (6, 1)), axis=1).reshape(-1, 16)
    weights, totals = torch.zeros(3), np.zeros(2, np.float32)

    def function(weights: Tensor, x: Tensor, y: Tensor, unread: Tensor, lr: Tensor) -> list[Tensor]:
        leaf = weights.detach().requires_grad_()
        loss = (x @ leaf.unsqueeze(-1) - y.unsqueeze(-1)).square().mean()
        (gradient,) = torch.autograd.grad(loss, leaf)
        weights.sub_(lr * gradient)
        return [torch.stack([loss.detach(), lr])]

    lr, empty = torch.tensor(0.1), torch.zeros(64)
    update = translate(function, [weights, x[:16], y[:16], empty[:16], lr], num_kept=1)
    leaves = [x.numpy(), y.numpy(), empty.numpy()]
    if translate is in_numpy:
        for each in rows:
            totals += update.run_rows(leaves, each, [lr])[0].numpy()
        return weights, totals
    for part in np.split(rows, np.cumsum(calls_of)):
        update.run_minibatches(leaves, part, [lr], totals)
    return weights, totals


def test_updates_on_many_minibatches_in_one_call_equal_one_call_per_minibatch(monkeypatch: pytest.MonkeyPatch) -> None:
    together, sums = learned_line(in_c, [])
    apart, same_sums = learned_line(in_c, [1, 5, 2])
    monkeypatch.setattr(c_update, "LONGEST_CALL_S", 0.0)  # one minibatch in each call, as on a slow machine
    slowly, still_the_same = learned_line(in_c, [])
    assert torch.equal(together, apart)
    assert torch.equal(together, slowly)
    assert sums.tolist() == same_sums.tolist() == still_the_same.tolist()
    expected, expected_sums = learned_line(in_numpy, [])
    torch.testing.assert_close(together, expected)
    np.testing.assert_allclose(sums, expected_sums, rtol=1e-5)


def test_results_are_right_if_a_step_reads_an_earlier_result_in_a_different_order() -> None:
    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        turned = (y > 0).t()  # written row by row, read column by column
        return [x.masked_fill(turned, torch.inf), torch.where(turned, x, 0.0), (y + 1).t() * x]

    x, y = torch.randn(2, 3000, generator=torch.Generator().manual_seed(0)).unbind()
    x, y = x.view(10, 300), y.view(300, 10)
    for found, expected in zip(in_c(function, [x, y])([x, y]), function(x, y), strict=True):
        assert torch.equal(found, expected)


def test_results_are_right_if_a_step_reads_rows_that_an_earlier_step_changed_in_place() -> None:
    def function(x: Tensor) -> list[Tensor]:
        y = x.clone()
        y[:-1].mul_(2)
        return [y[1:] + 1, y[:-1] * 3]  # the first result reads the next row, which `mul_` changes

    x = torch.randn(80, 64, generator=torch.Generator().manual_seed(0))
    for found, expected in zip(in_c(function, [x])([x]), function(x), strict=True):
        torch.testing.assert_close(found, expected)
