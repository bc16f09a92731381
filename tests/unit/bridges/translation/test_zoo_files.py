"""Hyperparameter files of rl-zoo3 become specs for one env."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlrun.bridges.files_of_others import translated_text
from rlrun.bridges.translation.sb3_settings import python_value
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.load import load_experiments
from rlrun.experiments.spec.yaml_source import parse_document

FILES = {
    "ppo": """\
atari: {n_timesteps: !!float 1e7, policy: CnnPolicy, frame_stack: 4,
        env_wrapper: [stable_baselines3.common.atari_wrappers.AtariWrapper],
        n_envs: 8, n_steps: 128, batch_size: 256, learning_rate: lin_2.5e-4}
CartPole-v1: &cartpole
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: MlpPolicy
  n_steps: 32
  batch_size: 512
  learning_rate: lin_0.001
  normalize: "dict(norm_obs=True, norm_reward=False)"
  policy_kwargs: "dict(activation_fn=nn.ReLU, net_arch=dict(pi=[32, 16], vf=[32, 16]), ortho_init=False)"
Acrobot-v1: {<<: *cartpole, policy_kwargs: "dict(net_arch=open('/etc/passwd'))"}
MountainCar-v0: {<<: *cartpole, callback: [my_lab.Callback]}
""",
    "dqn": """\
CartPole-v1: {n_timesteps: 50000, policy: MlpPolicy, train_freq: 256, gradient_steps: 128, target_update_interval: 10,
              exploration_fraction: 0.16, exploration_final_eps: 0.04}
""",
    "td3": """\
Pendulum-v1: {n_timesteps: 20000, policy: MlpPolicy, noise_type: ornstein-uhlenbeck, noise_std: 0.5, train_freq: 1,
              gradient_steps: -1, learning_rate: 0.001}
""",
    "ppo_lstm": """\
CartPoleNoVel-v1: {n_timesteps: 100000, policy: MlpLstmPolicy, n_envs: 8, n_steps: 48, batch_size: 128,
                   policy_kwargs: "dict(lstm_hidden_size=32)"}
""",
    "tqc": """\
Pendulum-v1: {n_timesteps: 20000, policy: MlpPolicy, use_sde: true, gradient_steps: 64, train_freq: 64, ent_coef: 0.1,
              top_quantiles_to_drop_per_net: 5, policy_kwargs: "dict(log_std_init=-2, net_arch=[64, 64])"}
""",
    "crossq": """\
