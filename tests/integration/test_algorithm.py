import sys

import numpy as np
import pytest

from rlrun import Algorithm
from rlrun.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.envs.env_config import EnvConfig
from rlrun.errors import CheckpointCorrupt, CheckpointError, CheckpointRefused, CompilerMissing, UsageError
from rlrun.python_api import PPO
from tests.results import numbers

SMALL = {
    "train_batch_size": 64,
    "minibatch_size": 32,
    "num_epochs": 2,
    "num_envs_per_worker": 4,
    "model": {"hiddens": [8]},
}


def train(algorithm, iterations):
    return [numbers(algorithm.train()) for _ in range(iterations)]


ENVS = {
    "discrete": "CartPole-v1",
    "continuous": {"id": "Pendulum-v1", "max_episode_steps": 25},
    "dict": "rlrun.toys.known_optimum:DictCartPole",
    "discrete observation": "FrozenLake-v1",
}


@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_a_restored_algorithm_goes_on_bit_for_bit(env, tmp_path):
    config = {**SMALL, "normalize_observations": True, "normalize_rewards": True, "lr": [[0, 1e-3], [500, 0.0]]}
    with PPO(env, config, seed=4) as algorithm:
        train(algorithm, 3)
        algorithm.save(tmp_path / "checkpoint")
        expected = train(algorithm, 3)
        weights = algorithm.training.trainee.learner.flat()
    with PPO.restore(tmp_path / "checkpoint") as restored:
        assert restored.training.env_slots_restarted == 0
        assert train(restored, 3) == expected
        np.testing.assert_array_equal(restored.training.trainee.learner.flat(), weights)


def test_the_same_seed_gives_the_same_numbers_and_another_one_others():
    runs = []
    for seed in (1, 1, 2):
        with PPO("CartPole-v1", SMALL, seed=seed) as algorithm:
            runs.append(train(algorithm, 4))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_evaluation_uses_the_saved_filter(tmp_path):
    config = {**SMALL, "normalize_observations": True}
    with PPO("CartPole-v1", config, seed=4) as algorithm:
        train(algorithm, 3)
        filters = algorithm.training.trainee.filters.moments
        before = algorithm.evaluate(episodes=5, seed=11)
        algorithm.save(tmp_path / "checkpoint")
    assert filters["observations/"].count == 3 * 64
    with PPO.restore(tmp_path / "checkpoint") as restored:
        np.testing.assert_array_equal(
            restored.training.trainee.filters.moments["observations/"].mean, filters["observations/"].mean
        )
        after = restored.evaluate(episodes=5, seed=11)
    assert after.returns == before.returns
    assert len(after.returns) == 5


def test_acting_on_one_observation_gives_one_action():
    with PPO("CartPole-v1", SMALL) as algorithm:
        observation = np.array([0.1, 0.0, -0.1, 0.0], np.float32)
        actions = {int(algorithm.act(observation)) for _ in range(20)}
        drawn = {int(algorithm.act(observation, explore=True)) for _ in range(50)}
    assert len(actions) == 1
    assert drawn == {0, 1}


def test_metrics_are_none_before_the_first_episode_ends():
    with PPO("Pendulum-v1", SMALL) as algorithm:
        result = algorithm.train()
    assert result["episodes"] == 0
    assert result["episode_return_mean"] is None
    assert result["env_steps"] == 64
    assert result["sgd_steps"] == 4


def test_another_env_s_weights_are_refused(tmp_path):
    with PPO("CartPole-v1", SMALL) as algorithm:
        algorithm.save(tmp_path / "checkpoint")
    with PPO("Acrobot-v1", SMALL) as other, pytest.raises(CheckpointError, match="does not fit this env and network"):
        other.training.load_weights(read_checkpoint(tmp_path / "checkpoint"))


def test_a_checkpoint_that_names_code_is_refused_unless_trusted(tmp_path):
    with PPO("CartPole-v1", SMALL) as algorithm:
        content = algorithm.training.content(
            {"algorithm": "ppo", "env": {"id": "os:system"}, "config": algorithm.config.to_data(), "seed": 0}
        )
    write_checkpoint(tmp_path / "evil", content)
    with pytest.raises(CheckpointRefused, match=r"os:system.*--trust"):
        Algorithm.restore(tmp_path / "evil")


def test_a_function_that_imports_what_it_is_told_to_is_refused_as_an_env(tmp_path):
    env = {"id": "rlrun.envs.env_ids:find_spec", "kwargs": {"env_id": "this:Id-v0"}}
    with PPO("CartPole-v1", SMALL) as algorithm:
        content = algorithm.training.content(
            {"algorithm": "ppo", "env": env, "config": algorithm.config.to_data(), "seed": 0}
        )
    write_checkpoint(tmp_path / "evil", content)
    with pytest.raises(CheckpointRefused, match="find_spec"):
        Algorithm.restore(tmp_path / "evil")
    assert "this" not in sys.modules


