"""Presets: usual settings for a family of envs, which a spec can override."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.algorithms.dqn.dqn import DQNConfig
from rlrun.algorithms.ppo import PPOConfig
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.presets import preset_text, with_preset
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.config import ConfigModel
from rlrun.experiments.spec.entry import check_entry
from rlrun.experiments.spec.load import load_experiments

ATARI = {"id": "ALE/Pong-v5", "preset": "atari"}
FULL_GAMES = {"evaluation_kwargs": {"episodic_life": False}}


@pytest.mark.parametrize(
    ("config_class", "written", "resolved"),
    [
        (PPOConfig, {}, {"clip_rewards": 1, "model": {"conv": "nature"}}),
        (
            DQNConfig,
            {"replay": {"capacity": 50}},
            {"clip_rewards": 1, "model": {"conv": "nature"}, "replay": {"frame_stack": 4, "capacity": 50}},
        ),
        (
            DQNConfig,
            {"clip_rewards": None, "model": {"conv": "impala"}, "replay": {"frame_stack": None}},
            {"clip_rewards": None, "model": {"conv": "impala"}, "replay": {"frame_stack": None}},
        ),
    ],
)
def test_a_preset_sets_only_settings_that_the_algorithm_has_and_the_spec_leaves_out(
    config_class: type[ConfigModel], written: dict[str, Any], resolved: dict[str, Any]
) -> None:
    env, config = with_preset(ATARI, written, config_class)
    assert (env, config) == ({**ATARI, **FULL_GAMES}, resolved)
    assert with_preset(env, config, config_class) == (env, config)


def test_without_a_preset_the_env_and_the_config_stay_unchanged() -> None:
    assert with_preset("CartPole-v1", {"lr": 1.0}, PPOConfig) == ("CartPole-v1", {"lr": 1.0})
    assert preset_text({"id": "CartPole-v1"}, {}) == ""


def test_the_resolved_spec_contains_the_settings_of_the_preset() -> None:
    entry = {"algorithm": "dqn", "env": ATARI, "stop": {"env_steps": 10}, "config": {"clip_rewards": 5}}
    experiment, mistakes = check_entry("pong", entry)
    assert experiment is not None, mistakes
    data = experiment.to_data()
    assert data["env"] == {**ATARI, **FULL_GAMES}
    assert data["config"] == {"clip_rewards": 5, "model": {"conv": "nature"}, "replay": {"frame_stack": 4}}
    (trial,) = experiment.trials()
    assert (trial.config.clip_rewards, trial.env.evaluation_kwargs) == (5, {"episodic_life": False})
    assert check_entry("pong", data)[0] == experiment
    said = "atari: clip_rewards 5, model.conv nature, replay.frame_stack 4; in evaluations episodic_life False"
    assert preset_text(data["env"], data["config"]) == said


def test_a_grid_search_over_env_ids_can_be_combined_with_a_preset() -> None:
    env = {"id": {"grid_search": ["ALE/Pong-v5", "ALE/Breakout-v5"]}, "preset": "atari"}
    experiment, mistakes = check_entry("games", {"algorithm": "ppo", "env": env, "stop": {"env_steps": 10}})
    assert experiment is not None, mistakes
    assert [trial.env.id for trial in experiment.trials()] == ["ALE/Pong-v5", "ALE/Breakout-v5"]


def test_the_shipped_pong_specs_train_on_clipped_rewards_and_store_each_frame_once() -> None:
    for path in sorted(Path("configs/pong").glob("*.yaml")):
        (experiment,) = load_experiments([path])
        config = experiment.config.to_data()
        assert (experiment.env.preset, config["clip_rewards"]) == ("atari", 1)
        assert config.get("replay", {"frame_stack": 4})["frame_stack"] == 4


def test_training_episodes_end_at_a_lost_life_but_evaluations_play_full_games() -> None:
    fast = {"frameskip": 24, "noop_max": 5, "img_height": 44, "img_width": 44}
    lives = {"id": "ALE/Breakout-v5", "preset": "atari", "kwargs": {**fast, "episodic_life": True}}
    config = {"num_envs_per_worker": 1, "train_batch_size": 64, "min_env_steps_per_iteration": 0, "compile": False}
    with rlrun.Training(lives, rlrun.PPO(**config)) as training:
        judged = training.evaluate(episodes=2, actions="sampled")
        one_life = training.evaluate(episodes=2, actions="sampled", env=EnvConfig.parse(lives))
        whole = {"id": "ALE/Breakout-v5", "kwargs": fast}
        assert training.evaluate(episodes=2, actions="sampled", env=EnvConfig.parse(whole)) == judged
    assert max(one_life.lengths) < min(judged.lengths)


def test_in_python_presets_work_with_both_mappings_and_config_objects(wording) -> None:
    of_mapping = rlrun.Training(ATARI, rlrun.DQN(gamma=0.9))
    of_config = rlrun.Training(EnvConfig.parse(ATARI), rlrun.DQN(DQNConfig(gamma=0.9)))
    assert of_mapping.description.algorithm.config == of_config.description.algorithm.config
    assert (
        of_config.description.algorithm.config.gamma,
        of_config.description.algorithm.config.clip_rewards,
        of_config.description.algorithm.config.replay.frame_stack,
    ) == (0.9, 1, 4)
    assert of_config.description.env == EnvConfig.parse({**ATARI, **FULL_GAMES})
    with wording.raised(UsageError):
        rlrun.Training({"id": "CartPole-v1", "preset": "atari"}, rlrun.DQN())
