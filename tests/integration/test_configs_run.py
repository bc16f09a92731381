"""Every shipped config runs: two iterations, from the YAML to a checkpoint and an evaluation."""

from pathlib import Path

import pytest

import rlrun

CONFIGS = Path(__file__).parents[2] / "configs"
ONE_EPISODE = ["evaluation.every=1000", "evaluation.episodes=1"]  # evaluates only after the last iteration
# An episode of Pong has 1,000 steps of four images each, and each emulator takes half a second to start.
SHORT_EPISODES = ["env.max_episode_steps=50"]
TWO_ENVS = ["config.num_envs_per_worker=2"]


@pytest.mark.parametrize("config", ["half_cheetah/ppo.yaml", "pong/ppo.yaml", "lunar_lander/ppo.yaml"])
def test_a_long_config_runs_for_two_iterations(config, tmp_path):
    rows = 64 if config.startswith("pong") else 512  # rows of pong are images
    short = ["stop.iteration=2", "config.compile=false", "config.num_epochs=1", f"config.train_batch_size={rows}"]
    short += ["config.min_env_steps_per_iteration=0", f"config.minibatch_size={rows // 2}"]
    short += [*SHORT_EPISODES, *TWO_ENVS] if config.startswith("pong") else []
    (trial,) = rlrun.run(CONFIGS / config, overrides=[*short, *ONE_EPISODE], runs_dir=tmp_path)
    assert trial.status == "TERMINATED"
    assert trial.last_result["iteration"] == 2
    assert 1.75 * rows < trial.last_result["env_steps"] <= 2 * rows or config.startswith("lunar")
    assert trial.checkpoint is not None


