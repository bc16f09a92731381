"""What a training's rounding depends on: only FMA if C kernels compute everything, else processor and BLAS."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from rlrun import A2C, DQN, PPO, SAC, Training
from rlrun.cli.main import cli
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.kernels import steps
from rlrun.engine.kernels.library import common_key, key, library, why_no_library
from rlrun.engine.training import rounding
from rlrun.engine.training.rounding import dependence_on_processor, expected_dependence, has_other_rounding

pytestmark = pytest.mark.skipif(
    why_no_library() != "" or not library().has_fused_products(), reason="no C kernels with fused multiply-add"
)

SMALL: dict[str, Any] = {"num_envs_per_worker": 2, "min_env_steps_per_iteration": 0}
ON_POLICY = {**SMALL, "train_batch_size": 64}
TRANSFORMER = {"core": "gtrxl", "core_width": 8, "gtrxl": {"heads": 1, "memory_len": 2}}
REPLAYED = {**SMALL, "learning_starts": 32, "minibatch_size": 16}


class OwnPPO(PPO):
    """A user's PPO, which may compute anything."""


def reasons(env: str, algorithm: Algorithm[Any], iterations: int = 1) -> tuple[str, str]:
    """Returns why results depend on the processor: as expected from settings, and after some iterations."""
    with Training(env, algorithm) as training:
        for _ in range(iterations):
            training.step()
        policies = training.description.policies
        expected = expected_dependence(policies, training.description.spaces())
        return expected, dependence_on_processor(training.running, policies)


@pytest.mark.parametrize(
    ("env", "algorithm"),
    [
        ("CartPole-v1", PPO(**ON_POLICY, minibatch_size=32)),
        ("CartPole-v1", PPO(**ON_POLICY, minibatch_size=32, seq_len=16, model={"core": "lstm"})),
        ("CartPole-v1", A2C(**ON_POLICY)),
        ("CartPole-v1", DQN(**REPLAYED, epsilon=0.5)),
        ("Pendulum-v1", SAC(**REPLAYED, model={"hiddens": [16]})),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name(),
)
def test_results_of_training_with_c_kernels_alone_do_not_depend_on_the_processor(
    env: str, algorithm: Algorithm[Any]
) -> None:
    assert reasons(env, algorithm, 30) == ("", "")


@pytest.mark.parametrize(
    ("algorithm", "word"),
    [
        (OwnPPO(**ON_POLICY, minibatch_size=32), "your own"),
        (PPO(**ON_POLICY, minibatch_size=32, seq_len=16, model=TRANSFORMER), "torch"),
    ],
    ids=["own algorithm", "transformer"],
)
def test_custom_code_and_torch_networks_make_results_depend_on_the_processor(
    algorithm: Algorithm[Any], word: str
) -> None:
    expected, found = reasons("CartPole-v1", algorithm)
    assert word in expected
    assert found != ""


def test_matrix_products_large_enough_for_blas_make_results_depend_on_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (steps, rounding):
        monkeypatch.setattr(module, "LARGEST_OWN_PRODUCT", 4_000)
    expected, found = reasons("CartPole-v1", PPO(**ON_POLICY, minibatch_size=32))
    assert "so large" in expected
    assert "so large" in found


@pytest.mark.parametrize(
    ("change", "words"),
    [("num_workers=2", "other processes"), ("num_learners=2", "learners"), ("compile=false", "updates"), ("", "")],
)
def test_the_plan_ends_with_the_reason_why_results_depend_on_the_processor(change: str, words: str) -> None:
    changes = ["--set", f"config.{change}"] if change else []
    done = CliRunner().invoke(cli, ["plan", "-f", "cartpole/ppo", *changes], catch_exceptions=False)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("results: ")
    assert words in last
    assert ("depend on processor" in last) is (change != "")


def test_losses_that_have_not_run_yet_are_a_reason_why_results_may_depend_on_the_processor() -> None:
    _, found = reasons("CartPole-v1", DQN(**{**REPLAYED, "learning_starts": 10_000}))
    assert "not all losses" in found


def test_a_different_processor_changes_rounding_only_in_runs_that_depend_on_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = key()
    assert not has_other_rounding(here)
    assert not has_other_rounding(common_key())
    monkeypatch.setattr(rounding, "key", lambda: "another")
    assert has_other_rounding(here)
    assert not has_other_rounding(common_key())
