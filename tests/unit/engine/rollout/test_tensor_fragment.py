"""Steps of a policy in an env of tensors: the functions that a GPU captures as CUDA graphs, run without one.

A recorded function behaves like a captured one: it repeats the operations of one call, whatever Python would do in
the next call, and it reads and writes the memory with which it was recorded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from typing_extensions import override

from rlrun import Training
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves
from rlrun.engine.kernels import cuda_graphs
from rlrun.engine.kernels.cuda_graphs import Graphs, OnTheGpu
from rlrun.engine.rollout import tensor_worker
from rlrun.engine.rollout.tensor_fragment import decide, record
from rlrun.engine.rollout.tensor_worker import TensorRolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.training import training as training_module
from tests.unit.engine.rollout.test_tensor_worker import small, training

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "masked": ({"normalize_observations": True}, {"masked": True}),
    "without finals": ({"normalize_rewards": True}, {"finals": False}),
    "multi discrete": ({}, {"actions": "multi_discrete"}),
    "multi binary": ({}, {"actions": "multi_binary"}),
    "lstm": ({"model": {"hiddens": [8], "core": "lstm", "core_width": 4}, "seq_len": 2}, {}),
    "gru": (
        {"model": {"hiddens": [8], "core": "gru", "core_width": 4}, "seq_len": 2, "normalize_observations": True},
        {},
    ),
}


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Torch mode that records the operations in its `with` block: function, arguments and result of each."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    @classmethod
    @override
    def _should_skip_dynamo(cls) -> bool:
        """Keeps torch from importing its compiler."""
        return False

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result


class Recorded:
    """Function recorded as a list of operations, a stand-in for `CapturedFunction`."""

    made = 0

    def __init__(self, function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], num_kept: int) -> None:
        type(self).made += 1
        self._inputs, self._operations = [argument.clone() for argument in arguments], Operations()
        with self._operations:
            self._results = function(*self._inputs)
        self._kept, self._given = arguments[:num_kept], [argument.clone() for argument in arguments[num_kept:]]

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        torch._foreach_copy_(self._given, list(arguments[len(self._kept) :]))
        present = {id(one): other for one, other in zip(self._inputs, [*self._kept, *self._given], strict=True)}

        def replaced(tensor: Tensor) -> Tensor:
            return present.get(id(tensor), tensor)

        for func, args, kwargs, result in self._operations.calls:
            made = func(*tree_map_only(Tensor, replaced, args), **tree_map_only(Tensor, replaced, kwargs))
            present |= {id(one): other for one, other in zip(tree_leaves(result), tree_leaves(made), strict=True)}
        return [present[id(result)].clone() for result in self._results]


@pytest.mark.parametrize(("settings", "env"), SETTINGS.values(), ids=SETTINGS)
def test_recorded_steps_are_bit_identical_to_eager_steps(
    settings: dict[str, Any], env: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_worker, "CapturedFunction", Recorded)
    monkeypatch.setattr(Recorded, "made", 0)
    check(training(small(compile=False, **settings), **env))
    assert Recorded.made == (3 if "normalize_observations" in settings else 2)  # recorded again when statistics arrive


def test_recorded_steps_with_continuous_actions_are_bit_identical_to_eager_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tensor_worker, "CapturedFunction", Recorded)
    check(Training({"tensors": "rlrun.toys:tensor_pendulum"}, small(compile=False)))


def test_training_with_recorded_updates_and_steps_is_bit_identical_to_eager_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    algorithm = small(compile=False, lr={"adaptive_kl": 0.01}, normalize_observations=True)
    eager = training(algorithm)
    for _ in range(3):
        eager.step()
    monkeypatch.setattr(training_module, "common_update_executor", lambda *_: "cuda_graph")
    for place in (cuda_graphs, tensor_worker):
        monkeypatch.setattr(place, "CapturedFunction", Recorded)
    monkeypatch.setattr(Recorded, "made", 0)
    by_graphs = training(algorithm)
    for _ in range(3):
        by_graphs.step()
    assert Recorded.made == 4  # decisions without and with statistics, results of steps, and updates
    assert np.array_equal(eager.running.trainee.learner.flat(), by_graphs.running.trainee.learner.flat())


def check(made: Training) -> None:
    """Compares fragments of two workers, one of which has recorded steps, while the policy learns."""
    config = made.running.workers.config
    graphs = Graphs(pytest.fail)
    eager, by_graph = TensorRolloutWorker(config), TensorRolloutWorker(dataclasses.replace(config, graphs=graphs))
    for fragment in range(4):
        for worker in (eager, by_graph):
            worker.follow(Orders({"default": made.running.trainee.weights()}))
        if fragment == 3:
            state = eager.state()
            for worker in (eager, by_graph):
                worker.load_state(state)
        expected, found = (worker.sample() for worker in (eager, by_graph))
        assert found.episodes == expected.episodes
        assert same(found.batches["default"], expected.batches["default"])
        made.step()


def same(batch: SampleBatch, other: SampleBatch) -> bool:
    return all(np.array_equal(leaf, own) for leaf, own in zip(leaves(dict(batch)), leaves(dict(other)), strict=True))


@pytest.mark.parametrize(("settings", "env"), SETTINGS.values(), ids=SETTINGS)
def test_steps_do_not_synchronize_with_the_device(
    settings: dict[str, Any], env: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_worker, "decide", watched(decide))
    monkeypatch.setattr(tensor_worker, "record", watched(record))
    training(small(compile=False, **settings), **env).step()


def watched(function: Callable[..., list[Tensor]]) -> Callable[..., list[Tensor]]:
    """Returns a function that raises an error where a graph would refuse an operation."""

    def run(*arguments: Any) -> list[Tensor]:
        with OnTheGpu():  # type: ignore[no-untyped-call]
            return function(*arguments)

    return run
