"""A run's settings and length decide how its updates are computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import rlrun
from rlrun.algorithms.dreamer.dreamer import Dreamer
from rlrun.algorithms.ppo import PPO
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.kernels import library as kernel_library
from rlrun.engine.kernels.library import why_no_library
from rlrun.engine.learner.executors.compilation import cache_key, compiler
from rlrun.engine.learner.executors.numpy_kernels import KERNELS
from rlrun.engine.learner.executors.numpy_update import recorded
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.messages.errors import CompilerMissing
from rlrun.engine.training.assemble.learner_factory import (
    chosen_update_executor,
    common_update_executor,
    continued_executor,
)
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.trial_training import training_of

needs_c = pytest.mark.skipif(why_no_library() != "", reason=why_no_library())
needs_cpp = pytest.mark.skipif(compiler() is None, reason="this machine has no C++ compiler")

ONE_UPDATE_A_STEP = {"train_batch_size": 64, "minibatch_size": 64, "num_epochs": 64}


HALF = {**ONE_UPDATE_A_STEP, "precision": "bfloat16"}
"""Updates without kernels."""


def chosen(env_steps: int | None, **settings: Any) -> UpdateExecutor:
    return chosen_update_executor(PPO(PPO.Config.parse({**ONE_UPDATE_A_STEP, **settings})), env_steps)


@needs_c
@pytest.mark.parametrize("model", [{}, {"core": "gtrxl"}, {"module": "a:B"}, {"encoders": {"camera": "a:B"}}])
def test_updates_in_float32_use_c_kernels_in_runs_of_any_length(model: dict[str, Any]) -> None:
    made = [chosen(length, model=model) for length in (1, 1_000_000, None)]
    assert [*made, chosen(1, model=model, compile=True)] == ["c"] * 4


def test_if_one_machine_lacks_a_c_compiler_all_use_numpy_and_compile_true_is_refused(wording) -> None:
    algorithms = [PPO(PPO.Config.parse(ONE_UPDATE_A_STEP))]
    assert common_update_executor(algorithms, 100, "on node b no C compiler was found") == "numpy"
    demanding = [PPO(PPO.Config.parse({**ONE_UPDATE_A_STEP, "compile": True}))]
    with wording.raised(CompilerMissing):
        common_update_executor(demanding, 100, "on node b no C compiler was found")


def test_an_operation_without_a_kernel_is_reported_once_and_its_update_runs_eagerly(
    monkeypatch: pytest.MonkeyPatch,
    wording,
) -> None:
    monkeypatch.delitem(KERNELS, torch.ops.aten.mm.default)  # as if this version of torch had another name for it
    told: list[str] = []
    config = {
        "train_batch_size": 64,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 32,
        "num_epochs": 1,
    }
    with rlrun.Training("CartPole-v1", rlrun.PPO(**config), announce=told.append) as training:
        for _ in range(2):
            training.step()
        language = {"c": "C", "numpy": "NumPy"}[str(training.update_executor)]
    (text,) = told
    assert text == wording(language, "aten.mm.default")


@needs_cpp
def test_updates_without_kernels_are_compiled_in_long_runs_and_eager_in_short_ones() -> None:
    assert [chosen(env_steps, precision="bfloat16") for env_steps in (19_999, 20_000)] == ["eager", "compiled"]


@pytest.mark.parametrize("algorithm", [PPO, Dreamer])
def test_on_a_gpu_updates_use_cuda_graphs_in_runs_of_any_length(algorithm: type[Algorithm[Any]]) -> None:
    on_a_gpu = algorithm(num_gpus=1)
    assert chosen_update_executor(on_a_gpu, None) == continued_executor("cuda_graph") == "cuda_graph"
    assert continued_executor("cuda_graph", eager=True) == "eager"
    assert chosen_update_executor(PPO(num_gpus=1, compile=False), None) == "eager"


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    cached = (kernel_library.why_no_library, kernel_library.library, kernel_library.key, kernel_library.compiler)
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_updates_use_numpy_and_compile_true_is_refused(wording) -> None:
    assert chosen(1_000_000) == "numpy"
    with wording.raised(CompilerMissing):
        chosen(1_000_000, compile=True)


@pytest.mark.usefixtures("no_compiler")
def test_a_run_that_began_with_c_kernels_continues_without_them_only_on_request(wording) -> None:
    with wording.raised(CompilerMissing):
        continued_executor("c")
    assert continued_executor("numpy") == continued_executor("c", eager=True) == "numpy"


@pytest.mark.parametrize("settings", [{"precision": "bfloat16"}, {"compile": False}])
def test_short_runs_with_settings_that_rule_out_kernels_are_updated_eagerly(settings: dict[str, Any]) -> None:
    assert chosen(10_000, **settings) == "eager"


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({"lr": 1e-4, "clip_param": [[0, 0.2], [1000, 0.0]], "entropy_coeff": 0.01}, True),
        ({"vf_loss_coeff": 0.9}, False),
        ({"minibatch_size": 16}, False),
        ({"model": {"hiddens": [4]}}, False),
    ],
    ids=["scheduled", "loss", "shape", "net"],
)
def test_seeds_and_scheduled_settings_do_not_change_the_compiled_update(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], shares: bool
) -> None:
    keys = []

    def noted(function: Any, arguments: Any, announce: Any) -> Any:
        keys.append(cache_key(str(recorded(function, arguments)), arguments))
        return lambda given: function(*given)

    monkeypatch.setattr("rlrun.engine.learner.executors.compilation.compiled", noted)
    for seed, changes in ((0, {}), (1, settings)):
        config = {
            "train_batch_size": 32,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 32,
            "num_epochs": 1,
            "model": {"hiddens": [8]},
            **changes,
        }
        with rlrun.Training("CartPole-v1", rlrun.PPO(**config), seed=seed) as training:
            training.update_executor = "compiled"
            training.step()
    first, second = keys
    assert (first == second) == shares


def test_env_steps_of_trials_that_share_a_compiled_update_are_added_up() -> None:
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 5_000}, "config": HALF}
    for seeds, expected in ((3, "eager"), (4, "eager" if compiler() is None else "compiled")):
        (experiment,) = parse_experiments({"sweep": {**entry, "seeds": seeds}})
        with training_of(experiment.trials()[0]) as training:
            training.start()
            assert training.update_executor == expected


def test_a_restored_run_keeps_its_update_executor(tmp_path: Path) -> None:
    config = {
        "train_batch_size": 64,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 32,
        "num_epochs": 1,
        "model": {"hiddens": [8]},
    }
    with rlrun.Training("CartPole-v1", rlrun.PPO(**config), seed=3) as whole:
        whole.update_executor = "numpy"
        whole.step()
        whole.save(tmp_path / "checkpoint")
        whole.step()
        expected = whole.running.trainee.learner.flat().tolist()
    with rlrun.Training.restore(tmp_path / "checkpoint") as restored:
        assert restored.update_executor == "numpy"
        restored.step()
        assert restored.running.trainee.learner.flat().tolist() == expected
