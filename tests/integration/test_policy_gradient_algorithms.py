import numpy as np
import pytest

from rlrun import A2C, APPO, PG, PPO, Impala, Training
from tests.results import numbers
from tests.rounding import rounding_error

SMALL = {
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 8,
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 100,
    "model": {"hiddens": [8]},
    "normalize_observations": True,
    "lr": [[0, 1e-3], [2000, 0.0]],
    "entropy_coeff": [[0, 0.01], [2000, 0.0]],
}
SYNCHRONOUS = {
    "pg": {},
    "pg without baseline": {"use_baseline": False},
    "a2c": {"gae_lambda": 0.9, "microbatch_size": 20},
}
ASYNCHRONOUS = {
    "impala": {"num_epochs": 2, "minibatch_size": 32, "replay_proportion": 0.5, "replay_slots": 4},
    "appo": {"num_epochs": 2, "minibatch_size": 32, "target_update_interval": 2, "kl_coeff": 0.1},
    "ppo": {"asynchronous": True, "num_epochs": 2, "minibatch_size": 32},
}
ALGORITHMS = SYNCHRONOUS | ASYNCHRONOUS
CLASSES = {"pg": PG, "a2c": A2C, "impala": Impala, "appo": APPO, "ppo": PPO}
ENVS = {
    "discrete": "CartPole-v1",
    "continuous": {"id": "Pendulum-v1", "max_episode_steps": 25},
    "dict": "rlrun.toys:DictCartPole",
}


def small_training(name, env, seed=0, **changes):
    algorithm = CLASSES[name.split()[0]](**{**SMALL, **ALGORITHMS[name], **changes})
    return Training(env, algorithm, seed=seed)


@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_a_restored_synchronous_run_continues_bit_for_bit(name, env, tmp_path):
    with small_training(name, env, seed=4) as training:
        first = [numbers(training.step()) for _ in range(3)]
        training.save(tmp_path / "checkpoint")
        expected = [numbers(training.step()) for _ in range(3)]
        weights = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert [numbers(restored.step()) for _ in range(3)] == expected
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), weights)
    check_progress([*first, *expected])


@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_a_restored_asynchronous_run_keeps_its_counters_and_parameters(name, env, tmp_path):
    with small_training(name, env, seed=4) as training:
        first = [numbers(training.step()) for _ in range(3)]
        training.save(tmp_path / "checkpoint")
        weights, target = training.running.trainee.learner.flat(), training.running.trainee.learner.target()
    with Training.restore(tmp_path / "checkpoint") as restored:
        restored.start()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), weights)
        if target is not None:
            np.testing.assert_array_equal(restored.running.trainee.learner.target(), target)
        check_progress([*first, *(numbers(restored.step()) for _ in range(3))])


def test_appo_needs_no_target_outputs_if_its_single_update_starts_from_the_target():
    found = []
    for minibatch_size in (None, 64):  # a whole batch both times, but with 64 this is not known in advance
        with small_training(
            "appo", "CartPole-v1", num_epochs=1, minibatch_size=minibatch_size, target_update_interval=1
        ) as one:
            operators = [step.name for step in one.running.flow.describe()]
            assert ("AddTargetOutputs" in operators) is (minibatch_size is not None)
            for _ in range(3):
                one.step()
            found.append(one.running.trainee.learner.flat())
    np.testing.assert_allclose(found[0], found[1], atol=rounding_error(64))


def check_progress(results):
    assert [result["iteration"] for result in results] == list(range(1, len(results) + 1))
    assert np.diff([0] + [result["env_steps"] for result in results]).min() >= 100
    for counter in ("sgd_steps", "weights_version"):
        assert np.diff([0] + [result[counter] for result in results]).min() > 0
    for result in results:
        assert all(np.isfinite(result[f"learner/{name}"]) for name in ("grad_norm", "value_loss", "entropy"))
        assert result["policy_lag_max"] >= result["policy_lag_mean"] >= 0
