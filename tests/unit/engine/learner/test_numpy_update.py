"""Updates as lists of NumPy calls: which calls there are, and what they change."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlrun.engine.kernels.steps import NoKernel, ReadByPython
from rlrun.engine.learner.executors.numpy_update import (
    BoundUpdate,
    NumpyUpdate,
    eliminate_common_subexpressions,
    in_numpy,
    recorded,
    require_same,
)
from rlrun.engine.learner.optimizers import SGD, Adam, AdamW, Optimizer, RMSProp
from rlrun.engine.learner.update import fresh_state
from tests.rounding import rounding_error

X = torch.arange(6.0).reshape(2, 3)


def test_an_operation_without_a_kernel_is_reported_at_tracing_time() -> None:
    with pytest.raises(NoKernel, match=r"^prims.erf_inv.default$"):
        in_numpy(lambda x: [torch.erfinv(x)], [X])


def test_an_unsupported_variant_of_an_operation_is_reported_at_tracing_time() -> None:
    with pytest.raises(NoKernel, match=r"^aten.add.Tensor$"):
        in_numpy(lambda x: [torch.add(x, x, alpha=2)], [X])
    with pytest.raises(NoKernel, match=r"^aten._to_copy.default$"):
        in_numpy(lambda x: [x.bfloat16().float()], [X])
    with pytest.raises(NoKernel, match=r"^aten.linalg_vector_norm.default$"):
        in_numpy(lambda x: [torch.linalg.vector_norm(x.reshape(-1), ord=1)], [X])


def test_a_function_that_reads_tensor_values_is_not_traced() -> None:
    told = r"^the loss turns a tensor into a Python number .* at test_numpy_update.py:\d+$"
    with pytest.raises(ReadByPython, match=told):
        in_numpy(lambda x: [x * x.sum().item()], [X])
    with pytest.raises(ReadByPython, match=told):
        in_numpy(lambda x: [x if x.sum() > 0 else -x], [X])


def test_a_function_that_converts_tensors_to_python_numbers_is_not_traced() -> None:
    for read in (lambda x: float(x.numpy().max()), lambda x: max(x.tolist()[0]), lambda x: float(np.asarray(x).max())):
        with pytest.raises(NoKernel, match=r"^Tensor\."):
            in_numpy(lambda x, read=read: [x * read(x)], [X])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [x + torch.rand(3)],
        lambda x: [x + torch.zeros_like(x).normal_()],
        lambda x: [x + torch.bernoulli(torch.full_like(x, 0.5))],
        lambda x: [x + torch.zeros_like(x).fill_(2)],
    ],
)
def test_random_numbers_and_unknown_in_place_operations_are_not_treated_as_constants(function: Any) -> None:
    with pytest.raises(NoKernel, match=r"^aten\."):
        in_numpy(function, [X])


def test_a_function_whose_result_changes_from_call_to_call_is_refused(wording) -> None:
    number, numbers = itertools.count(), np.random.default_rng(0)
    held = torch.ones(3)
    for function in (lambda x: [x * next(number)], lambda x: [x + torch.from_numpy(numbers.normal(size=3))]):
        with wording.raised(NoKernel):
            require_same(function, [X])
    require_same(lambda x: [x * held], [X])


def test_a_tensor_captured_by_the_function_is_a_constant() -> None:
    held = torch.tensor([1.0, 2.0, 3.0])
    update = in_numpy(lambda x: [x + held * 2], [X])
    assert torch.equal(update([X])[0], X + held * 2)


def test_arguments_may_change_in_place_and_later_calls_do_not_overwrite_earlier_results() -> None:
    def function(x: Tensor) -> list[Tensor]:
        x[0].mul_(2)
        return [x.sum(0)]

    update = in_numpy(function, [X])
    mine, memory = X.clone(), X.clone()
    (first,) = update([mine])
    assert first.tolist() == [3, 6, 9]
    assert mine.tolist() == [[0, 2, 4], [3, 4, 5]]
    (second,) = update([mine])
    assert (first.tolist(), second.tolist()) == ([3, 6, 9], [3, 8, 13])
    assert torch.equal(X, memory)


def test_an_expression_used_before_and_after_an_in_place_change_is_computed_twice() -> None:
    def function(x: Tensor) -> list[Tensor]:
        before = x * 3
        x.add_(1)
        return [before, x * 3]

    update = in_numpy(function, [X])
    before, after = update([X.clone()])
    assert torch.equal(after - before, torch.full_like(X, 3))


def test_results_that_are_changed_in_place_are_not_shared_as_common_subexpressions() -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [(x * 2).add_(1), (x * 2).add_(10)]

    update = in_numpy(function, [X])
    assert [result[0, 1].item() for result in update([X.clone()])] == [3, 12]


def test_a_kept_tensor_is_updated_in_place() -> None:
    def function(total: Tensor, x: Tensor) -> list[Tensor]:
        total.add_(x)
        return [total * 2]

    total = torch.zeros(3)
    update = in_numpy(function, [total, X[0]], num_kept=1)
    assert total.tolist() == [0, 0, 0]
    (first,) = update([total, X[0]])
    total.add_(1)
    (second,) = update([total, X[1]])
    assert (first.tolist(), second.tolist(), total.tolist()) == ([0, 2, 4], [8, 12, 16], [4, 6, 8])


def test_run_rows_gathers_rows_from_only_those_columns_that_are_read() -> None:
    def function(kept: Tensor, column: Tensor, unread: Tensor, rate: Tensor) -> list[Tensor]:
        return [kept + column.t() * rate]

    kept, column, rate = torch.ones(2), torch.arange(10.0).reshape(5, 2), torch.tensor(10.0)
    update = in_numpy(function, [kept, column[:2], column[:2], rate], num_kept=1)
    (result,) = update.run_rows([column.numpy(), np.empty(0)], np.array([4, 1]), [rate])
    assert result.tolist() == [[81, 21], [91, 31]]


def test_common_subexpressions_are_eliminated() -> None:
    graph = recorded(lambda x: [x.t().exp() + x.t().exp()], [X])
    before = len(graph.nodes)
    eliminate_common_subexpressions(graph)
    assert before - len(graph.nodes) == 2
    (result,) = NumpyUpdate(BoundUpdate(graph, [X]))([X])
    torch.testing.assert_close(result, 2 * X.t().exp())


def test_a_buffer_is_reused_only_after_its_last_read() -> None:
    def function(x: Tensor) -> list[Tensor]:
        first = x + 1
        view = first.t()
        second = first * 2
        third = second * 3  # may reuse the memory of `second`, but not that of `first`
        return [third - view.t(), view.exp()]

    update = in_numpy(function, [X])
    for given in (X, -X):
        torch.testing.assert_close(update([given]), function(given))


def test_every_optimizer_changes_parameters_as_in_torch() -> None:
    rules: list[Optimizer] = [Adam(), AdamW(), SGD(), SGD(momentum=0.9), RMSProp(), RMSProp(centered=True)]
    for optimizer in rules:

        def function(
            flat: Tensor, gradient: Tensor, lr: Tensor, *state: Tensor, optimizer: Optimizer = optimizer
        ) -> list[Tensor]:
            optimizer.step(flat, gradient, dict(zip(optimizer.parts, state, strict=True)), lr)
            return [flat.sum()]

        state = list(fresh_state(optimizer, 8).values())
        gradient, lr = torch.linspace(-1, 1, 8), torch.tensor(0.01)
        update = in_numpy(function, [torch.zeros(8), gradient, lr, *state])
        assert update is not None, optimizer
        ours, theirs = ([torch.zeros(8), gradient, lr, *(part.clone() for part in state)] for _ in range(2))
        for _ in range(20):
            update(ours)
            function(*theirs)
        near = rounding_error(20)
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)