@pytest.mark.parametrize("config", ["pong/impala.yaml", pytest.param("pong/appo.yaml", marks=pytest.mark.regress)])
def test_a_long_asynchronous_config_runs_for_two_iterations_in_one_process(config, tmp_path):
    short = ["stop.iteration=2", "config.num_workers=0", "config.num_epochs=1", "config.train_batch_size=40"]
    (trial,) = rlrun.run(
        CONFIGS / config,
        overrides=[*short, "config.min_env_steps_per_iteration=40", *SHORT_EPISODES, *TWO_ENVS, "evaluation=null"],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert trial.last_result["iteration"] == 2
    assert trial.last_result["env_steps"] == 80
    assert trial.checkpoint is not None


@pytest.mark.parametrize(
    "config",
    [
        "half_cheetah/sac.yaml",
        *(
            pytest.param(f"{config}.yaml", marks=pytest.mark.regress)
            for config in ("half_cheetah/td3", "hopper/sac", "hopper/td3")
        ),
    ],
)
def test_a_long_config_with_a_replay_buffer_runs_for_two_iterations(config, tmp_path):
    short = ["stop.iteration=2", "config.compile=false", "config.min_env_steps_per_iteration=200"]
    (trial,) = rlrun.run(
        CONFIGS / config,
        overrides=[*short, "config.learning_starts=300", "config.model.hiddens=[16]", *ONE_EPISODE],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert (trial.last_result["env_steps"], trial.last_result["sgd_steps"]) == (400, 100)
    assert trial.checkpoint is not None


def test_dqn_on_stacked_images_runs_for_two_iterations(tmp_path):
    short = ["stop.iteration=2", "config.min_env_steps_per_iteration=200", "config.learning_starts=360"]
    (trial,) = rlrun.run(
        CONFIGS / "pong" / "dqn.yaml",
        overrides=[*short, "config.replay.capacity=1000", *SHORT_EPISODES, *ONE_EPISODE],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert (trial.last_result["env_steps"], trial.last_result["sgd_steps"]) == (400, 10)
    image, rest = 84 * 84 + 1, 8 + 4 + 4  # each image has one extra byte, the length of its run of stacks
    assert trial.last_result["replay/gigabytes"] < 1.1 * 1000 * (image + rest) / 1e9
    assert trial.checkpoint is not None


def test_dreamer_on_images_runs_for_two_iterations_and_saves_a_picture(tmp_path):
    short = ["stop.iteration=2", "config.min_env_steps_per_iteration=100", "config.learning_starts=150"]
    small = ["config.minibatch_size=2", "config.replay.length=8", "config.training_intensity=0.04"]
    (trial,) = rlrun.run(
        CONFIGS / "pendulum" / "dreamer_images.yaml",
        overrides=[*short, *small, "env.max_episode_steps=40", *ONE_EPISODE],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert trial.last_result["sgd_steps"] == int(0.04 * (trial.last_result["env_steps"] - 150))
    assert "data:image/png" in (trial.directory / "picture_default.svg").read_text()


ON_POLICY = ("train_batch_size=64", "minibatch_size=64", "num_epochs=1", "model.hiddens=[16]")
OFF_POLICY = ("learning_starts=40", "model.hiddens=[16]")


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")
@pytest.mark.parametrize(
    ("config", "package", "policies"),
    [
        ("foraging_ppo", "rlrun", {"": ON_POLICY}),
        (
            "knights_archers_zombies_ppo",
            "pettingzoo.butterfly.knights_archers_zombies_v11",
            {"policies.knights.": ON_POLICY, "policies.archers.": ON_POLICY},
        ),
        ("level_based_foraging_vdn", "lbforaging", {"": (*OFF_POLICY, "compile=false")}),
        ("simple_spread_qmix", "mpe2", {"": (*OFF_POLICY, "compile=false")}),
        ("simple_spread_shared_ppo", "mpe2", {"": ON_POLICY}),
        ("speaker_listener_maddpg", "mpe2", {"policies.team.": OFF_POLICY}),
        ("speaker_listener_mappo", "mpe2", {"policies.speaker.": ON_POLICY, "policies.listener.": ON_POLICY}),
        *(
            pytest.param(
                f"speaker_listener_{name}",
                "mpe2",
                {f"policies.{policy}.": settings for policy in ("speaker", "listener")},
                marks=pytest.mark.regress,
            )
            for name, settings in (("ddpg", OFF_POLICY), ("ippo", ON_POLICY))
        ),
    ],
)
def test_a_config_for_a_world_of_many_agents_runs_for_two_iterations(config, package, policies, tmp_path):
    pytest.importorskip(package)
    settings = [f"{path}config.{setting}" for path, own in policies.items() for setting in own]
    short = ["seeds=1", "stop.iteration=2", "config.min_env_steps_per_iteration=64", "config.num_envs_per_worker=4"]
    (trial,) = rlrun.run(
        CONFIGS / "worlds" / f"{config}.yaml",
        overrides=[*settings, *short, "env.max_episode_steps=20", *ONE_EPISODE],
        runs_dir=tmp_path,
    )
    assert trial.status == "TERMINATED"
    assert trial.last_result["iteration"] == 2
    assert all(
        trial.last_result[name] > 0
        for name in trial.last_result
        if name.startswith("policies/") and name.endswith("/sgd_steps")
    )
    assert trial.checkpoint is not None


def test_the_two_tribes_config_runs_for_two_iterations(tmp_path):
    small = "env.kwargs={num_agents: 8, size: 24, max_steps: 20}"
    settings = [f"policies.{tribe}.config.{setting}" for tribe in ("red", "blue") for setting in ON_POLICY]
    short = ["seeds=1", "stop.iteration=2", "config.min_env_steps_per_iteration=64", *ONE_EPISODE]
    (trial,) = rlrun.run(
        CONFIGS / "worlds" / "tribes_ppo.yaml", overrides=[small, *settings, *short], runs_dir=tmp_path
    )
    assert trial.status == "TERMINATED"
    assert trial.last_result["policies/red/sgd_steps"] > 0
    assert trial.last_result["policies/blue/agent_steps"] > 0
