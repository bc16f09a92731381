"""Specs with tensor envs: what does not work with them is a mistake at its line, before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.load import load_experiments
from tests.unit.engine.rollout.test_tensor_worker import Counter

COUNTER = "tests.unit.engine.rollout.test_tensor_worker:Counter"


class OnlyOne(Counter):
    """Env whose simulator allows one instance per process."""

    def __init__(self, num_envs: int, device: torch.device) -> None:
        super().__init__(num_envs, device, is_only_one=True)


def mistakes(folder: Path, *lines: str) -> list[str]:
    """Returns the mistakes in a spec with a tensor env, each with its place in the file."""
    spec = folder / "spec.yaml"
    spec.write_text("\n  ".join(["mine:", *lines, "stop: {env_steps: 1000}"]))
    try:
        load_experiments([spec], makes_envs=True)
    except SpecError as error:
        return str(error).replace(f"{folder}/", "").splitlines()
    return []


@pytest.mark.parametrize("algorithm", ["dqn", "distill", "pg", "appo"])
def test_for_a_tensor_env_an_algorithm_that_learns_on_the_host_is_rejected(
    tmp_path: Path, algorithm: str, wording: Callable[..., str]
) -> None:
    found = mistakes(tmp_path, f"algorithm: {algorithm}", f"env: {{tensors: {COUNTER!r}}}")
    assert found[-1] == wording("spec.yaml:2:14", "mine.algorithm", algorithm, "ppo, a2c, grpo or")


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "grpo", "rloo"])
def test_for_a_tensor_env_algorithms_that_learn_on_the_device_are_accepted(tmp_path: Path, algorithm: str) -> None:
    assert not mistakes(tmp_path, f"algorithm: {algorithm}", f"env: {{tensors: {COUNTER!r}}}", "evaluation: {every: 1}")


def test_for_a_tensor_env_an_attention_core_is_rejected(tmp_path: Path) -> None:
    model = "config: {model: {core: gtrxl}, seq_len: 4}"
    (mistake,) = mistakes(tmp_path, "algorithm: ppo", f"env: {{tensors: {COUNTER!r}}}", model)
    assert mistake.startswith("spec.yaml:3:18: mine.env.tensors: ")
    assert "config.model.core: gtrxl" in mistake


def test_evaluations_in_a_simulator_that_allows_only_one_instance_are_rejected(
    tmp_path: Path, wording: Callable[..., str]
) -> None:
    env = f"env: {{tensors: '{__name__}:OnlyOne'}}"
    assert not mistakes(tmp_path, "algorithm: ppo", env)
    (mistake,) = mistakes(tmp_path, "algorithm: ppo", env, "evaluation: {every: 1}")
    assert mistake == wording("spec.yaml:4:3", "mine.evaluation", f"{__name__}:OnlyOne")
    elsewhere = f"evaluation: {{every: 1, env: {{tensors: {COUNTER!r}}}}}"
    assert not mistakes(tmp_path, "algorithm: ppo", env, elsewhere)
