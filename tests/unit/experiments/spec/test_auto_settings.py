"""Settings that are measured before a run: what they may change, and when they are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlrun.algorithms.ddppo.ddppo import DDPPOConfig
from rlrun.algorithms.ppo import PPOConfig
from rlrun.cli.main import cli
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.auto_settings import AUTO_SETTINGS, candidates
from rlrun.experiments.spec.load import parse_experiments

ENTRY: dict[str, Any] = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1000}}
BOTH = {"num_workers": "auto", "num_envs_per_worker": "auto"}


def test_only_worker_and_env_counts_that_fill_the_batch_exactly_are_measured() -> None:
    assert candidates(PPOConfig(train_batch_size=256), AUTO_SETTINGS, 4) == [(0, 8), (1, 8)]
    every = [(number, envs) for number in (0, 1) for envs in (8, 16, 32, 64)]
    assert candidates(PPOConfig(num_envs_per_worker=10), AUTO_SETTINGS, 1) == every
    found = candidates(PPOConfig(), AUTO_SETTINGS, 4)
    assert (3, 8) not in found  # 24 columns do not divide 2048 steps
    assert (4, 16) in found
    assert candidates(PPOConfig(train_batch_size=100, num_envs_per_worker=7), AUTO_SETTINGS, 2) == []


def test_a_given_fragment_length_limits_the_measured_counts_to_those_that_fill_the_batch() -> None:
    config = PPOConfig(train_batch_size=2048, rollout_fragment_length=64)
    assert candidates(config, AUTO_SETTINGS, 2) == [
        *((0, 8), (0, 16), (0, 32)),
        *((1, 8), (1, 16), (1, 32)),
        *((2, 8), (2, 16)),
    ]


def test_a_worker_or_env_count_given_in_the_config_is_kept() -> None:
    config = PPOConfig(num_workers=2, num_envs_per_worker=16)
    assert candidates(config, ["num_envs_per_worker"], 8) == [(2, 8), (2, 16), (2, 32)]
    assert candidates(config, ["num_workers"], 4) == [(0, 16), (1, 16), (4, 16)]


def test_worker_and_env_counts_that_an_algorithm_rejects_are_not_measured() -> None:
    config = DDPPOConfig(train_batch_size=2048, rollout_fragment_length=64, num_envs_per_worker=32)
    assert candidates(config, ["num_workers"], 2) == [(0, 32), (1, 32)]
    assert (4, 8) not in candidates(DDPPOConfig(minibatch_size=3), AUTO_SETTINGS, 4)


def test_data_of_an_experiment_holds_auto_until_it_is_replaced_by_the_measured_number() -> None:
    (experiment,) = parse_experiments({"a": {**ENTRY, "config": {**BOTH, "lr": 1e-3}}}, ["a.seeds=3"])
    assert experiment.auto == AUTO_SETTINGS
    assert experiment.to_data()["config"] == {"lr": 1e-3, **BOTH}
    assert parse_experiments({"a": experiment.to_data()}) == [experiment]
    measured = experiment.with_measured(2, 16)
    assert measured.to_data()["config"] == {"lr": 1e-3, "num_workers": 2, "num_envs_per_worker": 16}
    configs = [trial.config for trial in measured.trials()]
    assert [(each.num_workers, each.num_envs_per_worker) for each in configs] == [(2, 16)] * 3
    assert {each.env_steps_per_update for each in configs} == {2048}
    assert parse_experiments({"a": measured.to_data()}) == [measured]


def test_a_machine_entry_may_use_auto_settings(wording) -> None:
    machines = {"here": {"num_workers": "auto"}}
    (experiment,) = parse_experiments({"a": {**ENTRY, "machines": machines}}, ["machine=here"])
    assert experiment.auto == ("num_workers",)
    with wording.raised(SpecError, "a.machines.here.num_workers", "train_batch_size"):
        parse_experiments({"a": {**ENTRY, "algorithm": "es", "machines": machines}}, ["machine=here"])


SPACES = {"observation": {"type": "Box", "shape": [5], "low": -1, "high": 1}, "action": {"type": "Discrete", "n": 4}}
EXTERNAL = {"external": {"port": 9900, "spaces": SPACES}}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"algorithm": "es"}, "a.config.num_workers: cannot be auto: es has no train_batch_size"),
        ({"algorithm": "dqn"}, "dqn has no train_batch_size to keep constant; set a number"),
        ({"algorithm": "impala"}, "what impala learns depends on the number of workers, because they do not wait"),
        ({"algorithm": "a3c"}, "what a3c learns depends on the number of workers"),
        ({"config": {**BOTH, "asynchronous": True}}, "what ppo learns depends on the number of workers"),
        ({"algorithm": "bc"}, r"a\.config\.num_workers: cannot be set for bc, because the"),
        ({"config": {"num_workers": {"grid_search": ["auto", 2]}}}, "auto cannot be in a search space"),
        ({"config": {**BOTH, "train_batch_size": {"grid_search": [512, 1024]}}}, "train_batch_size varies"),
        ({"algorithm": "a2c"}, r"train_batch_size \(40\) into whole fragments of at least 32 steps"),
        ({"env": EXTERNAL}, "cannot be auto: the clients of env.external are not connected before the run"),
        ({"env": {"world": "rlrun.toys:TicTacToe"}}, "in a multi-agent world, train_batch_size counts"),
        ({"config": {"num_workers": "atuo"}}, "a.config.num_workers: must be a whole number >= 0, not 'atuo'"),
    ],
)
def test_auto_is_rejected_where_the_measured_number_would_affect_learning(part: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        parse_experiments({"a": {**ENTRY, "config": BOTH, **part}})


def test_auto_is_rejected_for_experiments_with_several_policies(wording) -> None:
    entry = {
        "env": {"world": "rlrun.toys:TicTacToe"},
        "policies": {"all": {"algorithm": "ppo"}},
        "stop": {"env_steps": 1000},
        "config": {"num_workers": "auto"},
    }
    with wording.raised(SpecError, "a.config.num_workers"):
        parse_experiments({"a": entry})


def test_validate_warns_that_auto_settings_depend_on_the_machine(tmp_path: Path, wording) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("a: {algorithm: ppo, env: CartPole-v1, stop: {env_steps: 9}, config: {num_workers: auto}}\n")
    result = CliRunner().invoke(cli, ["validate", str(spec)])
    assert result.exit_code == 0
    plan = CliRunner().invoke(cli, ["train", str(spec), "--dry-run"])
    assert wording("num_workers") in plan.stdout.splitlines()
    assert result.stdout == wording("num_workers")
