"""Random actions, tabular Q-learning, value iteration and the cross-entropy method, by hand; resumes, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.evolution.candidates import Returns, perturbation
from rlrun.algorithms.evolution.cem import FitElites
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.config import SpecError
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.training import Training
from tests.rounding import rounding_error

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "cem": (
        "CartPole-v1",
        {"population_size": 6, "num_elites": 2, "num_envs_per_worker": 3, "min_env_steps_per_iteration": 0},
    ),
    "q_learning": ("FrozenLake-v1", {"num_envs_per_worker": 2, "min_env_steps_per_iteration": 50}),
    "random": ("rlrun.toys:MaskedGrid", {"num_envs_per_worker": 2, "min_env_steps_per_iteration": 50}),
    "value_iteration": ("FrozenLake-v1", {}),
}


def training_of(name: str, env: str | None = None, **settings: Any) -> Training:
    cls = algorithm_class(name)
    where, own = RUNS[name]
    return Training(EnvConfig(id=env or where), cls(cls.Config.parse({**own, **settings})), seed=3)


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_trains_and_evaluates_identically_to_an_uninterrupted_run(name: str, tmp_path: Path) -> None:
    training = training_of(name)
    training.step()
    training.save(tmp_path / "checkpoint")
    training.evaluate(2)
    expected = (
        training.step()["episode_return_mean"],
        training.evaluate(3).returns,
        training.running.trainee.learner.flat(),
    )
    training.close()
    restored = Training.restore(tmp_path / "checkpoint")
    found = (
        restored.step()["episode_return_mean"],
        restored.evaluate(3).returns,
        restored.running.trainee.learner.flat(),
    )
    assert found[:2] == expected[:2]
    assert found[2].tobytes() == expected[2].tobytes()
    restored.close()


def test_q_learning_updates_match_watkins_rule() -> None:
    training = training_of("q_learning", "CliffWalking-v1", lr=0.5, gamma=0.9, initial_value=2.0)
    table = np.full((48, 4), 2.0)
    for _ in range(4):
        item = next(training.running.flow)
        valid = item["valid"]
        rows = zip(
            item["obs"][:-1][valid], item["actions"][valid], item["rewards"][valid], item["obs"][1:][valid], strict=True
        )
        for state, action, reward, following in rows:  # no episode has ended at the goal yet
            table[state, action] += 0.5 * (reward + 0.9 * table[following].max() - table[state, action])
        assert not item["terminateds"].any()
    np.testing.assert_allclose(training.running.trainee.learner.flat().reshape(48, 4), table, rtol=rounding_error(4))
    training.close()


def test_q_learning_refuses_spaces_that_are_not_discrete(wording) -> None:
    training = training_of("q_learning", "rlrun.toys:ConstantReward", lr=1.0, gamma=0.5)
    with wording.raised(UsageError):
        training.step()
    training.close()


def test_value_iteration_finds_a_good_policy_without_env_steps() -> None:
    training = training_of("value_iteration")
    for _ in range(150):
        result = training.step()
    assert result["env_steps"] == 0
    assert result["sgd_steps"] == 150
    assert result["table/change"] < 1e-3
    assert training.evaluate(100).mean > 0.6
    training.close()


def test_a_table_is_not_described_as_a_network() -> None:
    assert training_of("q_learning").description.networks(training_of("q_learning").running.spaces()) == []


def test_value_iteration_refuses_an_env_without_a_model(wording) -> None:
    training = training_of("value_iteration", "rlrun.toys:BernoulliBandit")
    with wording.raised(UsageError):
        training.step()
    training.close()


def test_cem_fits_its_distribution_to_the_best_candidates() -> None:
    training = training_of("cem", added_sigma=0.1)
    trainee = training.running.trainee
    mean, deviation = trainee.learner.flat().reshape(2, -1)
    np.testing.assert_array_equal(deviation, 1.0)
    FitElites(trainee, 2)(Returns(4, np.arange(6, dtype=np.int32), np.array([1.0, 9.0, 2.0, 3.0, 8.0, 0.0])))
    elites = np.stack([mean + perturbation(trainee.seed, 4, i, len(mean)) for i in (1, 4)])
    found = trainee.learner.flat().reshape(2, -1)
    np.testing.assert_allclose(found[0], elites.mean(0), atol=rounding_error(4))
    np.testing.assert_allclose(found[1], np.sqrt(elites.var(0) + 0.01), atol=rounding_error(4))
    training.close()


def test_cem_does_not_depend_on_the_number_of_parallel_envs() -> None:
    found = []
    for num_envs in (1, 5):
        training = training_of("cem", num_envs_per_worker=num_envs)
        training.step()
        training.step()
        found.append(training.running.trainee.learner.flat().tobytes())
        training.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "rlrun.toys:MultiDiscreteMatch"])
def test_the_random_algorithm_acts_in_discrete_box_and_multidiscrete_spaces(env: str) -> None:
    training = training_of("random", env)
    assert training.step()["env_steps"] >= 50
    assert (
        len(
            {
                float(np.asarray(training.act(training.running.trainee.spaces.observation.sample())).sum())
                for _ in range(30)
            }
        )
        > 1
    )
    training.close()


def test_all_random_actions_are_equally_likely() -> None:
    training = training_of("random", "FrozenLake-v1", num_envs_per_worker=8, rollout_fragment_length=64)
    actions = np.concatenate([next(training.running.flow)["actions"].ravel() for _ in range(4)])
    shares = np.bincount(actions, minlength=4) / len(actions)
    np.testing.assert_allclose(shares, 0.25, atol=0.05)
    training.close()


def test_the_random_algorithm_also_acts_in_worlds() -> None:
    cls = algorithm_class("random")
    world = EnvConfig(world="rlrun.toys:TwoStepGame")
    with Training(world, cls(cls.Config.parse({"min_env_steps_per_iteration": 20}))) as training:
        assert training.step()["env_steps"] >= 20


@pytest.mark.parametrize("name", ["cem", "cmaes", "es", "ars", "q_learning", "value_iteration"])
def test_algorithms_that_cannot_learn_in_worlds_refuse_them(name: str, wording) -> None:
    cls = algorithm_class(name)
    with (
        Training(EnvConfig(world="rlrun.toys:TwoStepGame"), cls(cls.Config())) as training,
        wording.raised(UsageError, name),
    ):
        training.step()


def test_a_number_of_elites_equal_to_the_number_of_candidates_is_refused(wording) -> None:
    with wording.raised(SpecError, "num_elites", "population_size"):
        algorithm_class("cem").Config.parse({"population_size": 6, "num_elites": 6})