Pendulum-v1: {n_timesteps: 20000, policy: MlpPolicy, policy_delay: 2, policy_kwargs: "dict(use_expln=True)"}
""",
    "mystery": "Pendulum-v1: {n_timesteps: 20000, policy: MlpPolicy}\n",
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(f"{name}.yml").write_text(text)


def spec_of(name: str, env: str) -> Any:
    text = translated_text(Path(f"{name}.yml"), env=env)
    Path("ours.yaml").write_text(text)
    load_experiments([Path("ours.yaml")])
    (spec,) = parse_document(text).data.values()
    return spec


def test_the_file_name_gives_the_algorithm_and_the_keys_in_the_file_are_env_ids() -> None:
    spec = spec_of("ppo", "CartPole-v1")
    assert (spec["algorithm"], spec["env"], spec["stop"]) == ("ppo", {"id": "CartPole-v1"}, {"env_steps": 100_000})
    config = spec["config"]
    assert (config["train_batch_size"], config["rollout_fragment_length"], config["minibatch_size"]) == (256, 32, 256)
    assert config["lr"] == [[0, 0.001], [100_000, 0.0]]
    assert config["model"] == {"hiddens": [32, 16], "activation": "relu", "orthogonal_init": False}
    assert (config["normalize_observations"], "normalize_rewards" in config) == (True, False)


def test_all_atari_games_share_one_entry_and_get_the_atari_preset() -> None:
    spec = spec_of("ppo", "PongNoFrameskip-v4")
    kwargs = {"repeat_action_probability": 0.0, "episodic_life": True}
    assert spec["env"] == {"id": "ALE/Pong-v5", "preset": "atari", "kwargs": kwargs}
    assert "views" not in spec["config"].get("model", {})


def test_dqn_training_and_target_update_frequencies_are_converted() -> None:
    config = spec_of("dqn", "CartPole-v1")["config"]
    assert (config["training_intensity"], config["rollout_fragment_length"]) == (0.5, 256)
    assert (config["target_update_interval"], config["epsilon"]) == (5, [[0, 1.0], [8000, 0.04]])
    assert (config["huber"], config["adam_epsilon"]) == (1.0, 1e-8)
    assert config["double"] is False


def test_converted_ou_noise_parameters_account_for_the_time_step_of_the_process() -> None:
    config = spec_of("td3", "Pendulum-v1")["config"]
    assert (config["exploration"], config["exploration_noise"]) == ("ornstein_uhlenbeck", 0.05)
    assert config["ou_theta"] == pytest.approx(0.0015)
    assert config["model"]["hiddens"] == [400, 300]
    assert config["critic_lr"] == 0.001


def test_translated_tqc_uses_the_defaults_of_sb3_contrib() -> None:
    config = spec_of("tqc", "Pendulum-v1")["config"]
    assert (config["num_critics"], config["dropped_per_critic"], config["initial_alpha"]) == (2, 5, 0.1)
    assert (config["learn_alpha"], config["training_intensity"], config["learning_starts"]) == (False, 1.0, 100)
    assert config["model"] == {"hiddens": [64, 64], "critic_hiddens": [64, 64], "use_sde": True, "log_std_init": -2}


def test_the_critics_of_crossq_get_layer_widths_of_their_own() -> None:
    config = spec_of("crossq", "Pendulum-v1")["config"]
    assert config["policy_delay"] == 2
    assert config["model"] == {"hiddens": [256, 256], "critic_hiddens": [1024, 1024]}


def test_ppo_lstm_gets_a_seq_len_and_envs_without_velocities_get_a_wrapper() -> None:
    spec = spec_of("ppo_lstm", "CartPoleNoVel-v1")
    assert spec["env"] == {"id": "CartPole-v1", "wrappers": ["rlrun.plugin:HideVelocities"]}
    assert spec["config"]["model"] == {"core": "lstm", "core_width": 32}
    assert spec["config"]["seq_len"] == 32


@pytest.mark.parametrize(
    ("name", "env", "said"),
    [
        ("ppo", "CartPol-v1", "has no settings for 'CartPol-v1'; did you mean 'CartPole-v1'?"),
        ("ppo", "Acrobot-v1", "neither a literal nor dict(...)"),
        ("ppo", "MountainCar-v0", "ppo.yml:14:33: MountainCar-v0.callback: cannot be translated"),
        ("mystery", "Pendulum-v1", "settings of 'mystery' (the file's name) cannot be translated"),
    ],
)
def test_unknown_algorithms_or_envs_and_values_that_require_code_are_refused(name: str, env: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        translated_text(Path(f"{name}.yml"), env=env)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')", "dict(a=open('x'))", "[x for x in ()]", "lambda: 1", "dict(**a)", "dict([1])",
        "(1).__class__", "f'{x}'", "list(a=1)", "dict(a=", "{x: 1}", "[" * 999,
    ],
)  # fmt: skip
def test_python_values_that_are_neither_literals_nor_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"literal|expression"):
        python_value(text)


def test_literals_and_names_are_read_from_python_text() -> None:
    text = "dict(a=[1, -2.5, (True, None)], b={'c': 'd'}, e=nn.ReLU)"
    assert python_value(text) == {"a": [1, -2.5, [True, None]], "b": {"c": "d"}, "e": "nn.ReLU"}
