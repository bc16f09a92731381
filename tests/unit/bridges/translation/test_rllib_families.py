"""Experiments with RLlib's algorithms for data, sequences, teams, tasks, models and searches become specs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlrun.bridges.files_of_others import translated_text
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.messages.foreign_names import table
from rlrun.engine.settings.registry import load_object
from rlrun.experiments.spec.load import load_experiments
from rlrun.experiments.spec.yaml_source import parse_document
from rlrun.toys.matrix_games import TwoStepGame

pytestmark = pytest.mark.usefixtures("own_folder")


def text_of(run: str, config: str = "{}", env: str = "CartPole-v1", stop: str = "{timesteps_total: 9}") -> str:
    Path("theirs.yaml").write_text(f"a:\n  run: {run}\n  env: {env}\n  stop: {stop}\n  config: {config}\n")
    return translated_text(Path("theirs.yaml"))


def spec_of(run: str, *parts: str) -> Mapping[str, Any]:
    (spec,) = parse_document(text_of(run, *parts)).data.values()
    return dict(spec)


def config_of(run: str, *parts: str) -> Any:
    return spec_of(run, *parts)["config"]


@pytest.mark.parametrize(
    ("written", "read", "said"),
    [
        ("input: /tmp/out", "out-set", "`rlrun dataset convert /tmp/out out-set`"),
        ("input: '/data/steps/*.json'", "steps-set", "`rlrun dataset convert /data/steps steps-set`"),
        ("input: [d/a.zip]", "a-set", "`unzip d/a.zip -d a`, `rlrun dataset convert a a-set`"),
        ("input: dataset, input_config: {format: json, path: x.json}", "x-set", "`rlrun dataset convert x.json x-set`"),
        ("input: d4rl.hopper-medium-v0", "hopper-medium-v0", "`rlrun dataset convert FOLDER hopper-medium-v0`"),
        (
            "input: [a.json, b.json]",
            [{"path": "a-set", "share": 0.5}, {"path": "b-set", "share": 0.5}],
            "rlrun gives all data sets the same share of a minibatch; RLlib weighted them by size",
        ),
        (
            "input: {a.json: 0.25, b.json: 0.75}",
            [{"path": "a-set", "share": 0.25}, {"path": "b-set", "share": 0.75}],
            "`rlrun dataset convert b.json b-set`",
        ),
    ],
)
def test_recorded_input_is_translated_to_a_data_set_with_the_command_that_converts_it(
    written: str, read: Any, said: str
) -> None:
    text = text_of("BC", f"{{{written}}}")
    assert parse_document(text).data["a"]["config"]["input"] == read
    assert said in text


def test_training_without_converted_data_names_the_conversion_command(wording) -> None:
    text_of("BC", "{input: /tmp/steps.json}", "CartPole-v1")
    told: list[str] = []
    with wording.raised((SpecError, UsageError)):
        load_experiments([Path("theirs.yaml")], tell=told.append)
    assert told[1] == wording("theirs.yaml", "/tmp/steps.json")


def test_translated_offline_algorithms_stop_by_sgd_steps_and_need_no_env() -> None:
    text_of("BC")
    Path("theirs.yaml").write_text("a: {run: BC, stop: {timesteps_total: 500000}, config: {input: x}}")
    spec = parse_document(translated_text(Path("theirs.yaml"))).data["a"]
    assert "env" not in spec
    assert spec["stop"] == {"sgd_steps": 2500}  # one minibatch for every 200 rows read
    assert (spec["config"]["minibatch_size"], spec["config"]["sgd_steps_per_iteration"]) == (2000, 1)


@pytest.mark.parametrize(
    ("run", "config", "stop", "expected"),
    [
        ("CQL", "train_batch_size: 500", "timesteps_total: 2000", {"sgd_steps": 4}),
        # An iteration reads as many rows as the buffer can hold.
        ("CRR", "train_batch_size: 500", "training_iteration: 3", {"sgd_steps": 300}),
        ("CRR", "num_rollout_workers: 1", "training_iteration: 3", {"time_total_s": 30}),
        # A minibatch of 512 steps has 171 windows of 3 steps, and an iteration 5,000 windows.
        ("DT", "train_batch_size: 512, model: {max_seq_len: 3}", "training_iteration: 2", {"sgd_steps": 60}),
        ("MARWIL", "lr: 1", "episode_reward_mean: 5", {"evaluation/episode_return_mean": 5}),
    ],
)
def test_stops_in_iterations_or_rows_are_converted_to_sgd_steps(
    run: str, config: str, stop: str, expected: dict[str, int]
) -> None:
    assert spec_of(run, f"{{input: x, {config}}}", "CartPole-v1", f"{{{stop}}}")["stop"] == expected


def test_decision_transformer_schedules_are_converted_from_windows_to_sgd_steps() -> None:
    config = "{input: x, train_batch_size: 512, model: {max_seq_len: 3}, lr_schedule: [[0, 0.0], [10000, 0.01]]"
    dt = config_of("DT", config + ", target_return: 200, horizon: 500}")
    assert dt["lr"] == [[0, 0.0], [59, 0.01]]
    assert (dt["target_return"], dt["return_scale"], dt["max_steps"]) == (200.0, 1.0, 500)


def test_envs_get_a_wrapper_if_the_recorded_actions_are_normalized(wording) -> None:
    normalized = "{input: x, actions_in_input_normalized: true}"
    rescaled = [{"id": "RescaleAction", "kwargs": {"min_action": -1.0, "max_action": 1.0}}]
    assert spec_of("CQL", normalized, "Pendulum-v0")["env"] == {"id": "Pendulum-v1", "wrappers": rescaled}
    assert "wrappers" not in spec_of("CQL", normalized, "CartPole-v1")["env"]
    assert wording("RescaleAction") in text_of("CQL", normalized, "lab.Robot").splitlines()


def test_the_conservative_weight_of_cql_is_half_of_rllibs_min_q_weight(wording) -> None:
    cql = config_of("CQL", "{input: x, min_q_weight: 3.0, optimization: {critic_learning_rate: 0.5}}")
    assert (cql["conservative_weight"], cql["critic_lr"]) == (1.5, 0.5)
    assert wording("20,000") in text_of("CQL", "{input: x}").splitlines()
    with wording.raised(SpecError):
        text_of("CQL", "{input: x, bc_iters: 200000000}")


def test_crrs_temperature_is_converted_to_its_inverse_beta() -> None:
    crr = config_of("CRR", "{input: x, temperature: 4.0, weight_type: exp, advantage_type: expectation}")
    assert (crr["beta"], crr.get("weighting", "exp")) == (0.25, "exp")
    assert crr.get("baseline", "mean") == "mean"
    assert config_of("CRR", "{input: x}")["weighting"] == "binary"
    rows = config_of("CRR", "{input: dataset, input_config: {paths: x}, target_network_update_freq: 384}")
    assert rows["target_update_interval"] == 3  # 128 rows per minibatch


def test_r2d2_batch_sizes_are_converted_from_steps_to_sequences() -> None:
    config = "{model: {max_seq_len: 15}, replay_buffer_config: {replay_burn_in: 5, capacity: 7000}}"
    r2d2 = config_of("R2D2", config)
    assert r2d2["minibatch_size"] == 50  # 1,000 steps in sequences of 20
    assert r2d2["replay"] == {"burn_in": 5, "capacity": 7000, "length": 15, "stride": 15, "sampling": "uniform"}
    assert (r2d2["training_intensity"], r2d2["target_update_interval"]) == (0.15, 150)


def test_qmix_is_translated_to_use_whole_episodes_as_sequences_and_a_gru(wording) -> None:
    config = "{horizon: 8, replay_buffer_config: {capacity: 10}, rollout_fragment_length: 6, mixing_embed_dim: 16}"
    spec = spec_of("QMIX", config, "lab.worlds.Chase")
    assert spec["env"]["world"] == "lab.worlds:Chase"
    qmix = spec["config"]
    assert (qmix["replay"]["length"], qmix["minibatch_size"], qmix["replay"]["capacity"]) == (8, 4, 60)
    assert (qmix["model"]["core"], qmix["model"]["hiddens"], qmix["mixer_hidden"]) == ("gru", [64], 16)
    assert spec_of("QMIX", "{mixer: vdn}", "lab.worlds.Chase")["algorithm"] == "vdn"
    with wording.raised(SpecError):
        text_of("QMIX", "{mixer: null}", "lab.worlds.Chase")


def test_maddpg_policies_are_merged_into_one_team_policy(wording) -> None:
    policies = "multiagent: {policies: {p0: [null, null, null, {agent_id: 0%s}]}, policy_mapping_fn: lab.f}"
    spec = spec_of("contrib/MADDPG", f"{{{policies % ''}, actor_feature_reg: 0.5}}", "lab.worlds.Chase")
    assert "policies" not in spec
    assert "mapping" not in spec
    config = spec["config"]
    assert (config["output_penalty"], config["lr"], config["training_intensity"]) == (0.5, 0.01, 0.01)
    with wording.raised(SpecError):
        text_of("MADDPG", f"{{{policies % ', use_local_critic: true'}}}", "lab.worlds.Chase")


def test_workers_of_maml_are_translated_to_tasks_and_workers_of_mbmpo_are_dropped() -> None:
    shared = "num_workers: 4, num_envs_per_worker: 10, inner_adaptation_steps: 2, horizon: 50"
    maml = spec_of("MAML", f"{{{shared}}}", "CartPole-v1", "{training_iteration: 3}")
    config = maml["config"]
    assert (config["tasks_per_update"], config["num_workers"], config["rollout_fragment_length"]) == (4, 4, 50)
    assert maml["stop"] == {"env_steps": 3 * 3 * 4 * 10 * 50}  # three phases
    mbmpo = spec_of(
        "MBMPO", f"{{{shared}, dynamics_model: {{train_epochs: 9}}}}", "Pendulum-v1", "{training_iteration: 3}"
    )
    config = mbmpo["config"]
    assert mbmpo["stop"] == {"env_steps": 3 * 10 * 50}
    assert (config["dynamics"]["fit_interval"], config["imagined_episodes"], config["imagined_length"]) == (500, 10, 50)
    assert (config["dynamics"]["max_epochs"], config["dynamics"]["hiddens"]) == (9, [512, 512, 512])
    assert "num_workers" not in config


def test_the_temperature_of_alphazero_is_inverted() -> None:
    searched = "mcts_config: {temperature: 2.0, num_simulations: 7, add_dirichlet_noise: false}"
    batches = (
        "num_workers: 2, rollout_fragment_length: 50, train_batch_size: 200, sgd_minibatch_size: 50, num_sgd_iter: 3"
    )
    spec = spec_of(
        "contrib/AlphaZero", f"{{{searched}, {batches}, ranked_rewards: {{enable: false}}}}", "lab.games.Maze"
    )
    assert spec["env"] == {
        "world": "rlrun.plugin:SearchedEnv",
        "kwargs": {"env": "lab.games:Maze"},
    }
    config = spec["config"]
    assert (config["temperature"], config["simulations"], config["root_noise"]) == (0.5, 7, 0.0)
    assert config["training_intensity"] == 0.12  # 3 passes of 4 minibatches for 100 env steps
    assert config["ranked_returns"] is None


def test_the_minibatches_per_episode_of_dreamer_are_converted_to_a_training_intensity() -> None:
    config = config_of("Dreamer", "{horizon: 250, dreamer_train_iters: 25, td_model_lr: 0.5}", "Pendulum-v1")
    assert (config["training_intensity"], config["lr"], config["replay"]) == (
        0.1,
        0.5,
        {"capacity": 250_000, "length": 50},
    )


def test_translated_bandits_keep_rllibs_posterior_and_refuse_the_alpha_setting(wording) -> None:
    assert config_of("BanditLinTS", "{}", "lab.Bandit")["v"] == 1.0
    assert config_of("BanditLinUCB", "{model: {lambda_: 0.5}}", "lab.Bandit")["ridge"] == 0.5
    with wording.raised(SpecError):
        text_of("BanditLinUCB", "{model: {alpha: 0.9}}", "lab.Bandit")


def test_envs_of_rllib_examples_are_replaced_and_their_unknown_arguments_are_reported() -> None:
    repeating = "ray.rllib.examples.env.repeat_after_me_env.RepeatAfterMeEnv"
    spec = spec_of("PPO", "{env_config: {config: {repeat_delay: 2}}}", repeating)
    assert spec["env"] == {"id": "rlrun.toys:RepeatAfterMe", "kwargs": {"delay": 2}}
    assert "no such argument" in text_of("PPO", "{env_config: {config: {continuous: true}}}", repeating)
    hidden = spec_of("R2D2", "{}", "ray.rllib.examples.env.stateless_cartpole.StatelessCartPole")["env"]
    assert hidden["wrappers"] == [{"id": "rlrun.plugin:PartialView", "kwargs": {"numbers": [0, 2]}}]


def test_every_rlrun_replacement_env_can_be_loaded() -> None:
    ours = {row["id"] for row in table()["old_envs"].values() if row["id"].startswith("rlrun.")}
    assert len(ours) == 3
    for path in ours:
        load_object(path, "env")


def test_the_two_step_game_splits_its_reward_between_agents_as_in_rllib() -> None:
    game = TwoStepGame(split=True)
    game.reset(0)
    game.step({"agent_0": 1, "agent_1": 0})
    assert game.step({"agent_0": 1, "agent_1": 1}).rewards == {"agent_0": 4.0, "agent_1": 4.0}
