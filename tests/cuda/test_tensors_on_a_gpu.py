"""Envs of tensors on a GPU: the policy's steps as CUDA graphs next to eager ones, memory, and exact resumes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlrun import PPO, Training
from rlrun.engine.kernels import cuda_graphs
from rlrun.engine.rollout import tensor_worker
from tests.results import all_numbers

pytestmark = pytest.mark.usefixtures("own_folder")

SMALL: dict[str, Any] = {
    "num_envs_per_worker": 64,
    "train_batch_size": 1024,
    "minibatch_size": 300,  # the last minibatch of an epoch is padded
    "num_epochs": 2,
    "min_env_steps_per_iteration": 0,
    "model": {"hiddens": [32, 32]},
    "num_gpus": 1,
}

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "discrete": ("tensor_cartpole", {"normalize_observations": True, "normalize_rewards": True}),
    "continuous": ("tensor_pendulum", {"recompute_advantages": True, "lr": {"adaptive_kl": 0.01}}),
    "lstm": (
        "tensor_pendulum",
        {"model": {"hiddens": [32], "core": "lstm", "core_width": 16}, "seq_len": 4, "minibatch_size": 256},
    ),
    "gru": (
        "tensor_cartpole",
        {"model": {"hiddens": [32], "core": "gru", "core_width": 16}, "seq_len": 4, "minibatch_size": 256},
    ),
}


def training(env: str, announce: Callable[[str], None] = lambda message: None, **settings: Any) -> Training:
    algorithm = PPO(**copy.deepcopy({**SMALL, **settings}))
    return Training({"tensors": f"rlrun.toys:{env}"}, algorithm, seed=3, announce=announce)


def graphs_of(made: Training) -> Any:
    return made.running.trainee.learner.updates.execution.graphs  # type: ignore[attr-defined]


@pytest.mark.parametrize(("env", "settings"), SETTINGS.values(), ids=SETTINGS)
def test_graph_captured_steps_equal_eager_steps_bit_for_bit(env: str, settings: dict[str, Any]) -> None:
    told: list[str] = []
    rows, weights = list[Any](), list[Any]()
    for compiles in (False, "auto"):
        with training(env, told.append, compile=compiles, **settings) as made:
            rows.append(all_numbers(made.step() for _ in range(4)))
            weights.append(made.running.trainee.learner.flat())
            graphs = graphs_of(made)
    assert not [message for message in told if "separate torch operations" in message]
    assert len(graphs._captured) >= 3  # for decisions, results of steps, and updates
    assert rows[0] == rows[1]
    assert np.array_equal(weights[0], weights[1])


def test_batches_of_a_shape_whose_graph_capture_runs_out_of_memory_run_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    class TooLarge(cuda_graphs.CapturedFunction):
        def __init__(self, function: Any, arguments: Any, num_kept: int) -> None:
            def allocating(*tensors: Any) -> Any:
                if torch.cuda.is_current_stream_capturing():
                    torch.empty(2**50, dtype=torch.uint8, device="cuda")
                return function(*tensors)

            super().__init__(allocating, arguments, num_kept)

    with training("tensor_cartpole", compile=False) as made:
        expected = all_numbers(made.step() for _ in range(2))
    for place in (cuda_graphs, tensor_worker):
        monkeypatch.setattr(place, "CapturedFunction", TooLarge)
    told: list[str] = []
    with training("tensor_cartpole", told.append) as made:
        assert all_numbers(made.step() for _ in range(2)) == expected
    assert sum("free memory" in message for message in told) == 2  # one for steps of the policy, one for updates


def test_discarding_the_oldest_graph_releases_its_memory() -> None:
    x, graphs = torch.ones(2**20, device="cuda"), cuda_graphs.Graphs(pytest.fail)

    def run(number: int) -> None:
        capture = cuda_graphs.CapturedFunction
        graph = graphs.made(number, lambda: capture(lambda each: [(each + number).relu() * 2], [x], 0), "sums")
        assert graph is not None
        assert torch.equal(graph([x])[0], (x + number) * 2)

    for number in range(cuda_graphs.MAX_GRAPHS):
        run(number)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for number in range(cuda_graphs.MAX_GRAPHS, 40):
        run(number)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + 2**20
    run(0)


def test_memory_does_not_grow_from_iteration_to_iteration() -> None:
    with training("tensor_cartpole", normalize_observations=True) as made:
        for _ in range(4):
            made.step()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for _ in range(20):
            made.step()
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() <= before + 1_000_000


@pytest.mark.parametrize("compiles", [False, "auto"])
def test_a_resumed_training_continues_with_the_same_numbers(compiles: bool | str, tmp_path: Path) -> None:
    env, settings = SETTINGS["lstm"]
    with training(env, compile=compiles, normalize_observations=True, **settings) as made:
        for _ in range(2):
            made.step()
        saved = made.save(tmp_path / "saved")
        expected = [made.step() for _ in range(2)]
    with Training.restore(saved, trust=True) as made:
        assert all_numbers(made.step() for _ in range(2)) == all_numbers(expected)
