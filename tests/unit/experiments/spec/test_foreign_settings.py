"""Settings of other libraries are answered with their names in rlrun, and never with a wrong name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import pytest

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.messages.foreign_names import Absent, Counterpart, settings, table
from rlrun.engine.settings.config import ConfigModel, is_config
from rlrun.engine.settings.registry import algorithm_class, algorithm_names
from rlrun.experiments.spec.experiment import EvaluationConfig, RunSettings
from rlrun.experiments.spec.keys import ENTRY_KEYS
from rlrun.experiments.spec.load import load_experiments, parse_experiments
from rlrun.experiments.spec.tuning import Pb2Config, PbtConfig

pytestmark = pytest.mark.usefixtures("own_folder")

CONFIGS = {name: algorithm_class(name).Config for name in algorithm_names()}
BESIDE = (RunSettings, EvaluationConfig, PbtConfig, Pb2Config)
FOREIGN_SETTINGS = {
    name for name, meanings in settings().items() if any(isinstance(each, Counterpart) for each in meanings)
}


def problems(text: str) -> list[str]:
    Path("spec.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_experiments([Path("spec.yaml")])
    return [str(problem) for problem in caught.value.problems]


def below(config: type[ConfigModel]) -> Iterator[type[ConfigModel]]:
    """Yields a config and all sections below it, including those in mappings."""
    yield config
    for field in config.model_fields.values():
        section = get_args(field.annotation)[1] if get_origin(field.annotation) is dict else field.annotation
        if is_config(section):
            yield from below(section)


SECTIONS = {section for config in (*CONFIGS.values(), *BESIDE) for section in below(config)}


@pytest.mark.parametrize("foreign", settings())
def test_every_setting_suggested_for_a_foreign_one_exists(foreign: str) -> None:
    for meaning in settings()[foreign]:
        where = [section for section in SECTIONS if not meaning.needs or section.has_setting(meaning.needs)]
        assert where
        if isinstance(meaning, Absent):
            assert not all(section.has_setting(foreign) for section in where)
        elif meaning.of_experiment:
            key, _, rest = meaning.name.partition(".")
            section = {"env": EnvConfig, "evaluation": EvaluationConfig, "stop": None}.get(key, RunSettings)
            assert key in ENTRY_KEYS
            assert not rest or section is None or section.has_setting(meaning.name if section is RunSettings else rest)
        else:
            assert any(section.has_setting(meaning.name) for section in where)


def test_at_least_80_foreign_settings_are_known_and_none_is_a_setting_of_every_rlrun_algorithm() -> None:
    assert len(FOREIGN_SETTINGS) >= 80
    everywhere = set.intersection(*(set(config.model_fields) for config in CONFIGS.values()))
    assert not everywhere & FOREIGN_SETTINGS
    assert not settings().keys() & {*RunSettings.model_fields, *ENTRY_KEYS} - {"seed"}


@pytest.mark.parametrize(
    ("algorithm", "key", "said"),
    [
        (
            "ppo",
            "n_steps",
            "in rlrun this is 'rollout_fragment_length' (steps per env; train_batch_size is this times",
        ),
        ("dqn", "n_steps", "in rlrun this is 'n_step'"),
        ("dqn", "train_freq", "in rlrun this is 'training_intensity'"),
        ("ppo", "batch_size", "in rlrun this is 'minibatch_size'"),
        ("a2c", "batch_size", "in rlrun this is 'train_batch_size'"),
        ("ppo", "num_env_runners", "in rlrun this is 'num_workers'"),
        ("sac", "buffer_size", "in rlrun this is 'replay.capacity'"),
        ("sac", "ent_coef", "in rlrun this is 'initial_alpha' (with learn_alpha: false for a fixed value"),
        ("sac", "alpha", "in rlrun this is 'initial_alpha' (with learn_alpha: false for a fixed value"),
        ("dqn", "alpha", "in rlrun this is 'replay.priority_alpha'"),
        ("dqn", "beta", "in rlrun this is 'replay.priority_beta'"),
        ("dqn", "num_steps", "in rlrun this is 'rollout_fragment_length' (steps per env)"),
        (
            "dqn",
            "target_network_update_freq",
            "in rlrun this is 'target_update_interval' (in minibatches: multiply env steps",
        ),
        ("appo", "target_network_update_freq", "in rlrun this is 'target_update_interval' (in batches)"),
        ("ppo", "vf_coef", "in rlrun this is 'vf_loss_coeff' (the same value as in SB3; half of CleanRL's"),
        ("ppo", "reward_normalization", "in rlrun this is 'normalize_rewards'"),
        ("ppo", "vf_loss_clip", "in rlrun this is 'vf_clip_param'"),
        ("ppo", "num_gpus_per_learner", "in rlrun this is 'num_gpus' (the total for all learners)"),
        (
            "ppo",
            "max_epoch",
            "in rlrun this is `stop.env_steps`, next to `config` (number of epochs",
        ),
        ("ppo", "frame_stack", "in rlrun this is 'model.views.obs'"),
        ("ppo", "device", "in rlrun this is 'num_gpus'"),
        ("ppo", "policy", "in rlrun this is 'model'"),
        ("ppo", "test_num", "in rlrun this is `evaluation.episodes`, next to `config`"),
        ("ppo", "conv_filters", "in rlrun this is 'model.conv'"),
        ("ppo", "env_id", "in rlrun this is `env`, next to `config`"),
        ("ppo", "run", "in rlrun this is `algorithm`, next to `config`"),
        ("pg", "advantage_normalization", "in rlrun this is 'standardize_advantages'"),
        ("dqn", "final_epsilon", "in rlrun this is 'epsilon'"),
        ("dqn", "sample_batch_size", "in rlrun this is 'rollout_fragment_length'"),
        ("dqn", "prioritized_replay_eps", "in rlrun this is 'replay.priority_epsilon'"),
        ("dqn", "store_buffer_in_checkpoints", "in rlrun this is 'replay.save_in_checkpoints'"),
        ("sac", "learning_rate", "in rlrun this is 'lr' (set critic_lr and alpha_lr as well)"),
        ("td3", "learning_rate", "in rlrun this is 'lr' (set critic_lr as well)"),
        ("sac", "norm_obs", "in rlrun this is 'normalize_observations'"),
        ("ppo", "norm_reward", "in rlrun this is 'normalize_rewards'"),
        ("sac", "entropy_learning_rate", "in rlrun this is 'alpha_lr'"),
        ("td3", "noise_type", "in rlrun this is 'exploration'"),
        ("td3", "update_actor_freq", "in rlrun this is 'policy_delay'"),
        ("td3", "critic_hiddens", "in rlrun this is 'model.hiddens' (the layers of all networks)"),
        ("crossq", "critic_hiddens", "in rlrun this is 'model.critic_hiddens'"),
        ("sac", "n_critics", "in rlrun this is 'num_critics'"),
        ("td3", "twin_q", "in rlrun this is 'num_critics'"),
        ("es", "noise_stdev", "in rlrun this is 'sigma'"),
        ("es", "stepsize", "in rlrun this is 'lr'"),
        ("es", "l2_coeff", "in rlrun this is 'weight_decay'"),
        ("ppo", "ent_coef", "in rlrun this is 'entropy_coeff'"),
        ("ppo", "sde_sample_freq", "in rlrun this is 'model.sde_sample_freq'"),
        ("ppo", "log_std_init", "in rlrun this is 'model.log_std_init'"),
        ("ppo", "total_timesteps", "in rlrun this is `stop.env_steps`, next to `config`"),
    ],
)
def test_the_hint_for_a_foreign_key_fits_the_algorithm(algorithm: str, key: str, said: str, wording) -> None:
    text = f"try:\n  algorithm: {algorithm}\n  env: CartPole-v1\n  stop: {{env_steps: 9}}\n  config: {{{key}: 4}}\n"
    problem, *_ = problems(text)  # a second problem may be that 4 is invalid
    assert problem == wording(key, said, "spec.yaml:5:12", "try.config")


@pytest.mark.parametrize(
    ("algorithm", "key", "said"),
    [
        (
            "ppo",
            "normalize_advantage",
            "unknown setting 'normalize_advantage'; rlrun has no counterpart: advantages are always standardized",
        ),
        (
            "ppo",
            "kl_coeff",
            (
                "unknown setting 'kl_coeff'; in rlrun this is 'kl_penalty' (a section, {coeff: 0.2, target: 0.01}, in "
                "which it is coeff)"
            ),
        ),
        (
            "sac",
            "norm_reward",
            (
                "unknown setting 'norm_reward'; rlrun has no counterpart: a replay buffer would mix rewards of "
                "different scales; set reward_scale instead"
            ),
        ),
        (
            "ppo",
            "clip_obs",
            "unknown setting 'clip_obs'; rlrun has no counterpart: normalized observations are always clipped at 10",
        ),
        ("ppo", "compress_observations", "unknown setting 'compress_observations'; rlrun has no counterpart"),
        (
            "dqn",
            "eps_test",
            "unknown setting 'eps_test'; rlrun has no counterpart: evaluations take the greedy action",
        ),
        (
            "td3",
            "target_entropy",
            "td3 has no setting 'target_entropy'; it is a setting of cql, crossq, droq and others",
        ),
        (
            "impala",
            "vtrace",
            "unknown setting 'vtrace'; rlrun has no counterpart: values are always corrected with V-trace",
        ),
        (
            "impala",
            "epsilon",
            "unknown setting 'epsilon'; rlrun has no counterpart: the optimizer is Adam, whose epsilon is 1e-5",
        ),
        ("a2c", "minibatch_size", "a2c has no setting 'minibatch_size'; it is a setting of alphazero, apex, apex_ddpg"),
        ("a2c", "clip_range", "unknown key 'clip_range'; see `rlrun config a2c`"),
    ],
)
def test_a_foreign_key_for_a_feature_an_algorithm_lacks_gets_the_alternative_and_no_guess(
    algorithm: str, key: str, said: str
) -> None:
    text = f"try:\n  algorithm: {algorithm}\n  env: CartPole-v1\n  stop: {{env_steps: 9}}\n  config: {{{key}: 4}}\n"
    (problem,) = problems(text)
    assert problem.startswith(f"spec.yaml:5:12: try.config.{key}: {said}")
    assert "did you mean" not in problem


@pytest.mark.parametrize(
    ("algorithm", "section", "said"),
    [
        ("ppo", "model: {max_seq_len: 4}", "unknown setting 'max_seq_len'; in rlrun this is `config.seq_len`"),
        ("dqn", "replay: {alpha: 0.6}", "unknown setting 'alpha'; in rlrun this is 'priority_alpha'"),
        ("ppo", "model: {n_steps: 4}", "unknown setting 'n_steps'; in rlrun this is `config.rollout_fragment_length`"),
    ],
)
def test_the_hint_for_a_foreign_key_in_a_section_refers_to_that_section_or_the_config(
    algorithm: str, section: str, said: str
) -> None:
    text = f"try:\n  algorithm: {algorithm}\n  env: CartPole-v1\n  stop: {{env_steps: 9}}\n  config: {{{section}}}\n"
    (problem,) = problems(text)
    assert said in problem


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("leraning_rate", "In rlrun this is 'lr'"),
        ("num_env_runner", "In rlrun this is 'num_workers'"),
        ("num_worker", "did you mean 'num_workers'?"),
        ("lrr", "did you mean 'lr'?"),
        ("minibatch_siz", "did you mean 'minibatch_size'?"),
    ],
)
def test_the_hint_for_a_misspelled_key_is_based_on_the_closest_name_even_if_that_is_foreign(
    key: str, said: str, wording
) -> None:
    text = f"try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {{env_steps: 9}}\n  config: {{{key}: 4}}\n"
    assert problems(text) == wording(key, said, "spec.yaml:5:12", "try.config")


def test_an_unknown_key_gets_no_hint_to_a_setting_that_the_algorithm_lacks() -> None:
    (problem,) = problems(
        "try:\n  algorithm: pg\n  env: CartPole-v1\n  stop: {env_steps: 9}\n  config: {buffer_size: 4}\n"
    )
    assert "unknown key 'buffer_size'" in problem


@pytest.mark.parametrize(
    ("written", "known"), [("PPO", "ppo"), ("Apex-DDPG", "apex_ddpg"), ("R2D2", "r2d2"), ("A3C", "a3c")]
)
def test_algorithm_names_are_case_insensitive(written: str, known: str) -> None:
    (experiment,) = parse_experiments({"a": {"algorithm": written, "env": "CartPole-v1", "stop": {"env_steps": 9}}})
    assert experiment.algorithm == known


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("learning_rate", "unknown setting 'learning_rate'; in rlrun this is `config.lr`"),
        ("n_envs", "unknown setting 'n_envs'; in rlrun this is `config.num_envs_per_worker`"),
        ("net_arch", "unknown setting 'net_arch'; in rlrun this is `config.model.hiddens`"),
        ("batch_size", "unknown setting 'batch_size'; in rlrun this is `config.minibatch_size`"),
        ("clip_range", "unknown setting 'clip_range'; in rlrun this is `config.clip_param`"),
        ("lr", "'lr' belongs under config"),
        ("learning_rat", "unknown key 'learning_rat'; did you mean 'learning_rate'? In rlrun this is `config.lr`"),
        (
            "explore",
            (
                "unknown setting 'explore'; in rlrun this is `evaluation.actions`, next to `config` (sampled "
                "for true, greedy for false)"
            ),
        ),
        ("total_timesteps", "unknown setting 'total_timesteps'; in rlrun this is `stop.env_steps`, next to `config`"),
        (
            "total_timestep",
            (
                "unknown key 'total_timestep'; did you mean 'total_timesteps'? In rlrun this is `stop.env_steps`, "
                "next to `config`"
            ),
        ),
    ],
)
def test_an_unknown_top_level_key_of_an_experiment_gets_a_hint_about_where_it_belongs(key: str, said: str) -> None:
    problem, *_ = problems(f"try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {{env_steps: 9}}\n  {key}: 4\n")
    assert problem == f"spec.yaml:5:3: try.{key}: {said}"


@pytest.mark.parametrize("algorithm", ["", "  algorithm: pppo\n", "  run: PPPO\n"])
def test_all_mistakes_are_reported_at_once_even_if_the_algorithm_is_unknown(algorithm: str, wording) -> None:
    found = problems(
        f"try:\n{algorithm}  env: CartPole-v9\n  stop: {{env_step: 9}}\n  learning_rate: 1\n  config:\n"
        "    {gamma: 2, lr: fast, replay: {capacity: x}, n_steps: 4, num_env_runners: 2, whatever: 1, seeds: 2,\n"
        "     model: {net_arch: [64], max_seq_len: 4, size: nano}}\n"
    )
    told = dict(problem.split(": ", 2)[1:] for problem in found)
    assert told.keys() == {
        "try.run" if "run" in algorithm else "try.algorithm",
        "try.env.id",
        "try.stop.env_step",
        "try.learning_rate",
        "try.config.gamma",
        "try.config.lr",
        "try.config.n_steps",
        "try.config.num_env_runners",
        "try.config.whatever",
        "try.config.seeds",
        "try.config.model.net_arch",
        "try.config.model.max_seq_len",
    }
    assert told["try.stop.env_step"] == wording("env_steps")
    assert told["try.learning_rate"] == "unknown setting 'learning_rate'; in rlrun this is `config.lr`"
    assert told["try.config.n_steps"] == wording("n_steps", "rollout_fragment_length")
    assert told["try.config.num_env_runners"] == "unknown setting 'num_env_runners'; in rlrun this is 'num_workers'"
    assert told["try.config.whatever"] == "unknown key 'whatever'"
    assert told["try.config.model.net_arch"] == wording("net_arch", "hiddens")
    assert told["try.config.model.max_seq_len"] == wording("max_seq_len", "config.seq_len")


def test_without_an_algorithm_the_hint_for_a_misspelled_setting_is_the_closest_of_any_algorithm(wording) -> None:
    found = problems("try:\n  env: CartPole-v1\n  stop: {env_steps: 9}\n  config: {kl_coef: 1}\n")
    assert found[-1] == wording("spec.yaml:4:12", "try.config.kl_coef", "kl_coeff")


def test_if_a_custom_algorithm_cannot_be_found_its_settings_are_not_reported_as_unknown() -> None:
    (problem,) = problems(
        "try:\n  algorithm: my_lab:AWR\n  env: CartPole-v1\n  stop: {env_steps: 9}\n  config: {beta: 1, whatever: 2}\n"
    )
    assert problem.startswith("spec.yaml:2:14: try.algorithm: ")


def test_foreign_settings_are_reported_for_a_policy_whose_algorithm_is_unknown(wording) -> None:
    found = problems(
        "try:\n  env: {pettingzoo: mpe2.simple_spread_v3}\n  stop: {env_steps: 9}\n"
        "  policies: {a: {algorithm: pppo, net_arch: [8], config: {learning_rate: 1, clip_param: 1, num_workers: 2}}}\n"
    )
    told = dict(problem.split(": ", 2)[1:] for problem in found if ": try.policies" in problem)
    assert told.keys() == {
        "try.policies.a.algorithm",
        "try.policies.a.net_arch",
        "try.policies.a.config.learning_rate",
        "try.policies.a.config.num_workers",
    }
    assert told["try.policies.a.net_arch"] == wording("net_arch", "policies.a.config.model.hiddens")
    assert told["try.policies.a.config.learning_rate"] == "unknown setting 'learning_rate'; in rlrun this is 'lr'"
    assert told["try.policies.a.config.num_workers"].startswith("cannot be set")


def test_parsing_a_valid_spec_does_not_load_the_table_of_foreign_settings() -> None:
    settings.cache_clear()
    table.cache_clear()
    Path("lab_fields.py").write_text("import gymnasium\n\ndef make():\n    return gymnasium.make('CartPole-v1')\n")
    parse_experiments({"a": {"algorithm": "PPO", "env": "lab_fields:make", "stop": {"env_steps": 9}}})
    assert table.cache_info().currsize == 0


def told_of(text: str) -> dict[str, list[str]]:
    """Returns the messages about a spec, by path below the experiment."""
    told: dict[str, list[str]] = {}
    for problem in problems(text):
        _, path, message = problem.split(": ", 2)
        told.setdefault(path.partition(".")[2], []).append(f"{path}: {message}")
    return told


def test_the_key_run_is_read_as_algorithm_and_values_of_foreign_keys_are_checked_in_the_same_pass(wording) -> None:
    told = told_of(
        "cartpole-ppo:\n  env: CartPole-v1\n  seeds: 1\n  run: PPO\n  stop: {training_iteration: 9}\n"
        "  checkpoint_freq: 3\n"
        "  config:\n    {kl_coeff: 0.2, num_sgd_iter: {grid_search: [1, 0]}, eager: true, sgd_stepsize: fast,\n"
        "     model: {fcnet_hiddens: [32], fcnet_activation: linear}}\n"
    )
    assert told == {
        "run": wording("run", "algorithm"),
        "stop.training_iteration": wording("training_iteration"),
        "checkpoint_freq": wording("checkpoint_freq", "checkpoint.every"),
        "config.kl_coeff": wording("kl_coeff", "kl_penalty"),
        "config.num_sgd_iter": wording("num_sgd_iter", "num_epochs"),
        "config.num_sgd_iter.grid_search.1": wording(),
        "config.eager": wording("eager"),
        "config.sgd_stepsize": wording("sgd_stepsize", "lr", "fast"),
        "config.model.fcnet_hiddens": wording("fcnet_hiddens"),
        "config.model.fcnet_activation": wording("fcnet_activation", "tanh", "relu"),
    }


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("PPOO", "did you mean 'ppo'?"),
        ("ACKTR", ("unknown algorithm 'ACKTR': rlrun does not have it; 'a2c' and 'ppo' are the closest")),
    ],
)
def test_an_invalid_value_of_the_key_run_is_reported_there_and_not_as_a_missing_algorithm(run: str, said: str) -> None:
    told = told_of(
        f"try:\n  env: CartPole-v1\n  seeds: 1\n  run: {run}\n  stop: {{env_steps: 9}}\n  config: {{lr: -1}}\n"
    )
    assert told.keys() == {"run", "config.lr"}
    assert said in told["run"][1]


def test_two_foreign_keys_for_the_same_setting_are_both_reported_and_one_is_used(wording) -> None:
    told = told_of("try:\n  run: PPO\n  env_name: CartPole-v1\n  env_config: {a: 1}\n  n_timesteps: x\n  epoch: 5\n")
    assert told == {
        "run": wording("run", "algorithm"),
        "env_name": wording("env_name"),
        "env_config": wording("env_config", "env.kwargs"),
        "n_timesteps": wording("n_timesteps", "stop.env_steps"),
        "epoch": wording("epoch", "stop.env_steps"),
    }


def test_the_key_run_does_not_override_the_key_algorithm(wording) -> None:
    told = told_of("try:\n  algorithm: ppo\n  env: CartPole-v1\n  run: DQN\n  stop: {env_steps: 9}\n")
    assert told == {"run": wording("run", "algorithm")}


def test_foreign_keys_in_population_checkpoint_and_evaluation_sections_get_hints(wording) -> None:
    told = told_of(
        "try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 1e5}\n  num_samples: 4\n  local_dir: x\n"
        "  scheduler:\n    pbt: {perturbation_interval: 5, hyperparam_mutations: {lr: [1], lambda: {choice: [1]}}}\n"
        "  checkpoint: {frequency: 5, num_to_keep: 0}\n  evaluation: {interval: 5, duration: 3}\n"
    )
    mutations = "scheduler.pbt.hyperparam_mutations"
    assert told == {
        "local_dir": wording("local_dir"),
        "scheduler.pbt.perturbation_interval": wording("perturbation_interval", "interval_env_steps"),
        mutations: wording("hyperparam_mutations"),
        f"{mutations}.lr": wording(),
        f"{mutations}.lambda": wording("gae_lambda"),
        "checkpoint.frequency": wording("frequency", "every"),
        "checkpoint.num_to_keep": wording("num_to_keep"),
        "evaluation.interval": wording("interval", "every"),
        "evaluation.duration": wording("duration", "episodes"),
    }


def test_a_misplaced_search_space_does_not_hide_other_mistakes(wording) -> None:
    told = told_of(
        "try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: {grid_search: [1, 2]}}\n  num_samples: 0\n"
    )
    assert told == {
        "stop.env_steps": wording(),
        "num_samples": wording(),
    }


@pytest.mark.parametrize("algorithm", ["qmix", "dreamer", "ddpg"])
def test_foreign_names_for_widths_and_horizons_get_no_misleading_suggestion(algorithm: str, wording) -> None:
    text = f"try:\n  algorithm: {algorithm}\n  env: CartPole-v1\n  stop: {{env_steps: 9}}\n  config: {{%s: 4}}\n"
    assert "mixer_hidden" not in " ".join(problems(text % "actor_hiddens"))
    (problem,) = [told for told in problems(text % "soft_horizon") if "soft_horizon" in told]
    assert problem == wording("env.max_episode_steps")
