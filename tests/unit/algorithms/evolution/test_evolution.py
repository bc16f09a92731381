"""ES, ARS and CMA-ES: equal runs with any number of envs, their steps by hand, exact resume, refusals."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rlrun
from rlrun.algorithms.evolution.ars import ARS, ARSConfig, FollowBestPairs
from rlrun.algorithms.evolution.candidates import EvaluationWorkerConfig, MirroredPairs, Returns, perturbation
from rlrun.algorithms.evolution.cmaes import CMAES, CMAESConfig
from rlrun.algorithms.evolution.es import ES, ESConfig, FollowRanks
from rlrun.algorithms.evolution.evaluation_worker import EvaluationWorker
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.settings.config import SpecError
from rlrun.engine.training.training import Training
from tests.rounding import rounding_error

ALGORITHMS: dict[str, tuple[type[Algorithm[Any]], type[Any], dict[str, Any]]] = {
    "es": (ES, ESConfig, {"num_pairs": 4, "model": {"hiddens": [4]}, "normalize_observations": True}),
    "ars": (ARS, ARSConfig, {"num_pairs": 4, "top_pairs": 2}),
    "cmaes": (CMAES, CMAESConfig, {"population_size": 6}),
}


def training_of(name: str, env: str = "CartPole-v1", **settings: Any) -> Training:
    algorithm, config, own = ALGORITHMS[name]
    return Training(
        EnvConfig(id=env), algorithm(config.parse({**own, "min_env_steps_per_iteration": 0, **settings})), seed=3
    )


def parameters(training: Training, iterations: int) -> bytes:
    for _ in range(iterations):
        training.step()
    return training.running.trainee.learner.flat().tobytes()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_results_do_not_depend_on_the_number_of_envs_per_worker(name: str) -> None:
    found = []
    for num_envs in (1, 3, 16):
        training = training_of(name, num_envs_per_worker=num_envs)
        found.append(parameters(training, 3))
        training.close()
    assert found[0] == found[1] == found[2]


class Quadratic(gymnasium.Env[Any, Any]):
    """One step, which costs the squared distance of four actions to 0.9, near their bound of 1."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), -float(np.square(action - 0.9).sum()), True, False, {}


def test_cmaes_recovers_from_parameters_whose_actions_are_clipped() -> None:
    found = []
    for num_envs in (3, 8):
        training = training_of("cmaes", f"{__name__}:Quadratic", sigma=3.0, num_envs_per_worker=num_envs)
        found.append(parameters(training, 5))
        if num_envs == 8:
            parameters(training, 150)
            assert training.step()["generation/return_max"] > -1e-5
        training.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_evaluation_uses_the_current_policy_even_after_a_restore(name: str, tmp_path: Path) -> None:
    training = training_of(name)
    for _ in range(3):
        training.step()
        found = training.evaluate(3)
    training.save(tmp_path / "checkpoint")
    training.close()
    restored = Training.restore(tmp_path / "checkpoint")
    assert restored.evaluate(3).returns == found.returns
    restored.close()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_restored_run_continues_exactly(name: str, tmp_path: Path) -> None:
    training = training_of(name)
    parameters(training, 2)
    training.save(tmp_path / "checkpoint")
    expected = parameters(training, 2)
    training.close()
    restored = Training.restore(tmp_path / "checkpoint")
    assert parameters(restored, 2) == expected
    restored.close()


def test_an_ars_step_follows_the_best_pairs_scaled_by_the_deviation_of_their_returns() -> None:
    training = training_of("ars", lr=0.5)
    trainee = training.running.trainee
    before = trainee.learner.flat()
    returns = np.array([1.0, 2.0, 9.0, 5.0, 0.0, 3.0, 4.0, 6.0])
    FollowBestPairs(trainee, 2)(Returns(7, np.arange(8, dtype=np.int32), returns))
    # Pairs 1 (9 and 5) and 3 (4 and 6) have the highest returns.
    noise = [perturbation(trainee.seed, 7, pair, len(before)) for pair in (1, 3)]
    expected = 0.5 / (2 * np.std([9.0, 5.0, 4.0, 6.0])) * ((9 - 5) * noise[0] + (4 - 6) * noise[1])
    np.testing.assert_allclose(trainee.learner.flat() - before, expected, atol=rounding_error(8))
    training.close()


def test_ars_leaves_parameters_unchanged_if_all_returns_are_equal() -> None:
    training = training_of("ars")
    before = training.running.trainee.learner.flat()
    FollowBestPairs(training.running.trainee, 4)(Returns(0, np.arange(8, dtype=np.int32), np.full(8, 10.0)))
    np.testing.assert_array_equal(training.running.trainee.learner.flat(), before)
    training.close()


def test_the_first_es_step_moves_each_parameter_by_lr_in_the_ranked_direction() -> None:
    training = training_of("es", lr=0.01, weight_decay=0.0)
    trainee = training.running.trainee
    before = trainee.learner.flat()
    FollowRanks(trainee, 0.0)(Returns(2, np.arange(8, dtype=np.int32), np.array([1e6, 0, 1, 2, 3, 4, 5, 6])))
    ranks = np.array([3.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5]).reshape(4, 2) / 7
    direction = sum(
        (up - down) * perturbation(trainee.seed, 2, pair, len(before)) for pair, (up, down) in enumerate(ranks)
    )
    # Adam's first step moves each number by lr in the direction of the gradient.
    np.testing.assert_allclose(trainee.learner.flat() - before, 0.01 * np.sign(direction), atol=1e-5)
    training.close()


