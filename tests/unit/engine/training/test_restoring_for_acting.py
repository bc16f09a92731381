"""Restores for acting alone: no worker, no replayed episodes, and the same policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from rlrun.algorithms.ppo import PPO
from rlrun.cli.targets import restored
from rlrun.engine.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training


class Counted(CartPoleEnv):  # type: ignore[misc]  # gymnasium is not type-checked
    """A CartPole that counts instances and steps over all instances."""

    made: ClassVar[int] = 0
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        Counted.made += 1

    def step(self, action: Any) -> Any:
        Counted.steps += 1
        return super().step(action)


ENV = EnvConfig(id=f"{__name__}:Counted")
SMALL = {"model": {"hiddens": [8]}, "compile": False, "num_envs_per_worker": 4}


@pytest.fixture
def counted() -> Iterator[type[Counted]]:
    Counted.made = Counted.steps = 0
    yield Counted
    Counted.made = Counted.steps = 0


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    config = PPO.Config.parse(
        {
            **SMALL,
            "train_batch_size": 40,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 40,
            "normalize_observations": True,
        }
    )
    with Training(ENV, PPO(config)) as training:
        training.step()
        return training.save(tmp_path / "checkpoint")


def test_restoring_a_policy_for_acting_steps_no_env_and_gives_the_same_evaluation(
    saved: Path, counted: type[Counted]
) -> None:
    with Training.restore(saved, trust=True) as training:
        assert training.running.env_slots_restarted == 0
        replayed, expected = counted.steps, training.evaluate(3, seed=4).returns
    counted.made = counted.steps = 0
    with Training.restore(saved, trust=True, for_training=False) as training:
        assert (counted.made, counted.steps) == (1, 0)  # one env was made to read its spaces
        assert training.evaluate(3, seed=4).returns == expected
        assert counted.made == 4
        assert training.iteration == 1
        action = training.act(np.zeros(4, np.float32))
    assert replayed > 0
    assert action in (0, 1)


@pytest.mark.parametrize("place", [{"num_gpus": 1}, {"num_learners": 2}])
def test_policies_trained_on_gpus_or_remote_learners_act_without_them(
    saved: Path, tmp_path: Path, place: dict[str, int]
) -> None:
    content = read_checkpoint(saved)
    spec = {**content.spec, "config": {**content.spec["config"], **place}}
    elsewhere = write_checkpoint(tmp_path / "elsewhere", replace(content, spec=spec))
    with (
        Training.restore(saved, trust=True, for_training=False) as expected,
        Training.restore(elsewhere, trust=True, for_training=False) as training,
    ):
        assert training.evaluate(3, seed=4).returns == expected.evaluate(3, seed=4).returns
        assert isinstance(training.running.trainees[0].learner, LocalLearner)


def test_commands_restore_policies_without_stepping_the_training_env(
    saved: Path, counted: type[Counted], tmp_path: Path
) -> None:
    counted.made = counted.steps = 0
    with restored(saved, tmp_path, trust=True):
        assert counted.steps == 0


def test_a_training_restored_for_acting_can_be_neither_trained_nor_saved(saved: Path, tmp_path: Path, wording) -> None:
    with Training.restore(saved, trust=True, for_training=False) as training:
        for go_on in (training.step, lambda: training.save(tmp_path / "again")):
            with wording.raised(UsageError, "for_training"):
                go_on()


def test_a_policy_in_a_world_with_opponent_seats_is_restored_for_acting_exactly(tmp_path: Path) -> None:
    world = EnvConfig(world="rlrun.toys:TicTacToe")
    learns = {"learning_starts": 8, "minibatch_size": 8, "compile": False}
    policies = {
        "policies": {"x": {"algorithm": "dqn", "config": learns}},
        "seats": {"o": {"plays_against": "x"}},
        "mapping": {"x": "x", "o": "o"},
        "config": {"num_envs_per_worker": 2, "rollout_fragment_length": 4, "min_env_steps_per_iteration": 16},
    }
    with Training(world, Policies.from_data(policies)) as training:
        training.step()
        checkpoint = training.save(tmp_path / "league")
        expected = training.evaluate(4, seed=1).returns
    with Training.restore(checkpoint, for_training=False) as training:
        assert training.evaluate(4, seed=1).returns == expected
