import sys
import time

import numpy as np
import pytest

from rlrun import PPO, Training
from rlrun.engine.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import (
    CheckpointCorrupt,
    CheckpointError,
    CheckpointRefused,
    CompilerMissing,
    UsageError,
)
from rlrun.engine.training.save import saved_state
from tests.results import numbers

SMALL = {
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 2,
    "num_envs_per_worker": 4,
    "model": {"hiddens": [8]},
}


def train(training, iterations):
    return [numbers(training.step()) for _ in range(iterations)]


ENVS = {
    "discrete": "CartPole-v1",
    "continuous": {"id": "Pendulum-v1", "max_episode_steps": 25},
    "dict": "rlrun.toys:DictCartPole",
    "discrete observation": "FrozenLake-v1",
}


@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_a_restored_training_continues_bit_for_bit(env, tmp_path):
    config = {**SMALL, "normalize_observations": True, "normalize_rewards": True, "lr": [[0, 1e-3], [500, 0.0]]}
    with Training(env, PPO(**config), seed=4) as training:
        train(training, 3)
        training.save(tmp_path / "checkpoint")
        expected = train(training, 3)
        weights = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert restored.running.env_slots_restarted == 0
        assert train(restored, 3) == expected
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), weights)


def test_equal_seeds_give_equal_results_and_different_seeds_differ():
    runs = []
    for seed in (1, 1, 2):
        with Training("CartPole-v1", PPO(**SMALL), seed=seed) as training:
            runs.append(train(training, 4))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_evaluation_uses_the_observation_filter_of_the_checkpoint(tmp_path):
    config = {**SMALL, "normalize_observations": True}
    with Training("CartPole-v1", PPO(**config), seed=4) as training:
        train(training, 3)
        filters = training.running.trainee.filters.moments
        before = training.evaluate(episodes=5, seed=11)
        training.save(tmp_path / "checkpoint")
    assert filters["observations/"].count == 3 * 64
    with Training.restore(tmp_path / "checkpoint") as restored:
        np.testing.assert_array_equal(
            restored.running.trainee.filters.moments["observations/"].mean, filters["observations/"].mean
        )
        after = restored.evaluate(episodes=5, seed=11)
    assert after.returns == before.returns
    assert len(after.returns) == 5


def test_acting_on_a_single_observation_returns_a_single_action():
    with Training("CartPole-v1", PPO(**SMALL)) as training:
        observation = np.array([0.1, 0.0, -0.1, 0.0], np.float32)
        actions = {int(training.act(observation)) for _ in range(20)}
        drawn = {int(training.act(observation, actions="sampled")) for _ in range(50)}
    assert len(actions) == 1
    assert drawn == {0, 1}


def test_metrics_are_none_before_the_first_episode_ends():
    with Training("Pendulum-v1", PPO(**SMALL)) as training:
        result = training.step()
    assert result["episodes"] == 0
    assert result["episode_return_mean"] is None
    assert result["env_steps"] == 64
    assert result["sgd_steps"] == 4


def test_weights_trained_in_an_incompatible_env_are_refused(tmp_path, wording):
    with Training("CartPole-v1", PPO(**SMALL)) as training:
        training.save(tmp_path / "checkpoint")
    with (
        Training("Acrobot-v1", PPO(**SMALL)) as other,
        wording.raised(CheckpointError),
    ):
        saved_state.load_weights(other.running, read_checkpoint(tmp_path / "checkpoint"))


def test_a_checkpoint_that_names_code_is_refused_unless_trusted(tmp_path):
    with Training("CartPole-v1", PPO(**SMALL)) as training:
        content = training.content(
            {
                "algorithm": "ppo",
                "env": {"id": "os:system"},
                "config": training.description.algorithm.config.to_data(),
                "seed": 0,
            }
        )
    write_checkpoint(tmp_path / "evil", content)
    with pytest.raises(CheckpointRefused, match=r"os:system.*--trust"):
        Training.restore(tmp_path / "evil")


def test_a_checkpoint_whose_env_is_a_function_that_imports_modules_is_refused(tmp_path):
    env = {"id": "rlrun.engine.envs.env_ids:find_spec", "kwargs": {"env_id": "this:Id-v0"}}
    with Training("CartPole-v1", PPO(**SMALL)) as training:
        content = training.content(
            {"algorithm": "ppo", "env": env, "config": training.description.algorithm.config.to_data(), "seed": 0}
        )
    write_checkpoint(tmp_path / "evil", content)
    with pytest.raises(CheckpointRefused, match="find_spec"):
        Training.restore(tmp_path / "evil")
    assert "this" not in sys.modules


