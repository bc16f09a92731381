"""Envs and worlds whose close() raises: no work is lost, wherever they are closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium.vector import AutoresetMode

from rlrun.cli.main import cli
from rlrun.engine.data.demonstrations import Demonstrations
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.rollout.demonstrating import demonstrate
from rlrun.toys.cartpoles import CartPoleArrays, CartPoles
from rlrun.toys.known_optimum import ConstantReward

VECTOR_ID = "rlrun-tests/StuckVector-v0"
SPEC = """\
stuck:
  algorithm: ppo
  env: {env}
  stop: {{env_steps: 100}}
  config: {{train_batch_size: 64, min_env_steps_per_iteration: 0, num_envs_per_worker: 2, minibatch_size: 32,
            num_epochs: 1, compile: false}}
  evaluation: {{every: 1, episodes: 2}}
"""


class Stuck(ConstantReward):
    def __init__(self, of_task: int = 0) -> None:
        super().__init__(episode_len=5)

    def close(self) -> None:
        raise ValueError("the door is stuck")


class StuckVector(gymnasium.vector.VectorEnv[Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, max_episode_steps: int = 0) -> None:
        self.num_envs = num_envs
        self.single_observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
        self.single_action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.elapsed = 0
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions: Any) -> Any:
        self.elapsed += 1
        ended = np.full(self.num_envs, self.elapsed % 5 == 0)
        observations = np.zeros((self.num_envs, 2), np.float32)
        return observations, np.ones(self.num_envs), ended, np.zeros(self.num_envs, bool), {}

    def close(self, **kwargs: Any) -> None:
        raise SystemExit("the door is stuck")


class StuckWorld(CartPoles):
    def close(self) -> None:
        raise ValueError("the door is stuck")


class StuckArrays(CartPoleArrays):
    def close(self) -> None:
        raise ValueError("the door is stuck")


@pytest.fixture
def vector_id() -> Iterator[str]:
    gymnasium.register(VECTOR_ID, vector_entry_point=StuckVector)
    yield VECTOR_ID
    del gymnasium.registry[VECTOR_ID]


STUCK = {
    "single env": f"{__name__}:Stuck",
    "env of two tasks": f"{{id: '{__name__}:Stuck', tasks: [{{kwargs: {{of_task: 1}}}}, {{kwargs: {{of_task: 2}}}}]}}",
    "vector env": VECTOR_ID,
    "world": f"{{world: '{__name__}:StuckWorld'}}",
    "array world": f"{{world: '{__name__}:StuckArrays'}}",
}


@pytest.mark.usefixtures("vector_id")
@pytest.mark.parametrize("env", STUCK.values(), ids=STUCK.keys())
def test_training_evaluation_and_validation_succeed_despite_an_error_in_close_and_show_it(
    env: str, tmp_path: Path
) -> None:
    file = tmp_path / "stuck.yaml"
    file.write_text(SPEC.format(env=env))
    runs = ["--runs-dir", str(tmp_path / "runs")]
    commands = [["validate", "--env", str(file)], ["train", "-f", str(file), *runs], ["evaluate", "stuck", *runs]]
    for command in commands:
        with pytest.warns(UserWarning, match=r"raised an exception in close\(\) (.|\n)*the door is stuck"):
            done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output


@pytest.mark.usefixtures("vector_id")
@pytest.mark.parametrize("env", [STUCK["single env"], STUCK["vector env"]])
def test_an_env_check_succeeds_despite_an_error_in_close_and_shows_it(env: str) -> None:
    with pytest.warns(UserWarning, match=r"raised an exception in close\(\) (.|\n)*the door is stuck"):
        done = CliRunner().invoke(cli, ["env", "check", env, "--steps", "200"])
    assert done.exit_code == 0, done.output


def test_demonstrations_are_made_despite_an_error_in_close() -> None:
    with pytest.warns(UserWarning, match="the door is stuck"):
        made, returns = demonstrate(lambda *seen: (np.int64(0), None), EnvConfig(id=STUCK["single env"]), 2, 0)
    assert isinstance(made, Demonstrations)
    assert returns == [5.0, 5.0]
