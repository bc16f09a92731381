"""Warnings of trainings in which nothing fails, but nothing is learned or observed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.a3c import A3C
from rlrun.algorithms.dqn.apex import Apex
from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.impala.impala import Impala
from rlrun.algorithms.pg import complete_episodes
from rlrun.algorithms.pg.pg import PG
from rlrun.algorithms.ppo import PPO
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.advantages import ComputeAdvantages
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Loss
from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.engine.rollout import endless_episodes
from rlrun.engine.settings.metric import Metric
from rlrun.engine.training.training import Training
from rlrun.engine.worlds.world import World, WorldStep

CARTPOLE = EnvConfig(id="CartPole-v1")
ENDLESS = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 10**9})
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


class Forgetful(PPO):
    """Declares what it does not report."""

    learner_metrics = (*PPO.learner_metrics, Metric("surprise", "", "Surprise"), Metric("shock", "", "Shock"))

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        loss = super().loss(outputs, batch, scheduled)
        return Loss(loss.total, {**loss.statistics, "shock": loss.total})


def announced(algorithm: Algorithm[Any], iterations: int, env: EnvConfig = CARTPOLE) -> list[str]:
    told: list[str] = []
    with Training(env, algorithm, announce=told.append) as training:
        for _ in range(iterations):
            training.step()
    return told


def test_a_dataflow_that_sends_no_weights_causes_one_warning(wording) -> None:
    told = announced(Deaf(Deaf.Config.parse(SMALL)), 3)
    assert len(told) == 1
    assert told[0] == wording()


@pytest.mark.parametrize("algorithm", [A2C, A3C, Apex, DQN, Impala, PPO])
def test_shipped_algorithms_send_weights_in_the_iteration_in_which_learning_starts(
    algorithm: type[Algorithm[Any]],
) -> None:
    start = {"learning_starts": 8} if "learning_starts" in algorithm.Config.model_fields else {}
    assert announced(algorithm(algorithm.Config.parse({**SMALL, **start})), 2) == []


def test_a_resumed_run_that_rarely_sends_weights_causes_no_warning(tmp_path: Path) -> None:
    config = Apex.Config.parse({**SMALL, "learning_starts": 8, "min_env_steps_per_iteration": 40})
    told: list[str] = []
    with Training(CARTPOLE, Apex(config), announce=told.append) as training:
        for _ in range(3):
            training.step()
        before = training.running.trainee.learner.sgd_steps
        checkpoint = training.save(tmp_path / "checkpoint")
    with Training.restore(checkpoint, announce=told.append) as training:
        training.step()
        assert before < training.running.trainee.learner.sgd_steps < before + config.asynchrony.weights_age
    assert told == []


def test_episodes_that_never_end_cause_one_warning(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(endless_episodes, "EPISODELESS_STEPS", 1500)
    told = announced(A2C(A2C.Config.parse(SMALL)), 3, ENDLESS)
    assert len(told) == 1
    assert told[0] == wording("3,000")
    assert "env.max_episode_steps" in told[0]
    assert announced(A2C(A2C.Config.parse(SMALL)), 3) == []


def test_an_iteration_that_waits_for_an_episode_to_end_warns_if_none_does(
    monkeypatch: pytest.MonkeyPatch,
    wording,
) -> None:
    monkeypatch.setattr(endless_episodes, "EPISODELESS_STEPS", 150)
    monkeypatch.setattr(complete_episodes, "LONGEST_EPISODE", 400)
    told: list[str] = []
    settings = {"num_envs_per_worker": 2, "model": {"hiddens": [4]}, "compile": False}
    with (
        Training(ENDLESS, PG(PG.Config.parse(settings)), announce=told.append) as training,
        wording.raised(TrainingFailed, "400"),
    ):
        training.step()
    assert [text.partition(" env steps")[0] for text in told] == wording("320")


class Relay(World):
    """One agent after another lives for five steps and is paid 1 in each; the world's own episodes never end."""

    possible_agents = ("runner_0", "runner_1")

    def spaces(self, agent: str) -> Spaces:
        return Spaces(Box(-1, 1, (1,)), Discrete(2))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.taken = 0
        return {"runner_0": np.zeros(1, np.float32)}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        (agent,) = actions
        self.taken += 1
        over = not self.taken % 5
        shown = [agent, f"runner_{self.taken // 5}"] if over else [agent]
        observations = {each: np.zeros(1, np.float32) for each in shown}
        return WorldStep(observations, {agent: 1.0}, {agent: over}, {}, {}, ended=False)