def test_the_error_for_a_truncated_checkpoint_names_the_damaged_file(tmp_path):
    with Training("CartPole-v1", PPO(**SMALL)) as training:
        training.save(tmp_path / "checkpoint")
    weights = tmp_path / "checkpoint" / "policies" / "default.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CheckpointCorrupt, match=r"default\.safetensors"):
        Training.restore(tmp_path / "checkpoint")


def test_resuming_a_compiled_run_without_a_compiler_is_refused_unless_eager(tmp_path, monkeypatch, wording):
    half = {**SMALL, "precision": "bfloat16"}
    with Training("CartPole-v1", PPO(**half)) as training:
        training.step()
        content = training.content(
            {"algorithm": "ppo", "env": training.description.env.to_data(), "config": half, "seed": 0}
        )
    content.manifest["update_executor"] = "compiled"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with Training("CartPole-v1", PPO(**half)) as resumed:
        with wording.raised(CompilerMissing):
            resumed.load(content)
        resumed.load(content, eager=True)
        assert resumed.step()["iteration"] == 2
    with (
        Training("CartPole-v1", PPO(**SMALL, compile=True, precision="bfloat16")) as demanding,
        wording.raised(CompilerMissing),
    ):
        demanding.step()


def test_values_approach_the_infinite_horizon_return_if_episodes_are_only_truncated():
    """A reward of 1 forever: V = 1 / (1 - gamma), which can only be learned by bootstrapping from truncated ends."""
    world = {"id": "rlrun.toys:ConstantReward", "kwargs": {"episode_len": 10}}
    config = {
        "train_batch_size": 256,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 64,
        "num_epochs": 10,
        "gamma": 0.9,
        "lr": 3e-3,
        "max_grad_norm": None,
        "model": {"hiddens": [16]},
    }
    with Training(world, PPO(**config), seed=0) as training:
        for _ in range(40):
            training.step()
        training.running.workers.started.request(0)
        (rollout,) = training.running.workers.started.arrived()
    values = rollout.batches["default"]["values"]
    assert values.mean() == pytest.approx(1 / (1 - 0.9), rel=0.05)
    assert rollout.batches["default"]["truncateds"].any()
    assert not rollout.batches["default"]["terminateds"].any()


def test_evaluation_in_an_incompatible_env_fails_with_an_explanation():
    with Training("CartPole-v1", PPO(**SMALL)) as training:
        assert len(training.evaluate(2, env=EnvConfig(id="CartPole-v0")).returns) == 2
        with pytest.raises(UsageError, match=r"env Acrobot-v1: the observations are Box.*was trained with Box"):
            training.evaluate(2, env=EnvConfig(id="Acrobot-v1"))


def test_acting_uses_the_latest_learned_or_loaded_weights(tmp_path):
    observation = np.array([0.1, 0.0, -0.1, 0.0], np.float32)
    with Training("CartPole-v1", PPO(**SMALL, lr=0.1), seed=1) as training:
        training.save(tmp_path / "first")
        outputs = []
        for _ in range(2):
            training.act(observation)
            outputs.append(training.start().acting["default"].behavior().outputs(observation[None]))
            training.step()
        assert (outputs[0] != outputs[1]).any()
        saved_state.load_weights(training.running, read_checkpoint(tmp_path / "first"))
        behavior = training.start().acting["default"].behavior()
        np.testing.assert_array_equal(behavior.outputs(observation[None]), outputs[0])


def test_stepping_a_closed_training_starts_it_from_scratch():
    training = Training("CartPole-v1", PPO(**SMALL), seed=1)
    expected = train(training, 2)
    training.close()
    assert train(training, 2) == expected
    training.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": None}, "the checkpoint's spec is invalid"),
        ({"seed": "x"}, "the checkpoint's spec is invalid"),
        ({"config": {"lrr": 1}}, "did you mean 'lr'"),
        ({"algorithm": 3}, "the checkpoint's spec is invalid"),
    ],
    ids=str,
)
def test_an_intact_checkpoint_with_an_invalid_spec_is_refused_with_the_reason(change, message, tmp_path):
    with Training("CartPole-v1", PPO(**SMALL)) as training:
        spec = {
            "algorithm": "ppo",
            "env": "CartPole-v1",
            "config": training.description.algorithm.config.to_data(),
            "seed": 0,
            **change,
        }
        write_checkpoint(tmp_path / "odd", training.content(spec))
    with pytest.raises(CheckpointError, match=message):
        Training.restore(tmp_path / "odd")


def test_training_under_a_stopped_clock_works_and_reports_no_speed(monkeypatch):
    now = time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    with Training("CartPole-v1", PPO(**SMALL), seed=4) as training:
        first, second = training.step(), training.step()
    assert 0 < first["env_steps"] < second["env_steps"]
    assert (second["env_steps_per_s"], second["time/learner_wait_share"], second["time_total_s"]) == (None, None, 0.0)