def test_a_truncated_checkpoint_is_named(tmp_path):
    with PPO("CartPole-v1", SMALL) as algorithm:
        algorithm.save(tmp_path / "checkpoint")
    weights = tmp_path / "checkpoint" / "policies" / "default.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CheckpointCorrupt, match=r"default\.safetensors"):
        PPO.restore(tmp_path / "checkpoint")


def test_a_compiled_run_without_a_compiler_asks_before_it_goes_on(tmp_path, monkeypatch):
    with PPO("CartPole-v1", SMALL) as algorithm:
        algorithm.train()
        content = algorithm.training.content(
            {"algorithm": "ppo", "env": algorithm.training.env.to_data(), "config": SMALL, "seed": 0}
        )
    content.manifest["update_executor"] = "compiled"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with PPO("CartPole-v1", SMALL) as resumed:
        with pytest.raises(CompilerMissing, match=r"no C\+\+ compiler here.*--eager"):
            resumed.training.load(content)
        resumed.training.load(content, eager=True)
        assert resumed.train()["iteration"] == 2
    with (
        PPO("CartPole-v1", {**SMALL, "compile": True}) as demanding,
        pytest.raises(CompilerMissing, match="set it to auto"),
    ):
        demanding.train()


def test_values_of_a_world_that_only_truncates_reach_the_infinite_return():
    """Reward 1 for ever: V = 1 / (1 - gamma), which only a bootstrap from truncated ends can find."""
    world = {"id": "rlrun.toys.known_optimum:ConstantReward", "kwargs": {"episode_len": 10}}
    config = {
        "train_batch_size": 256,
        "minibatch_size": 64,
        "num_epochs": 10,
        "gamma": 0.9,
        "lr": 3e-3,
        "max_grad_norm": None,
        "model": {"hiddens": [16]},
    }
    with PPO(world, config, seed=0) as algorithm:
        for _ in range(40):
            algorithm.train()
        algorithm.training.workers.request(0)
        (rollout,) = algorithm.training.workers.arrived()
    values = rollout.batches["default"]["values"]
    assert values.mean() == pytest.approx(1 / (1 - 0.9), rel=0.05)
    assert rollout.batches["default"]["truncateds"].any()
    assert not rollout.batches["default"]["terminateds"].any()


def test_evaluation_in_an_env_that_does_not_fit_is_explained():
    with PPO("CartPole-v1", SMALL) as algorithm:
        assert len(algorithm.evaluate(2, env=EnvConfig(id="CartPole-v0")).returns) == 2
        with pytest.raises(UsageError, match=r"env Acrobot-v1: its observations are Box.*was trained with Box"):
            algorithm.evaluate(2, env=EnvConfig(id="Acrobot-v1"))


def test_acting_follows_learning_and_loading(tmp_path):
    observation = np.array([0.1, 0.0, -0.1, 0.0], np.float32)
    with PPO("CartPole-v1", {**SMALL, "lr": 0.1}, seed=1) as algorithm:
        algorithm.save(tmp_path / "first")
        outputs = []
        for _ in range(2):
            algorithm.act(observation)
            outputs.append(algorithm.training._started().acting["default"].behavior().outputs(observation[None]))
            algorithm.train()
        assert (outputs[0] != outputs[1]).any()
        algorithm.training.load_weights(read_checkpoint(tmp_path / "first"))
        behavior = algorithm.training._started().acting["default"].behavior()
        np.testing.assert_array_equal(behavior.outputs(observation[None]), outputs[0])


def test_a_closed_algorithm_starts_anew():
    algorithm = PPO("CartPole-v1", SMALL, seed=1)
    expected = train(algorithm, 2)
    algorithm.close()
    assert train(algorithm, 2) == expected
    algorithm.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": None}, "its spec is not one of a checkpoint"),
        ({"seed": "x"}, "its spec is not one of a checkpoint"),
        ({"config": {"lrr": 1}}, "did you mean 'lr'"),
        ({"algorithm": 3}, "its spec is not one of a checkpoint"),
    ],
    ids=str,
)
def test_a_whole_checkpoint_with_a_senseless_spec_is_refused_in_one_line(change, message, tmp_path):
    with PPO("CartPole-v1", SMALL) as algorithm:
        spec = {"algorithm": "ppo", "env": "CartPole-v1", "config": algorithm.config.to_data(), "seed": 0, **change}
        write_checkpoint(tmp_path / "odd", algorithm.training.content(spec))
    with pytest.raises(CheckpointError, match=message):
        Algorithm.restore(tmp_path / "odd")
