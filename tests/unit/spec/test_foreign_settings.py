"""Settings of other libraries are answered with what they are called here, and never with a wrong name."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlrun.errors import SpecError
from rlrun.foreign_settings import FOREIGN_SETTINGS
from rlrun.registry import algorithm_class, algorithm_names
from rlrun.spec.experiment import RunSettings
from rlrun.spec.learning import ENTRY_KEYS
from rlrun.spec.load import load_experiments, parse_experiments

CONFIGS = {name: algorithm_class(name).Config for name in algorithm_names()}


def problems(text: str) -> list[str]:
    Path("spec.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_experiments([Path("spec.yaml")])
    return [str(problem) for problem in caught.value.problems]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("foreign", FOREIGN_SETTINGS)
def test_every_answer_is_a_setting_that_there_is(foreign: str) -> None:
    with_network = [config for config in CONFIGS.values() if "model" in config.model_fields]
    sections = [*CONFIGS.values(), *(config.model_fields["model"].annotation for config in with_network)]
    for ours in FOREIGN_SETTINGS[foreign]:
        if ours.beside_config:
            assert ours.name.partition(".")[0] in ENTRY_KEYS
        else:
            assert any(section.has_setting(ours.name) for section in sections)


def test_there_are_about_eighty_and_none_is_a_name_that_every_algorithm_has() -> None:
    assert len(FOREIGN_SETTINGS) >= 80
    everywhere = set.intersection(*(set(config.model_fields) for config in CONFIGS.values()))
    assert not everywhere & FOREIGN_SETTINGS.keys()
    assert not FOREIGN_SETTINGS.keys() & {*RunSettings.model_fields, *ENTRY_KEYS} - {"seed"}


@pytest.mark.parametrize(
    ("algorithm", "key", "said"),
    [
        ("ppo", "n_steps", "is 'rollout_fragment_length' in ppo: steps of each env; train_batch_size is that times"),
        ("dqn", "n_steps", "is 'n_step' in dqn"),
        ("dqn", "train_freq", "is 'training_intensity' in dqn: minibatches per env step: gradient_steps / train_freq"),
        ("ppo", "batch_size", "is 'minibatch_size' in ppo"),
        ("a2c", "batch_size", "is 'train_batch_size' in a2c"),
        ("ppo", "num_env_runners", "is 'num_workers' in ppo"),
        ("sac", "buffer_size", "is 'replay.capacity' in sac"),
        ("sac", "ent_coef", "is 'initial_alpha' in sac: with learn_alpha: true for 'auto'"),
        ("ppo", "ent_coef", "is 'entropy_coeff' in ppo"),
        ("ppo", "sde_sample_freq", "is 'model.sde_sample_freq' in ppo: null instead of -1"),
        ("ppo", "log_std_init", "is 'model.log_std_init' in ppo: of half the action range"),
        ("ppo", "total_timesteps", "is `stop.env_steps`, beside config, in ppo"),
    ],
)
def test_a_foreign_key_is_answered_for_the_algorithm_that_it_was_written_for(
    algorithm: str, key: str, said: str
) -> None:
    text = f"try:\n  algorithm: {algorithm}\n  env: CartPole-v1\n  stop: {{env_steps: 9}}\n  config: {{{key}: 4}}\n"
    (problem,) = problems(text)
    assert problem.startswith(f"spec.yaml:5:12: try.config.{key}: '{key}' {said}")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("leraning_rate", "'learning_rate' is 'lr' here"),
        ("num_env_runner", "'num_env_runners' is 'num_workers' here"),
        ("num_worker", "did you mean 'num_workers'?"),
        ("lrr", "did you mean 'lr'?"),
        ("minibatch_siz", "did you mean 'minibatch_size'?"),
    ],
)
def test_a_misspelt_key_is_answered_with_the_nearest_name_also_if_that_is_a_foreign_one(key: str, said: str) -> None:
    text = f"try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {{env_steps: 9}}\n  config: {{{key}: 4}}\n"
    assert problems(text) == [f"spec.yaml:5:12: try.config.{key}: unknown key '{key}'; {said}"]


def test_a_misspelt_foreign_key_beside_config_is_answered_as_well() -> None:
    text = "try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 9}\n  total_timestep: 9\n"
    assert problems(text) == [
        "spec.yaml:5:3: try.total_timestep: unknown key 'total_timestep'; "
        "'total_timesteps' is `stop.env_steps`, beside config, here"
    ]


def test_what_an_algorithm_does_not_have_is_not_answered_with_a_name_that_it_has_not() -> None:
    (problem,) = problems(
        "try:\n  algorithm: pg\n  env: CartPole-v1\n  stop: {env_steps: 9}\n  config: {buffer_size: 4}\n"
    )
    assert "unknown key 'buffer_size'" in problem


def test_a_key_of_the_run_beside_config_is_answered_as_well() -> None:
    (problem,) = problems(
        "try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 9}\n  total_timesteps: 1e5\n"
    )
    assert problem == "spec.yaml:5:3: try.total_timesteps: 'total_timesteps' is `stop.env_steps`, beside config, here"


@pytest.mark.parametrize(
    ("written", "known"), [("PPO", "ppo"), ("Apex-DDPG", "apex_ddpg"), ("R2D2", "r2d2"), ("A3C", "a3c")]
)
def test_an_algorithm_is_known_in_any_case(written: str, known: str) -> None:
    (experiment,) = parse_experiments({"a": {"algorithm": written, "env": "CartPole-v1", "stop": {"env_steps": 9}}})
    assert experiment.algorithm == known


def test_all_mistakes_are_told_at_once_also_where_the_algorithm_is_missing() -> None:
    found = problems("try:\n  env: CartPole-v9\n  stop: {env_step: 9}\n  config: {gamma: 2, lr: fast, whatever: 1}\n")
    assert [problem.split(": ")[1] for problem in found] == [
        "try.algorithm",
        "try.env.id",
        "try.config.gamma",
        "try.config.lr",
    ]
