import numpy as np
import pytest

from rlrun import A2C, A3C, Training
from rlrun.algorithms.a3c import A3CConfig
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.training.save import saved_state
from tests.rounding import rounding_error

SMALL = {
    "num_envs_per_worker": 4,
    "train_batch_size": 32,
    "min_env_steps_per_iteration": 100,
    "model": {"hiddens": [8]},
    "lr": [[0, 1e-2], [2000, 1e-3]],
    "entropy_coeff": [[0, 0.05], [2000, 0.0]],
}
ENVS = {
    "discrete": "CartPole-v1",
    "continuous": {"id": "Pendulum-v1", "max_episode_steps": 25},
    "dict": "rlrun.toys:DictCartPole",
}


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_a3c_with_only_the_local_worker_matches_a2c(env, standardize):
    config = {**SMALL, "standardize_advantages": standardize, "normalize_observations": True, "gae_lambda": 0.9}
    found = []
    for algorithm_class in (A2C, A3C):
        with Training(env, algorithm_class(**config), seed=3) as training:
            results = [training.step() for _ in range(5)]
            found.append((training.running.trainee.learner.flat(), results))
    (flat, expected), (own_flat, results) = found
    np.testing.assert_allclose(own_flat, flat, atol=rounding_error(32))
    for own, other in zip(results, expected, strict=True):
        for name in ("env_steps", "sgd_steps", "episodes", "weights_version", "policy_lag_max"):
            assert own[name] == other[name]
        assert own["learner/entropy_coeff"] == other["learner/entropy_coeff"]
        for name in ("learner/value_loss", "learner/grad_norm"):
            assert own[name] == pytest.approx(other[name], rel=rounding_error(32))
        assert own["gradient_share/worker_0"] == 1.0


def test_a_changed_entropy_coefficient_affects_the_gradients():
    flats = []
    for entropy_coeff in (0.0, 0.5):
        with Training("CartPole-v1", A3C(**{**SMALL, "entropy_coeff": 0.0}), seed=3) as training:
            training.step()
            assert training.reconfigure(A3C(training.description.algorithm.config.replace(entropy_coeff=entropy_coeff)))
            training.step()
            flats.append(training.running.trainee.learner.flat())
    assert np.abs(flats[0] - flats[1]).max() > 1e-4


def test_weights_adopted_from_another_run_replace_those_of_the_learner_and_the_workers(tmp_path):
    with Training("CartPole-v1", A3C(**SMALL), seed=1) as other:
        other.step()
        other.save(tmp_path / "checkpoint")
        flat = other.running.trainee.learner.flat()
    with Training("CartPole-v1", A3C(**{**SMALL, "lr": 0.0}), seed=2) as training:
        training.step()
        saved_state.adopt(training.running, read_checkpoint(tmp_path / "checkpoint"))
        result = training.step()
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), flat)
    assert result["policy_lag_max"] == 0


def test_a_resumed_run_with_the_local_worker_matches_an_uninterrupted_run(tmp_path):
    with Training("CartPole-v1", A3C(**SMALL), seed=4) as training:
        for _ in range(2):
            training.step()
        training.save(tmp_path / "checkpoint")
        flat = training.running.trainee.learner.flat()
        expected = training.step()
    with Training.restore(tmp_path / "checkpoint") as restored:
        restored.start()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)
        result = restored.step()
    assert result["iteration"] == 3
    for name in ("env_steps", "sgd_steps", "episode_return_mean", "learner/grad_norm"):
        assert result[name] == expected[name]


def test_a3c_refuses_gpus_and_several_learners(wording):
    with wording.raised(SpecError, "num_gpus"):
        A3CConfig(num_gpus=1)
    with wording.raised(SpecError, "num_learners"):
        A3CConfig(num_learners=2)


def test_the_plan_says_what_runs_on_the_workers():
    plan = Training("CartPole-v1", A3C(num_workers=2, standardize_advantages=True)).description.plan().describe()
    assert [info.name for info in plan] == [
        "parallel_rollouts",
        "zip_with_worker",
        "ApplyGradients",
        "MergeFilters",
        "zip_with_worker",
        "SendWeights",
    ]
    assert plan[0].settings == {"workers": 2, "mode": "async", "in_flight": 1}
    assert [name for name, _ in plan[0].on_workers] == ["ComputeAdvantages", "Standardize", "ComputeGradients"]