def test_weight_decay_pulls_parameters_toward_zero_if_all_returns_are_equal() -> None:
    training = training_of("es", lr=0.01)
    trainee = training.running.trainee
    before = trainee.learner.flat()
    FollowRanks(trainee, 0.005)(Returns(0, np.arange(8, dtype=np.int32), np.zeros(8)))
    moved = trainee.learner.flat() - before
    large = np.abs(before) > 1e-3
    np.testing.assert_array_equal(np.sign(moved[large]), -np.sign(before[large]))
    training.close()


@pytest.mark.parametrize("hiddens", [(4,), (256, 256)])
def test_workers_return_at_most_64_bytes_per_evaluation_for_any_network_size(hiddens: tuple[int, ...]) -> None:
    training = training_of("es", num_pairs=64, model={"hiddens": list(hiddens)}, normalize_observations=False)
    trainee = training.running.trainee
    env = EnvConfig(id="CartPole-v1")
    common = WorkerConfig(env, 16, 1, 3, {"default": trainee.policy.behavior()}, {"default": RewardSettings(0.99)})
    worker = EvaluationWorker(EvaluationWorkerConfig(**vars(common), candidates=MirroredPairs(64)))
    worker.follow(Orders({"default": trainee.weights()}))
    rollout = worker.sample()
    assert len(pickle.dumps(rollout)) <= 64 * 128
    worker.close()
    training.close()


class Counts(gymnasium.Env[Any, Any]):
    """Five steps, which are counted in observations from 0 to 4; the reward is the action."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    scale, shift, elapsed = 1, 0, 0

    def shown(self) -> Any:
        return np.array([self.scale * self.elapsed + self.shift], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.elapsed = 0
        return self.shown(), {}

    def step(self, action: Any) -> Any:
        self.elapsed += 1
        return self.shown(), float(action[0]), self.elapsed == 5, False, {}


class CountsInFours(Counts):
    """The same with observations from 64 to 80."""

    scale, shift = 4, 64


def test_observations_are_normalized_with_the_statistics_of_earlier_generations() -> None:
    found = []
    for env in (Counts, CountsInFours):
        training = training_of("es", f"{__name__}:{env.__name__}", lr=0.0)  # the parameters do not change
        found.append([training.step()["generation/return_mean"] for _ in range(2)])
        (moments,) = training.running.trainee.filters.moments.values()
        (sent,) = training.running.trainee.weights().filters.values()
        for own in (moments, sent):
            assert own.count == 2 * 8 * 5  # generations, candidates and steps
            assert own.mean == pytest.approx(env.scale * 2 + env.shift)
            assert own.variance == pytest.approx(env.scale**2 * 2)
        training.close()
    (first, then), (other_first, other_then) = found
    assert then == pytest.approx(other_then, rel=1e-4)
    assert first != pytest.approx(other_first, rel=0.1)


def test_candidates_can_act_in_every_kind_of_action_space() -> None:
    for env in ("Pendulum-v1", "rlrun.toys:MaskedGrid"):
        training = training_of("es", env=env)
        assert np.isfinite(training.step()["generation/return_mean"])
        training.close()


def test_results_with_recurrent_networks_do_not_depend_on_the_number_of_envs() -> None:
    found = []
    for num_envs in (1, 5):
        training = training_of("es", num_envs_per_worker=num_envs, model={"hiddens": [4], "core": "gru"})
        found.append(parameters(training, 2))
        training.close()
    assert found[0] == found[1]


def test_top_pairs_above_num_pairs_and_too_small_a_population_are_refused(wording) -> None:
    with wording.raised(SpecError, "top_pairs", "num_pairs"):
        ARSConfig.parse({"top_pairs": 9})
    with wording.raised(SpecError, "population_size"):
        CMAESConfig.parse({"population_size": 3})


def test_cmaes_refuses_networks_whose_covariance_would_be_too_large(wording) -> None:
    training = training_of("cmaes", model={"hiddens": [64, 64]})
    with wording.raised(UsageError, "1,000", "4,610"):
        training.step()
    training.close()


def test_settings_of_loss_based_training_are_refused_with_the_reason(wording) -> None:
    with wording.raised(SpecError):
        ESConfig.parse({"max_grad_norm": 1.0})
    with wording.raised(SpecError):
        ESConfig.parse({"gamma": 0.9})


def test_step_info_columns_are_summed_over_each_episode() -> None:
    # On a ring of one cell, a step in the fast lane pays 1 more than a step in the slow lane and costs 0.2.
    env = {"id": "rlrun.toys:TwoLanes", "kwargs": {"num_cells": 1}, "columns": ["cost"]}
    with rlrun.Training(
        env, rlrun.ES(num_pairs=4, num_envs_per_worker=3, min_env_steps_per_iteration=0), seed=3
    ) as training:
        result = training.step()
    assert result["episode_return_mean"] > 10.0
    assert result["episode_columns/cost_mean"] == pytest.approx(0.2 * (result["episode_return_mean"] - 10.0))
