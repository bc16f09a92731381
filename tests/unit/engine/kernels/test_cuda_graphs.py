"""CUDA graphs, as far as they can be tested without a GPU: what they refuse, which are kept, and when none is made."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rlrun.engine.kernels.cuda_graphs import MAX_GRAPHS, Graphs, OnTheGpu, of_list
from rlrun.engine.kernels.steps import NoKernel
from rlrun.engine.messages.silent_message import SilentMessage

HOST, ELSEWHERE = torch.arange(3.0), torch.empty(3, device="meta")
"""A tensor on the host, and one on another device."""


@pytest.mark.parametrize(
    "operation",
    [
        lambda: HOST.sum().item(),
        lambda: HOST[HOST > 1],
        lambda: HOST.nonzero(),
        lambda: HOST.to("meta"),
        lambda: torch.empty(3, device="meta").copy_(HOST),
        lambda: torch.tensor(0.5).to("meta"),
    ],
    ids=["item", "boolean index", "nonzero", "to the device", "into a tensor", "a scalar to the device"],
)
def test_operations_that_wait_for_the_gpu_or_copy_from_the_host_are_refused(operation: Callable[[], object]) -> None:
    with pytest.raises(NoKernel), OnTheGpu():  # type: ignore[no-untyped-call]
        operation()


def test_operations_on_the_device_with_or_without_host_scalars_are_allowed() -> None:
    with OnTheGpu():  # type: ignore[no-untyped-call]
        found = (ELSEWHERE * torch.tensor(0.5) + 1).sum()
        ELSEWHERE.index_select(0, torch.empty(2, dtype=torch.int64, device="meta"))
        HOST[torch.tensor([0, 2])]
        HOST.mul(2).sum()  # constants that are created and used only on the host
    assert found.device.type == "meta"


class Graph:
    """Stand-in for a captured function."""


def captured(error: Exception | None = None) -> Any:
    if error is not None:
        raise error
    return Graph()


def test_a_function_is_captured_only_once() -> None:
    graphs = Graphs(pytest.fail)
    first = graphs.made("update", captured, "updates")
    assert first is not None
    assert graphs.made("update", lambda: pytest.fail("again"), "updates") is first


def test_eight_graphs_are_kept_and_the_least_recently_used_is_released_before_a_capture() -> None:
    graphs = Graphs(pytest.fail)
    made = [weakref.ref(graphs.made(shape, captured, "updates")) for shape in range(MAX_GRAPHS)]
    assert MAX_GRAPHS == 8
    assert graphs.made(0, captured, "updates") is made[0]()

    def when_one_is_released() -> Any:
        assert [each() is None for each in made] == [False, True, *[False] * 6]
        return Graph()

    graphs.made(8, when_one_is_released, "updates")
    assert graphs.made(0, captured, "updates") is made[0]()
    again = graphs.made(1, captured, "updates")
    assert isinstance(again, Graph)
    assert [each() is None for each in made] == [False, True, True, *[False] * 5]


def test_a_function_whose_graph_does_not_fit_in_gpu_memory_runs_eagerly_and_is_reported_once(
    wording: Callable[..., str],
) -> None:
    told: list[str] = []
    graphs = Graphs(told.append)
    for shape in (1, 2, 1):
        assert graphs.made(shape, lambda: captured(torch.cuda.OutOfMemoryError("tried 2 GiB")), "updates") is None
    assert told == [wording("updates", "memory")]
    assert not isinstance(told[0], SilentMessage)
    assert graphs.made(1, lambda: pytest.fail("again"), "updates") is None
    assert graphs.made(3, captured, "updates") is not None


def test_a_function_that_cannot_be_captured_runs_eagerly(wording: Callable[..., str]) -> None:
    told: list[str] = []
    graphs = Graphs(told.append)
    for shape in (1, 1, 2):
        assert graphs.made(shape, lambda: captured(NoKernel("aten.nonzero.default")), "updates") is None
    assert told == [wording("updates", "aten.nonzero.default")]
    assert isinstance(told[0], SilentMessage)


def test_functions_of_trees_are_converted_to_functions_of_their_leaves() -> None:
    def scaled(tree: Any, by: Tensor) -> list[Tensor]:
        return [tree["a"] * by, tree["b"][0] + by]

    trees = {"a": torch.ones(2), "b": (torch.zeros(1),)}, torch.tensor(3.0)
    found = of_list(scaled, *trees)(torch.tensor([2.0]), torch.tensor([5.0]), torch.tensor(10.0))
    assert [each.tolist() for each in found] == [[20.0], [15.0]]