def test_agent_returns_are_reported_for_a_world_whose_episodes_never_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wording
) -> None:
    monkeypatch.setattr(endless_episodes, "EPISODELESS_STEPS", 50)
    told: list[str] = []
    config = PPO.Config.parse(
        {
            **SMALL,
            "rollout_fragment_length": 32,
            "train_batch_size": 64,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 64,
        }
    )
    world = EnvConfig(world=f"{__name__}:Relay")
    with Training(world, PPO(config), announce=told.append) as training:
        results = [training.step() for _ in range(3)]
        checkpoint = training.save(tmp_path / "checkpoint")
        results.append(training.step())
    names = ("env_steps", "episodes", "episode_return_mean", "episode_return_min", "episode_len_mean")
    assert [tuple(result[name] for name in names) for result in results] == [
        (64, 0, None, None, None),
        (128, 0, 5.0, 5.0, 5.0),
        (192, 0, 5.0, 5.0, 5.0),
        (256, 0, 5.0, 5.0, 5.0),
    ]
    assert len(told) == 1
    assert told[0] == wording("128")
    with Training.restore(checkpoint, trust=True) as training:
        restored = training.step()
    assert [restored[name] for name in names] == [results[-1][name] for name in names]


def test_a_resumed_run_in_which_episodes_ended_before_the_resume_causes_no_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(endless_episodes, "EPISODELESS_STEPS", 10)
    rarely = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 600})
    told: list[str] = []
    with Training(rarely, A2C(A2C.Config.parse(SMALL))) as training:
        while not training.step()["episodes"]:
            pass
        checkpoint = training.save(tmp_path / "checkpoint")
        before = training.step()["episodes"]
    with Training.restore(checkpoint, announce=told.append) as training:
        assert training.step()["episodes"] == before
    assert told == []


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ("rlrun.toys:ConstantReward", 0),
        ({"id": "CliffWalking-v1", "max_episode_steps": 20}, 1),
        ({"id": "Pendulum-v1", "wrappers": ["rlrun.toys:PendulumImages"]}, 1),
    ],
)
def test_normalize_observations_warns_about_parts_that_cannot_be_normalized(env: Any, parts: int) -> None:
    told: list[str] = []
    settings = {
        **SMALL,
        "normalize_observations": True,
        "train_batch_size": 32,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 32,
    }
    with Training(EnvConfig.parse(env), PPO(PPO.Config.parse(settings)), announce=told.append) as training:
        training.step()
        described = "\n".join(training.description.networks(training.running.spaces()))
    said = [text for text in told if text.startswith("normalize_observations: there is nothing to normalize")]
    assert len(said) == parts
    assert described.count("normalize_observations: there is nothing") == parts


def test_the_refusal_of_an_undeclared_loss_statistic_says_where_to_declare_it(wording) -> None:
    with (
        Training(
            CARTPOLE,
            Secretive(Secretive.Config.parse({**SMALL, "train_batch_size": 64, "min_env_steps_per_iteration": 0})),
        ) as training,
        wording.raised(UsageError, "learner/surprise", "learner_metrics"),
    ):
        training.step()


def test_a_declared_metric_that_the_loss_does_not_return_causes_one_warning() -> None:
    config = Forgetful.Config.parse({**SMALL, "train_batch_size": 64, "min_env_steps_per_iteration": 0})
    assert announced(Forgetful(config), 2) == [
        "Forgetful declares the metric surprise in learner_metrics, but its loss does not return it as a statistic"
    ]
