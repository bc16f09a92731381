"""Every shipped config runs: two iterations, from the YAML to a checkpoint and an evaluation."""

from pathlib import Path

import pytest

import rlrun

CONFIGS = Path(__file__).parents[2] / "configs"
ONE_EPISODE = ["evaluation.every=1000", "evaluation.episodes=1"]  # behind the last iteration


@pytest.mark.parametrize("config", ["half_cheetah/ppo.yaml", "pong/ppo.yaml", "lunar_lander/ppo.yaml"])
def test_two_iterations_of_a_long_config_run(config, tmp_path):
    short = ["stop.iteration=2", "config.compile=false", "config.num_epochs=1", "config.train_batch_size=512"]
    (trial,) = rlrun.run(CONFIGS / config, overrides=[*short, *ONE_EPISODE], runs_dir=tmp_path)
    assert trial.status == "TERMINATED"
    assert trial.last_result["iteration"] == 2
    assert 900 < trial.last_result["env_steps"] <= 1024 or config.startswith("lunar")
    assert trial.checkpoint is not None


@pytest.mark.parametrize("config", ["pong/impala.yaml", "pong/appo.yaml"])
def test_two_iterations_of_a_long_asynchronous_config_run_in_one_process(config, tmp_path):
    short = ["stop.iteration=2", "config.num_workers=0", "config.num_epochs=1", "config.train_batch_size=256"]
    (trial,) = rlrun.run(
        CONFIGS / config,
        overrides=[*short, "config.min_env_steps_per_iteration=256", *ONE_EPISODE],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert trial.last_result["iteration"] == 2
    assert 500 < trial.last_result["env_steps"] <= 640
    assert trial.checkpoint is not None


@pytest.mark.parametrize(
    "config", ["half_cheetah/sac.yaml", "half_cheetah/td3.yaml", "hopper/sac.yaml", "hopper/td3.yaml"]
)
def test_two_iterations_of_a_long_config_with_a_replay_run(config, tmp_path):
    short = ["stop.iteration=2", "config.compile=false", "config.min_env_steps_per_iteration=200"]
    (trial,) = rlrun.run(
        CONFIGS / config,
        overrides=[*short, "config.learning_starts=300", "config.model.hiddens=[16]", *ONE_EPISODE],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert (trial.last_result["env_steps"], trial.last_result["sgd_steps"]) == (400, 100)
    assert trial.checkpoint is not None


def test_two_iterations_of_dqn_on_stacked_images_run(tmp_path):
    short = ["stop.iteration=2", "config.min_env_steps_per_iteration=200", "config.learning_starts=300"]
    (trial,) = rlrun.run(
        CONFIGS / "pong" / "dqn.yaml",
        overrides=[*short, "config.replay.capacity=1000", *ONE_EPISODE],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert (trial.last_result["env_steps"], trial.last_result["sgd_steps"]) == (400, 25)
    image, rest = 84 * 84 + 1, 8 + 4 + 4  # beside each image how far its stack goes on
    assert trial.last_result["replay/gigabytes"] < 1.1 * 1000 * (image + rest) / 1e9
    assert trial.checkpoint is not None


ON_POLICY = {"compile": False, "num_epochs": 1, "train_batch_size": 100, "minibatch_size": 50}
OFF_POLICY = {"compile": False, "learning_starts": 50, "minibatch_size": 16}


@pytest.mark.parametrize(
    ("algorithm", "policies", "config"),
    [
        ("mappo", ["speaker", "listener"], ON_POLICY),
        ("ippo", ["speaker", "listener"], ON_POLICY),
        ("ddpg", ["speaker", "listener"], OFF_POLICY),
        ("maddpg", ["team"], OFF_POLICY),
    ],
)
def test_two_iterations_of_speaker_and_listener_run(algorithm, policies, config, tmp_path):
    short = ["stop.iteration=2", "seeds=1", "config.min_env_steps_per_iteration=100", "config.num_envs_per_worker=2"]
    learning = [f"policies.{policy}.config.{key}={value}" for policy in policies for key, value in config.items()]
    (trial,) = rlrun.run(
        CONFIGS / "worlds" / f"speaker_listener_{algorithm}.yaml",
        overrides=[*short, *learning, *ONE_EPISODE],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert trial.last_result["agent_steps"] == 2 * trial.last_result["env_steps"] >= 400
    assert all(trial.last_result[f"policies/{policy}/sgd_steps"] > 0 for policy in policies)
    assert trial.last_result["evaluation/episode_len_mean"] == 25
