"""Experiment files of RLlib become specs with the same numbers, in rlrun's units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.bridges.files_of_others import translated_text
from rlrun.bridges.translation.entry import Untranslatable
from rlrun.bridges.translation.foreign_settings import default_table
from rlrun.bridges.translation.meanings import known_settings
from rlrun.bridges.translation.rllib import ELSEWHERE
from rlrun.bridges.translation.translate import text_of as text_in_yaml
from rlrun.bridges.translation.translate import translate_rllib
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.load import load_experiments
from rlrun.experiments.spec.yaml_source import parse_document

pytestmark = pytest.mark.usefixtures("own_folder")

PPO = """\
balance:
    env: CartPole-v0
    run: PPO
    num_samples: 2
    stop: {episode_reward_mean: 150, timesteps_total: 100000}
    config:
        framework: tf
        lambda: 0.95
        num_workers: 0
        num_sgd_iter:
            grid_search: [6, 8]
        grad_clip: 0.5
        clip_rewards: true
        observation_filter: MeanStdFilter
        model: {fcnet_hiddens: [32], fcnet_activation: linear, vf_share_layers: true}
"""


def text_of(written: str, **options: Any) -> str:
    Path("theirs.yaml").write_text(written)
    return translated_text(Path("theirs.yaml"), **options)


def spec_of(written: str, **options: Any) -> Any:
    (spec,) = parse_document(text_of(written, **options)).data.values()
    return spec


def config_of(run: str, config: str = "{}", env: str = "CartPole-v1", **options: Any) -> Any:
    return spec_of(f"a:\n  run: {run}\n  env: {env}\n  stop: {{timesteps_total: 9}}\n  config: {config}\n", **options)[
        "config"
    ]


def problems(written: str, **options: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        text_of(written, **options)
    return [str(problem) for problem in caught.value.problems]


def test_an_rllib_file_can_be_trained_directly_and_uses_rllibs_defaults(wording) -> None:
    Path("balance.yaml").write_text(PPO)
    told: list[str] = []
    (experiment,) = load_experiments([Path("balance.yaml")], tell=told.append)
    assert (experiment.algorithm, experiment.seeds, experiment.num_trials) == ("ppo", (0, 1), 4)
    assert (experiment.env.id, experiment.env.max_episode_steps) == ("CartPole-v1", 200)
    assert experiment.stop.bounds == {"episode_return_mean": 150, "env_steps": 100_000}
    config = experiment.first_trial().config.to_data()
    stated = {"gae_lambda": 0.95, "num_epochs": 6, "max_grad_norm": 0.5, "normalize_observations": True}
    assert config["kl_penalty"] == {"coeff": 0.2, "target": 0.01}
    defaults = {"lr": 5e-5, "minibatch_size": 128, "clip_param": 0.3, "vf_clip_param": 10.0, "vf_loss_coeff": 1.0}
    assert {**config, **stated, **defaults, "train_batch_size": 4000, "num_envs_per_worker": 1} == config
    assert (config["model"]["hiddens"], config["model"]["shared_value"]) == ([], True)
    assert told == wording("rlrun translate balance.yaml", "1.13")


def test_translated_text_describes_the_same_training_and_lists_each_change_once_by_severity(wording) -> None:
    text = text_of(PPO)
    assert "  num_epochs: {grid_search: [6, 8]}  # line 10: num_sgd_iter\n" in text
    assert "  lr: 5e-05  # RLlib's default of lr\n" in text
    assert parse_document(text).data["balance"]["seeds"] == 2
    told = [line for line in text.splitlines() if line.startswith("#")]
    assert told[0] == wording("theirs.yaml", "1.13")
    slight, harmless = (
        told.index("# Not exactly the same:"),
        told.index("# Left out without an effect on learning:"),
    )
    said = {line.split(": ")[1].split(" ")[0] for line in told[slight + 1 : harmless]}
    assert said == {"clip_rewards", "model.fcnet_hiddens", "vf_clip_param", "num_samples"}
    assert [line.split(": ")[1] for line in told[harmless + 1 :]] == ["framework", "seed (RLlib's default)"]
    Path("ours.yaml").write_text(text)
    Path("theirs.yaml").write_text(PPO)
    ours, foreign = (load_experiments([Path(name)])[0] for name in ("ours.yaml", "theirs.yaml"))
    assert [trial.config for trial in ours.trials()] == [trial.config for trial in foreign.trials()]


def test_an_invalid_value_is_reported_at_its_place_in_the_original_file(wording) -> None:
    Path("balance.yaml").write_text(PPO.replace("0.95", "fast"))
    with wording.raised(SpecError, "balance.yaml:8:17", "balance.config.gae_lambda"):
        load_experiments([Path("balance.yaml")])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model: {custom_model: mine}", "set model.module to the custom network"),
        ("callbacks: lab.Callbacks", "cannot be translated (custom code)"),
        ("input: /data/*.json", "rlrun's PPO learns in an env, not from recorded experience"),
        ("lamda: 0.9", "unknown; did you mean 'lambda'?"),
    ],
)
def test_an_untranslatable_key_that_affects_learning_is_refused_unless_lenient(
    setting: str, said: str, wording
) -> None:
    written = f"a:\n  run: PPO\n  env: CartPole-v1\n  stop: {{timesteps_total: 9}}\n  config:\n    {setting}\n"
    first, advice = problems(written)
    assert first.startswith("theirs.yaml:6:")
    assert said in first
    assert advice == wording()
    assert "# Left out although it affects learning:\n#   line 6: " in text_of(written, lenient=True)
    with wording.raised(SpecError):
        load_experiments([Path("theirs.yaml")])


def test_train_batch_size_is_read_as_env_steps_for_ppo_and_as_minibatch_rows_for_dqn() -> None:
    assert config_of("PPO", "{train_batch_size: 512}")["train_batch_size"] == 512
    dqn = config_of("DQN", "{train_batch_size: 512}")
    assert (dqn["minibatch_size"], "train_batch_size" in dqn) == (512, False)


def test_target_update_frequencies_are_converted_from_env_steps_to_minibatches() -> None:
    # A minibatch follows each round of 4 steps of 5 envs, so 8,000 steps are 400 minibatches.
    rounds = "{rollout_fragment_length: 4, num_envs_per_worker: 5, target_network_update_freq: 8000}"
    dqn = config_of("DQN", rounds)
    assert (dqn["training_intensity"], dqn["target_update_interval"]) == (0.05, 400)
    # An intensity of 64 means that 64 rows are learned from per step. These are 2 minibatches of 32 rows.
    dqn = config_of("DQN", "{training_intensity: 64, train_batch_size: 32, target_network_update_freq: 500}")
    assert (dqn["training_intensity"], dqn["target_update_interval"]) == (2.0, 1000)
    # In Ape-X, the frequency counts trained rows instead: 6,400 rows are 100 minibatches of 64.
    apex = config_of("APEX", "{train_batch_size: 64, target_network_update_freq: 6400}")
    assert apex["target_update_interval"] == 100
    assert dqn["huber"] == apex["huber"] == 1.0


@pytest.mark.parametrize(("run", "rows"), [("IMPALA", 500), ("A2C", 40), ("A3C", 10)])
def test_a_grad_clip_for_summed_losses_is_divided_by_the_batch_size(run: str, rows: int) -> None:
    config = config_of(run, "{grad_clip: 40.0, vf_loss_coeff: 0.5}")
    assert config["max_grad_norm"] == pytest.approx(40 / rows)
    assert config["vf_loss_coeff"] == 0.25  # RLlib halves the squared error
    assert config.get("normalize_rewards") is (False if run == "IMPALA" else None)  # others have this default


def test_the_sign_of_an_entropy_coeff_from_2018_is_flipped() -> None:
    config = config_of("A3C", "{sample_batch_size: 20, entropy_coeff: -0.01}")
    assert (config["entropy_coeff"], config["rollout_fragment_length"]) == (0.01, 20)
    assert "penalize entropy" in problems("a: {run: PPO, env: CartPole-v1, config: {entropy_coeff: -0.01}}")[0]


def test_the_entropy_coeff_of_the_new_learner_api_is_divided_by_the_batch_size() -> None:
    config = config_of("IMPALA", "{_enable_learner_api: true, entropy_coeff: 0.01}")
    assert config["entropy_coeff"] == pytest.approx(0.01 / 500)


def test_a_key_that_has_no_effect_in_rllib_is_dropped() -> None:
    config = config_of("DDPG", "{lr: 0.5, actor_lr: 0.25}", "Pendulum-v1")
    assert (config["lr"], "critic_lr" in config) == (0.25, False)  # the critics' 1e-3 is the default of both libraries
    assert "gamma" not in config_of("ES", "{gamma: 0.9}")


def test_appo_ignores_lambda_as_in_rllib() -> None:
    assert config_of("APPO", "{lambda: 0.9}")["gae_lambda"] == 1.0


def test_the_tuning_example_of_2018_is_translated_with_the_defaults_of_2018() -> None:
    config = config_of(
        "PPO", "{kl_coeff: 0.3, kl_target: 0.02, eager: true, sgd_stepsize: {grid_search: [0.001, 0.0001]}}"
    )
    assert config["lr"] == {"grid_search": [0.001, 0.0001]}
    assert config["kl_penalty"] == {"coeff": 0.3, "target": 0.02}
    assert "kl_penalty" not in config_of("PPO", "{kl_coeff: 0.0}")
    assert config["normalize_observations"] is True
    assert "normalize_observations" not in config_of("PPO")


def test_the_rllib_version_to_translate_from_can_be_given() -> None:
    assert config_of("PPO", version=(0, 5))["normalize_observations"] is True


def test_old_and_new_exploration_settings_are_converted_to_the_same_epsilon_schedule() -> None:
    old = "{schedule_max_timesteps: 200000, exploration_fraction: 0.1, exploration_final_eps: 0.01}"
    new = "{exploration_config: {epsilon_timesteps: 20000, final_epsilon: 0.01}}"
    assert config_of("DQN", old)["epsilon"] == config_of("DQN", new)["epsilon"] == [[0, 1.0], [20_000, 0.01]]


def test_the_ou_noise_scale_is_doubled_since_it_refers_to_half_the_action_range_in_rllib() -> None:
    config = config_of("DDPG", "{exploration_config: {random_timesteps: 1500, final_scale: 0.5}}", "Pendulum-v1")
    assert config["exploration"] == "ornstein_uhlenbeck"
    assert config["exploration_noise"] == [[1500, 0.04], [11500, 0.02]]  # 2 x 0.1 x 0.2, then half of it


def test_the_layers_of_a_q_network_combine_model_layers_and_head_layers() -> None:
    config = config_of("DQN", "{model: {fcnet_hiddens: [64], fcnet_activation: relu}, hiddens: [32]}")
    assert config["model"]["hiddens"] == [64, 32]
    assert config_of("DQN")["model"]["hiddens"] == [256, 256, 256]


def test_a_grid_over_one_setting_is_kept_and_a_grid_that_affects_several_settings_is_refused(wording) -> None:
    assert config_of("PPO", "{framework: {grid_search: [tf, torch]}, lr: {grid_search: [0.1, 0.2]}}")["lr"] == {
        "grid_search": [0.1, 0.2]
    }
    spec = spec_of("a: {run: DQN, env: {grid_search: [PongNoFrameskip-v4, QbertNoFrameskip-v4]}}")
    assert spec["env"]["id"] == {"grid_search": ["ALE/Pong-v5", "ALE/Qbert-v5"]}
    written = "a: {run: DQN, env: CartPole-v1, config: {rollout_fragment_length: {grid_search: [4, 8]}}}"
    assert problems(written)[0] == wording()


@pytest.mark.parametrize(
    ("run", "config", "stop"),
    [
        ("PPO", "{train_batch_size: 512}", {"env_steps": 1536}),  # one batch per iteration
        ("DQN", "{}", {"env_steps": 3000}),  # at least 1,000 steps per iteration
        ("IMPALA", "{}", {"time_total_s": 30}),  # at least 10 seconds per iteration
    ],
)
def test_stop_iterations_are_converted_to_env_steps_or_seconds(run: str, config: str, stop: dict[str, int]) -> None:
    spec = spec_of(f"a: {{run: {run}, env: CartPole-v1, stop: {{training_iteration: 3}}, config: {config}}}")
    assert spec["stop"] == stop


def test_a_missing_stop_criterion_is_reported_and_can_be_set() -> None:
    assert "has no stop: set when a trial ends, such as stop" in text_of("a: {run: PPO, env: CartPole-v1}")
    with pytest.raises(SpecError, match="stop: is missing"):
        load_experiments([Path("theirs.yaml")])
    (experiment,) = load_experiments([Path("theirs.yaml")], ["stop.env_steps=9"])
    assert experiment.stop.bounds == {"env_steps": 9}


def test_num_samples_is_converted_to_consecutive_seeds_that_start_at_the_given_seed() -> None:
    assert spec_of("a: {run: PPO, env: CartPole-v1, num_samples: 3, config: {seed: 5}}")["seeds"] == [5, 6, 7]


def test_translated_evaluations_sample_actions_as_rllib_does_unless_explore_is_false() -> None:
    evaluated = "a: {run: %s, env: CartPole-v1, config: {evaluation_interval: 5, evaluation_num_episodes: 7%s}}"
    assert spec_of(evaluated % ("PPO", ""))["evaluation"] == {"every": 5, "episodes": 7, "actions": "sampled"}
    quiet = evaluated % ("PPO", ", evaluation_config: {explore: false}")
    assert spec_of(quiet)["evaluation"] == spec_of(evaluated % ("DQN", ""))["evaluation"] == {"every": 5, "episodes": 7}


def test_translated_atari_games_keep_the_wrapper_settings_of_rllib() -> None:
    env = spec_of("a: {run: PPO, env: PongDeterministic-v4, config: {model: {dim: 42}}}")["env"]
    kwargs = {"repeat_action_probability": 0.0, "episodic_life": True, "maxpool": False}
    assert env == {"id": "ALE/Pong-v5", "preset": "atari", "kwargs": {**kwargs, "img_height": 42, "img_width": 42}}


def test_the_policies_of_a_world_inherit_the_settings_of_the_experiment() -> None:
    spec = spec_of(
        "a:\n  run: PPO\n  env: lab.worlds.Chase\n  stop: {policy_reward_mean/p0: 3}\n  config:\n    lr: 0.1\n"
        "    env_config: {size: 4}\n    num_workers: 0\n    multiagent:\n"
        "      policies: {p0: [null, null, null, {}], p1: }\n"
        "      policy_mapping_fn: {type: lab.worlds.mapping}\n      policies_to_train: [p0]\n"
    )
    assert spec["env"] == {"world": "lab.worlds:Chase", "kwargs": {"size": 4}}
    assert (spec["mapping"], spec["train"]) == ("lab.worlds:mapping", ["p0"])
    assert spec["stop"] == {"policies/p0/episode_return_mean": 3}
    assert spec["policies"]["p0"] == spec["policies"]["p1"]
    assert spec["policies"]["p0"]["config"]["lr"] == 0.1
    assert spec["config"]["num_workers"] == 0
    assert "lr" not in spec["config"]


OWN = (
    "a:\n  run: %s\n  env: lab.Chase\n  config:\n    lr: 0.1\n    model: {fcnet_hiddens: [8], fcnet_activation: relu}\n"
    "    num_workers: 0\n    multiagent:\n      policies:\n        p0: {config: {%s}}\n"
    "        p1: [null, null, null, {gamma: {grid_search: [0.5, 0.9]}}]\n        p2:\n"
)


def test_policy_settings_override_those_of_the_experiment() -> None:
    written = OWN % ("PPO", "lr: {grid_search: [0.2, 0.3]}, model: {fcnet_hiddens: [4, 4]}")
    policies = spec_of(written)["policies"]
    shared = policies["p2"]["config"]
    assert (shared["lr"], shared["model"]["hiddens"]) == (0.1, [8])
    p0 = policies["p0"]["config"]
    assert p0 == {**shared, "lr": {"grid_search": [0.2, 0.3]}, "model": {**shared["model"], "hiddens": [4, 4]}}
    assert policies["p1"]["config"] == {**shared, "gamma": {"grid_search": [0.5, 0.9]}}
    lines = [line.strip().partition("  # line ") for line in text_of(written).splitlines()]
    places = sorted((text.partition(":")[0], int(line)) for text, _, line in lines if line.isdecimal())
    assert [line for key, line in places if key == "lr"] == [5, 5, 10]
    assert ("gamma", 11) in places


def test_one_policys_own_config_may_not_contain_unknown_settings_or_settings_shared_by_all_policies(wording) -> None:
    assert problems(OWN % ("PPO", "num_workers: 2")) == wording("num_workers")
    assert problems(OWN % ("PPO", "gama: 0.5")) == wording("gama", "gamma")
    assert problems(OWN.replace("{%s}", "%s") % ("PPO", "5")) == wording("5")


WORLD = "a: {run: %s, env: lab.Chase, config: {multiagent: {policies: {p0: , p1: }, %s}}}"


def test_a_policy_mapping_that_is_code_is_refused() -> None:
    written = WORLD % ("PPO", "policy_mapping_fn: \"lambda agent, *_: 'p0'\"")
    assert "multiagent: cannot" in problems(written)[0]
    assert "mapping" not in spec_of(written, lenient=True)


def unit_remarks(run: str, unit: str) -> list[str]:
    return [line for line in text_of(WORLD % (run, unit)).splitlines() if "count_steps_by" in line]


def test_the_unit_of_batch_sizes_in_a_world_is_explained(wording) -> None:
    assert unit_remarks("PPO", "policies_to_train: [p0]") == wording("RLlib's default", "train_batch_size")
    assert unit_remarks("PPO", "count_steps_by: env_steps") == wording("train_batch_size")
    assert unit_remarks("PPO", "count_steps_by: agent_steps") == wording("train_batch_size")
    assert unit_remarks("DQN", "policies_to_train: [p0]") == []  # batches are drawn from a replay buffer


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("a: {run: PPOO, env: CartPole-v1}", "a.run: unknown algorithm 'PPOO'; did you mean 'ppo'?"),
        ("a: {run: IQL, env: CartPole-v1}", "a.run: settings of IQL cannot be translated"),
        ("a: {run: QMIX, env: CartPole-v1}", "a.env: 'CartPole-v1' has a single agent or was registered in code"),
        (
            "a: {run: PPO, env: ray.rllib.examples.env.x.X}",
            "X is an env of RLlib that rlrun does not have",
        ),
        ("a: {run: PPO, env: corridor}", "a.env: 'corridor' was registered in code"),
        ("a: {run: PPO, env: CartPole-v1, stpo: {}}", "a.stpo: unknown key 'stpo'; did you mean 'stop'?"),
        ("CartPole-v1: {n_timesteps: 9}", "is an rl-zoo3 file: choose an env with --env, one of: CartPole-v1"),
        (
            "a: {algorithm: ppo}",
            "is not an RLlib file: must be a mapping of names to experiments with the keys run and env",
        ),
        ("a: {run: PPO, env: CartPole-v1, stop: {episode_reward_mean: x}}", "must be a number, not 'x'"),
        ("a: {run: PPO, env: CartPole-v1, config: {lr: {grid_search: []}}}", "grid_search needs a list of values"),
        ("a: {run: PPO, env: CartPole-v1, config: {num_workers: x}}", "a value is not valid in RLlib"),
    ],
)
def test_untranslatable_entries_are_refused_and_named(written: str, said: str) -> None:
    (problem,) = problems(written)
    assert said in problem


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.sampled_from(["auto", "x.y", ""]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["type", "a"]), below, max_size=2),
    max_leaves=4,
)
KEYS = sorted(known_settings() | {*ELSEWHERE, "model", "replay_buffer_config", "optimization"})


@given(
    run=st.sampled_from(sorted(default_table()["rllib"]["1.13"].keys() - {"all"})),
    config=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4) | VALUES,
    rest=st.dictionaries(st.sampled_from(["stop", "env", "num_samples", "checkpoint_config", "max_failures"]), VALUES),
)
@settings(max_examples=60, deadline=None)
def test_arbitrary_values_are_either_translated_or_refused(run: str, config: Any, rest: dict[str, Any]) -> None:
    data = {"a": {"env": "CartPole-v1", **rest, "run": run, "config": config}}
    try:
        text = text_in_yaml(translate_rllib(data), "theirs.yaml", lambda _: 1)
    except Untranslatable:
        return
    assert parse_document(text).data.keys() == {"a"}
