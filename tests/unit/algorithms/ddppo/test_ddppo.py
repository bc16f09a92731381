import numpy as np
import pytest

from rlrun import DDPPO, PPO, Training
from rlrun.algorithms.ddppo.ddppo import DDPPOConfig
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.training.save import saved_state
from tests.results import numbers
from tests.rounding import rounding_error

SMALL = {
    "num_envs_per_worker": 4,
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 2,
    "model": {"hiddens": [8]},
    "normalize_observations": True,
    "lr": [[0, 1e-2], [2000, 1e-3]],
    "entropy_coeff": [[0, 0.05], [2000, 0.0]],
}
ENVS = {
    "discrete": "CartPole-v1",
    "continuous": {"id": "Pendulum-v1", "max_episode_steps": 25},
    "dict": "rlrun.toys:DictCartPole",
}


@pytest.mark.parametrize(
    "settings",
    [{}, {"early_stop_kl": 1e-4}, {"recompute_advantages": True, "lr": {"adaptive_kl": 0.01}}],
    ids=["plain", "early stop", "recomputed, adaptive"],
)
@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_ddppo_with_only_the_local_worker_matches_ppo(env, settings):
    found = []
    for algorithm_class in (PPO, DDPPO):
        with Training(env, algorithm_class(**{**SMALL, **settings}), seed=3) as training:
            results = [numbers(training.step()) for _ in range(4)]
            found.append(
                (
                    training.running.trainee.learner.flat(),
                    training.running.trainee.learner.optimizer_state(),
                    results,
                )
            )
    (flat, optimizer, expected), (own_flat, own_optimizer, results) = found
    np.testing.assert_allclose(own_flat, flat, atol=rounding_error(32))
    for name, tensor in optimizer.items():
        near = rounding_error(32)
        np.testing.assert_allclose(own_optimizer[name], tensor, rtol=near, atol=near)
    for own, other in zip(results, expected, strict=True):
        assert [name for name in own if own[name] is None] == [name for name in other if other[name] is None]
        for name, value in own.items():
            near = rounding_error(64)
            assert value is None or value == pytest.approx(other[name], rel=near, abs=near), name
        assert own.keys() == other.keys()


@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_a_restored_run_continues_bit_for_bit(env, tmp_path):
    with Training(env, DDPPO(**SMALL), seed=4) as training:
        for _ in range(3):
            training.step()
        training.save(tmp_path / "checkpoint")
        expected = [numbers(training.step()) for _ in range(3)]
        flat = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert [numbers(restored.step()) for _ in range(3)] == expected
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)


def test_adopting_another_runs_checkpoint_updates_the_workers_learner(tmp_path):
    with Training("CartPole-v1", DDPPO(**SMALL), seed=1) as other:
        for _ in range(2):
            other.step()
        other.save(tmp_path / "checkpoint")
        optimizer, flat = other.running.trainee.learner.optimizer_state(), other.running.trainee.learner.flat()
    with Training("CartPole-v1", DDPPO(**{**SMALL, "lr": 0.0}), seed=2) as training:
        training.step()
        saved_state.adopt(training.running, read_checkpoint(tmp_path / "checkpoint"))
        assert training.step()["sgd_steps"] == 12
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), flat)
        own = training.running.trainee.learner.optimizer_state()
        assert own["loss/steps"] == 12.0 == optimizer["loss/steps"] + 4
        # Adam's running mean of squares decays by a thousandth in each step.
        assert (own["loss/second"] >= optimizer["loss/second"] * 0.999**4 - 1e-12).all()


def test_reconfiguring_schedules_updates_the_workers_learner():
    with Training("CartPole-v1", DDPPO(**SMALL), seed=2) as training:
        training.step()
        assert training.reconfigure(DDPPO(training.description.algorithm.config.replace(lr=0.0)))
        training.step()
        flat = training.running.trainee.learner.flat()
        training.step()
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), flat)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"asynchronous": True}, "cannot be set here, because the rollout workers learn in lockstep"),
        ({"num_gpus": 3, "num_workers": 2}, r"num_gpus \(3\) must not exceed num_workers \(2\)"),
        ({"num_learners": 2}, "cannot be set here, because the rollout workers do the learning themselves"),
        (
            {"max_worker_restarts": 1},
            ("cannot be set here, because the other workers cannot continue if one dies"),
        ),
        ({"num_workers": 70}, r"minibatch_size \(64\) must be at least num_workers"),
        ({"rollout_fragment_length": 10, "num_workers": 2}, "leave out rollout_fragment_length, or .* to 160"),
    ],
    ids=str,
)
def test_settings_incompatible_with_lockstep_learning_are_refused(settings, message):
    with pytest.raises(SpecError, match=message):
        DDPPOConfig(**settings)


def test_the_plan_of_ddppo_has_no_central_learner():
    plan = Training("CartPole-v1", DDPPO(num_workers=2)).description.plan().describe()
    assert [info.name for info in plan] == [
        "parallel_rollouts",
        "zip_with_worker",
        "MirrorReplicas",
        "MergeFilters",
        "BroadcastWeights",
    ]
    assert [name for name, _ in plan[0].on_workers] == ["ComputeAdvantages", "AllReduceSGD"]
