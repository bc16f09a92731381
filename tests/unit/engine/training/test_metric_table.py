"""Every metric is declared once, and results contain exactly the declared metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import rlrun
from rlrun.algorithms.ppo import PPO
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.flow import Operator
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay import RESTARTS
from rlrun.engine.reward_streams.streams import (
    CONSTRAINT_METRICS,
    CURIOSITY_METRICS,
    INTRINSIC_REWARD,
    MULTIPLIER,
    NOVELTY_METRICS,
)
from rlrun.engine.settings.metric import Metric
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class
from rlrun.engine.training.assemble.description import ANY_ENV, Description
from rlrun.engine.training.assemble.metric_table import operator_metrics
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training

SMALL = {"model": {"hiddens": [8]}, "num_envs_per_worker": 2, "compile": False}
ON_POLICY = {**SMALL, "train_batch_size": 64, "rollout_fragment_length": 32, "min_env_steps_per_iteration": 0}
REPLAY = {
    **SMALL,
    "minibatch_size": 32,
    "learning_starts": 20,
    "rollout_fragment_length": 4,
    "min_env_steps_per_iteration": 60,
}
OFTEN = {"policy_delay": 2, "training_intensity": 0.5}
DYNAMICS = {"num_members": 3, "num_elites": 2, "hiddens": [8], "fit_interval": 30, "max_epochs": 2}
DREAMER = {
    "model": {"size": "nano"},
    "minibatch_size": 2,
    "horizon": 3,
    "learning_starts": 20,
    "min_env_steps_per_iteration": 60,
    "training_intensity": 0.1,
    "replay": {"length": 4, "stride": 1, "capacity": 2000},
}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "A2C": ("CartPole-v1", ON_POLICY),
    "A3C": ("CartPole-v1", ON_POLICY),
    "APPO": ("CartPole-v1", ON_POLICY),
    "ARS": ("CartPole-v1", {"num_pairs": 2, "min_env_steps_per_iteration": 0}),
    "AWAC": ("Pendulum-v1", REPLAY),
    "Apex": ("CartPole-v1", REPLAY),
    "ApexDDPG": ("Pendulum-v1", REPLAY),
    "AsyncDQN": ("CartPole-v1", {**SMALL, "min_env_steps_per_iteration": 60}),
    "Archer": (
        "rlrun.toys:TwentyQuestions",
        {
            **SMALL,
            "train_batch_size": 64,
            "learning_starts": 20,
            "min_env_steps_per_iteration": 64,
            "replay": {"capacity": 2000, "length": 4, "stride": 4},
        },
    ),
    "BCQ": ("CartPole-v1", REPLAY),
    "CEM": ("CartPole-v1", {"population_size": 4, "num_elites": 2, "min_env_steps_per_iteration": 0}),
    "CMAES": ("CartPole-v1", {"population_size": 4, "min_env_steps_per_iteration": 0}),
    "CQL": ("Pendulum-v1", {**REPLAY, "num_sampled_actions": 2}),
    "CRR": ("Pendulum-v1", REPLAY),
    "CrossQ": ("Pendulum-v1", {**REPLAY, "model": {"hiddens": (8,), "critic_hiddens": (8,)}}),
    "DAgger": ("CartPole-v1", {**REPLAY, "expert": "rlrun.toys:balance_pole"}),
    "DDPG": ("Pendulum-v1", REPLAY),
    "DPO": ("rlrun.toys:TwentyQuestions", {**ON_POLICY, "minibatch_size": 56, "seq_len": 28}),
    "DDPPO": ("CartPole-v1", {**SMALL, "train_batch_size": 64, "min_env_steps_per_iteration": 0, "minibatch_size": 32}),
    "DQN": ("CartPole-v1", REPLAY),
    "Dreamer": ("CartPole-v1", DREAMER),
    "DroQ": ("Pendulum-v1", {**REPLAY, **OFTEN}),
    "ES": ("CartPole-v1", {"num_pairs": 2, "min_env_steps_per_iteration": 0}),
    "FilteredBC": ("CartPole-v1", {**ON_POLICY, "minibatch_size": 16}),
    "GAIL": ("CartPole-v1", {**ON_POLICY, "minibatch_size": 32, "expert": "configs/cartpole/data/expert"}),
    "GRPO": ("CartPole-v1", {**ON_POLICY, "minibatch_size": 32, "num_envs_per_worker": 2, "group_size": 2}),
    "Gorila": ("CartPole-v1", REPLAY),
    "IPPO": ("CartPole-v1", {**ON_POLICY, "minibatch_size": 32}),
    "IQL": ("Pendulum-v1", REPLAY),
    "IQN": ("CartPole-v1", REPLAY),
    "Impala": ("CartPole-v1", ON_POLICY),
    "LinTS": ("rlrun.toys:LinearBandit", {"min_env_steps_per_iteration": 10}),
    "LinUCB": ("rlrun.toys:LinearBandit", {"min_env_steps_per_iteration": 10}),
    "MAML": ("CartPole-v1", {**SMALL, "rollout_fragment_length": 8, "tasks_per_update": 2}),
    "MBMPO": (
        "CartPole-v1",
        {
            **SMALL,
            "rollout_fragment_length": 30,
            "imagined_length": 8,
            "meta_updates": 1,
            "min_env_steps_per_iteration": 60,
            "dynamics": DYNAMICS,
        },
    ),
    "MBPO": ("Pendulum-v1", {**REPLAY, "rollouts_per_env_step": 2, "training_intensity": 1, "dynamics": DYNAMICS}),
    "NPG": ("CartPole-v1", ON_POLICY),
    "PG": ("CartPole-v1", ON_POLICY),
    "PPG": ("CartPole-v1", {**ON_POLICY, "minibatch_size": 32, "policy_iterations": 1}),
    "PQN": ("CartPole-v1", {**SMALL, "train_batch_size": 32, "minibatch_size": 16, "min_env_steps_per_iteration": 60}),
    "PPO": ("CartPole-v1", {**ON_POLICY, "minibatch_size": 32}),
    "QLearning": ("FrozenLake-v1", {"min_env_steps_per_iteration": 60}),
    "QTOpt": ("Pendulum-v1", {**REPLAY, "cem_samples": 8, "cem_elites": 2}),
    "R2D2": ("CartPole-v1", {**REPLAY, "replay": {"capacity": 2000, "burn_in": 2, "length": 4}}),
    "RLOO": ("CartPole-v1", {**ON_POLICY, "minibatch_size": 32, "num_envs_per_worker": 2, "group_size": 2}),
    "REDQ": ("Pendulum-v1", {**REPLAY, **OFTEN}),
    "RLHF": ("rlrun.toys:TwentyQuestions", {**ON_POLICY, "minibatch_size": 32, "seq_len": 28}),
    "Random": ("CartPole-v1", {"min_env_steps_per_iteration": 60}),
    "SAC": ("Pendulum-v1", REPLAY),
    "FlashSAC": ("Pendulum-v1", {**REPLAY, "model": {"hiddens": (8,), "critic_hiddens": (8,)}}),
    "XQC": ("Pendulum-v1", {**REPLAY, "model": {"hiddens": (8,), "critic_hiddens": (8,)}}),
    "SimBa": ("Pendulum-v1", {**REPLAY, "model": {"hiddens": (8,), "critic_hiddens": (8,)}}),
    "SlateQ": ("rlrun.toys:InterestEvolution", REPLAY),
    "TD3": ("Pendulum-v1", REPLAY),
    "TD3BC": ("Pendulum-v1", REPLAY),
    "TQC": ("Pendulum-v1", {**REPLAY, "num_quantiles": 5}),
    "TRPO": ("CartPole-v1", ON_POLICY),
    "ValueIteration": ("FrozenLake-v1", {}),
}
FROM_DATA = {"model": {"hiddens": (8,)}, "sgd_steps_per_iteration": 2, "compile": False}
RUNS_FROM_DATA: dict[str, dict[str, Any]] = {
    "BC": FROM_DATA,
    "DT": {**FROM_DATA, "model": {}, "embedding": 8, "context_length": 3},
    "MARWIL": FROM_DATA,
    "RLPD": {**FROM_DATA, "policy_delay": 1},
    "RewardModel": {**FROM_DATA, "pairs": 1, "held_out_pairs": 1},
}
"""Settings of the algorithms that learn from recorded data of CartPole alone."""

RUNS_IN_A_WORLD = {
    "alphazero": {**REPLAY, "simulations": 4, "gate": {"every": 20, "games": 2}},
    "maddpg": REPLAY,
    "mappo": {**ON_POLICY, "minibatch_size": 32},
    "qmix": REPLAY,
    "vdn": REPLAY,
}


@pytest.mark.parametrize("name", RUNS)
def test_results_contain_exactly_the_declared_metrics(name: str) -> None:
    env, config = RUNS[name]
    with rlrun.Training(env, getattr(rlrun, name)(**config)) as training:
        declared = training.description.metrics()
        result = [training.step() for _ in range(2)][-1]
    undeclared = [key for key in result if not any(metric.matches(key) for metric in declared)]
    missing = [metric.name for metric in declared if not metric.is_pattern and metric.name not in result]
    assert undeclared == []
    assert missing == []


@pytest.mark.regress
@pytest.mark.parametrize("name", RUNS)
def test_kernels_cover_the_updates_of_every_algorithm_with_vector_or_text_networks(name: str) -> None:
    env, config = RUNS[name]
    algorithm = getattr(rlrun, name)(**{key: value for key, value in config.items() if key != "compile"})
    said: list[str] = []
    with Training(EnvConfig(id=env), algorithm, announce=said.append) as training:
        training.step()
        training.step()
    assert not [each for each in said if "separate torch operations" in each]


@pytest.mark.parametrize("name", RUNS_FROM_DATA)
def test_results_of_offline_training_contain_exactly_the_declared_metrics(name: str, tmp_path: Path) -> None:
    with SetWriter(tmp_path / "data", Box(-1, 1, (4,)), Discrete(2)) as writer:
        flags = np.zeros(9, np.bool_)
        columns = {"actions": np.arange(9) % 2, "rewards": np.ones(9), "terminateds": flags, "truncateds": flags}
        for _ in range(4):
            writer.add_episode({"obs": np.ones((10, 4), np.float32), **columns})
    with Training(None, getattr(rlrun, name)(input=str(tmp_path / "data"), **RUNS_FROM_DATA[name])) as training:
        declared = training.description.metrics()
        result = [training.step() for _ in range(2)][-1]
    assert [key for key in result if not any(metric.matches(key) for metric in declared)] == []
    assert [metric.name for metric in declared if not metric.is_pattern and metric.name not in result] == []


WORLDS = dict.fromkeys(RUNS_IN_A_WORLD, "rlrun.toys:TwoStepGame") | {"alphazero": "rlrun.toys:TicTacToe"}


@pytest.mark.parametrize("name", RUNS_IN_A_WORLD)
def test_results_of_training_in_a_world_contain_exactly_the_declared_metrics(name: str) -> None:
    cls = algorithm_class(name)
    world = EnvConfig(world=WORLDS[name])
    with Training(world, cls(cls.Config.parse(RUNS_IN_A_WORLD[name]))) as training:
        declared = training.description.metrics()
        result = [training.step() for _ in range(2)][-1]
    assert [key for key in result if not any(metric.matches(key) for metric in declared)] == []
    learned = {f"policies/default/learner/{metric.name}" for metric in cls.learner_metrics}
    assert learned <= set(result)


def test_metric_tests_cover_every_built_in_algorithm_except_those_that_need_a_file() -> None:
    classes = {path.rpartition(":")[2] for name, path in BUILT_IN.items() if name not in RUNS_IN_A_WORLD}
    assert classes - set(RUNS) - set(RUNS_FROM_DATA) == {"Distill", "R2D3"}


def test_two_parts_that_declare_metrics_of_the_same_name_are_refused(wording) -> None:
    class Twice(Operator):
        declared_metrics = (Metric("sgd_steps", "", "Something else"),)

        def __call__(self, item: object) -> object:
            return item

    class Clashing(PPO):
        operator_metrics = Twice.declared_metrics

    training = Training(EnvConfig(id="CartPole-v1"), Clashing(Clashing.Config()))
    with wording.raised(UsageError, "sgd_steps"):
        training.description.metrics()


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in BUILT_IN),
    ("alphazero", {"gate": {}}),
    ("alphazero", {"ranked_returns": {}}),
    ("ppo", {"curiosity": {"kind": "rnd"}, "constraint": {"column": "cost", "limit": 1}}),
    ("ppo", {"curiosity": {"kind": "re3"}}),
    ("rlpd", {"input": "configs/cartpole/data/expert"}),
    ("awac", {"input": [{"path": "configs/cartpole/data/expert", "share": 0.5}]}),
]


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_algorithms_list_the_metrics_that_their_operators_declare(name: str, settings: dict[str, Any]) -> None:
    algorithm = algorithm_class(name)(**settings)
    declared = Description(ANY_ENV, Policies.alone(algorithm)).plan().declared_metrics()
    assert set(declared) == set(operator_metrics(algorithm)) - OF_LEARNERS


OF_LEARNERS = {*CURIOSITY_METRICS, *NOVELTY_METRICS, *CONSTRAINT_METRICS} - {INTRINSIC_REWARD, MULTIPLIER}
"""Metrics of reward streams that the learner reports, not an operator."""


def test_an_algorithm_that_does_not_list_the_metrics_of_its_operators_is_refused() -> None:
    class Measuring(Operator):
        declared_metrics = (Metric("measured", "", "Something"),)

        def __call__(self, item: object) -> object:
            return item

    class Unnamed(PPO):
        def learn(self, fragments, trainee):
            return super().learn(fragments, trainee).for_each(Measuring())

    with pytest.raises(UsageError, match="dataflow operators report measured; operator_metrics must"):
        Description(ANY_ENV, Policies.alone(Unnamed())).plan()


def test_replay_shard_metrics_are_declared_only_with_remote_workers() -> None:
    alone, shared = (algorithm_class("apex")(num_workers=number) for number in (0, 2))
    assert set(operator_metrics(shared)) - set(operator_metrics(alone)) == {RESTARTS}


def test_listing_declared_metrics_does_not_create_the_env() -> None:
    training = Training(EnvConfig(id="nobody:makes_this_env"), PPO(PPO.Config()))
    assert "learner/kl" in {metric.name for metric in training.description.metrics()}
