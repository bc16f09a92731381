"""What a training says of itself where nothing fails and nothing is learned or seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlrun.algorithm import Algorithm
from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.a3c import A3C
from rlrun.algorithms.apex import Apex
from rlrun.algorithms.dqn import DQN
from rlrun.algorithms.impala import Impala
from rlrun.algorithms.ppo import PPO
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.env_config import EnvConfig
from rlrun.errors import UsageError
from rlrun.flow.flow import Flow
from rlrun.flow.operators.advantages import ComputeAdvantages
from rlrun.flow.operators.training import TrainOnBatch
from rlrun.flow.trainee import Trainee
from rlrun.learner.objective import Loss
from rlrun.training import training_warnings
from rlrun.training.training import Training

CARTPOLE = EnvConfig(id="CartPole-v1")
SMALL = {"model": {"hiddens": [8]}, "compile": False, "num_envs_per_worker": 2}


class Deaf(A2C):
    """Learns, and sends nothing to its workers."""

    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        config = self.config
        return fragments.for_each(ComputeAdvantages(config.gamma, 1.0)).for_each(TrainOnBatch(trainee))


class Secretive(PPO):
    """Reports what it does not declare."""

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        loss = super().loss(outputs, batch, scheduled)
        return Loss(loss.total, {**loss.statistics, "surprise": loss.total})


def announced(algorithm: Algorithm[Any], iterations: int, env: EnvConfig = CARTPOLE) -> list[str]:
    told: list[str] = []
    with Training(env, algorithm, announce=told.append) as training:
        for _ in range(iterations):
            training.step()
    return told


def test_a_dataflow_that_sends_no_weights_is_told_of_once() -> None:
    told = announced(Deaf(Deaf.Config.parse(SMALL)), 3)
    assert len(told) == 1
    assert told[0].startswith("the learner learns, but its dataflow sends no weights")


@pytest.mark.parametrize("algorithm", [A2C, A3C, Apex, DQN, Impala, PPO])
def test_shipped_algorithms_send_weights_in_the_iteration_in_which_they_begin_to_learn(
    algorithm: type[Algorithm[Any]],
) -> None:
    start = {"learning_starts": 8} if "learning_starts" in algorithm.Config.model_fields else {}
    assert announced(algorithm(algorithm.Config.parse({**SMALL, **start})), 2) == []


def test_a_resumed_run_that_sends_weights_rarely_is_not_told_that_it_sends_none(tmp_path: Path) -> None:
    config = Apex.Config.parse({**SMALL, "learning_starts": 8, "min_env_steps_per_iteration": 40})
    told: list[str] = []
    with Training(CARTPOLE, Apex(config), announce=told.append) as training:
        for _ in range(3):
            training.step()
        before = training.trainee.learner.sgd_steps
        checkpoint = training.save(tmp_path / "checkpoint")
    with Training.restore(checkpoint, announce=told.append) as training:
        training.step()
        assert before < training.trainee.learner.sgd_steps < before + config.asynchrony.weights_age
    assert told == []


def test_episodes_that_never_end_are_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_warnings, "EPISODELESS_STEPS", 1500)
    endless = EnvConfig(id="rlrun.envs.worlds:ConstantReward", kwargs={"episode_len": 10**9})
    told = announced(A2C(A2C.Config.parse(SMALL)), 3, endless)
    assert len(told) == 1
    assert told[0].startswith("no episode has ended in 4,000 env steps")
    assert "env.max_episode_steps" in told[0]
    assert announced(A2C(A2C.Config.parse(SMALL)), 3) == []


def test_a_statistic_of_a_loss_that_is_not_declared_is_refused_with_the_place_to_declare_it() -> None:
    with (
        Training(CARTPOLE, Secretive(Secretive.Config.parse({**SMALL, "train_batch_size": 64}))) as training,
        pytest.raises(UsageError, match=r"learner/surprise, which nobody .*Metric\('surprise', .* learner_metrics"),
    ):
        training.step()
