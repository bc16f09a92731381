"""What a dry run and ``rlrun validate`` print about sweeps, searches and populations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlrun.toys import CartPoles
from tests.command import rlrun

SPEC = """\
grid:
  algorithm: ppo
  env: CartPole-v1
  stop: {env_steps: 1e5}
  seeds: 2
  config: {lr: {grid_search: [1e-3, 3e-4]}, model: {hiddens: {grid_search: [[64, 64]]}}}
  scheduler: asha
search:
  algorithm: ppo
  env: Pendulum-v1
  stop: {env_steps: 1e5}
  num_samples: 20
  config: {lr: {loguniform: [1e-5, 3e-2]}, model: {hiddens: {choice: [[64, 64], [32]]}}}
  scheduler: {median: {grace_period: 5_000}}
  searcher: {optuna: {max_concurrent: 4}}
populations:
  algorithm: ppo
  env: CartPole-v1
  stop: {env_steps: 1e5}
  seeds: [4, 7]
  num_samples: 2
  config: {lr: 0.001}
  scheduler: {pbt: {interval_env_steps: 20_000, mutations: {lr: {loguniform: [1e-5, 1e-2]}}}}
"""

GRID = """\
grid: ppo on CartPole-v1, 2 configurations x 2 seeds
scheduler asha: metric episode_return_mean, mode max, time_attr env_steps, max_t 100,000, grace_period 6,250, \
reduction_factor 4, brackets 1

trial                                   lr  hiddens   seed
000-lr=0.001-hiddens=64x64-seed=0    0.001  [64, 64]     0
001-lr=0.001-hiddens=64x64-seed=1    0.001  [64, 64]     1
002-lr=0.0003-hiddens=64x64-seed=0  0.0003  [64, 64]     0
003-lr=0.0003-hiddens=64x64-seed=1  0.0003  [64, 64]     1
"""

SEARCH = """\
search: ppo on Pendulum-v1, 20 configurations x 1 seed
scheduler median: metric episode_return_mean, mode max, time_attr env_steps, grace_period 5,000, min_samples_required 3
searcher optuna: metric episode_return_mean, mode max, max_concurrent 4, startup_trials 10

searched setting  within
lr                loguniform [1e-05, 0.03]
hiddens           choice [[64, 64], [32]]
"""

POPULATIONS = """\
populations: ppo on CartPole-v1, 2 populations of 2 members
scheduler pbt: metric episode_return_mean, mode max, interval_env_steps 20,000, quantile_fraction 0.25, \
synchronous yes, resample_probability 0.25, perturbation_factors [0.8, 1.2]

changing setting  within
lr                loguniform [1e-05, 0.01]

trial                         lr  population  member
000-population=4-member=0  0.001           4       0
001-population=4-member=1  0.001           4       1
002-population=7-member=0  0.001           7       0
003-population=7-member=1  0.001           7       1
"""


@pytest.fixture(autouse=True)
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def test_a_dry_run_shows_search_spaces_searchers_schedulers_and_trial_counts(tmp_path: Path, wording) -> None:
    result = rlrun("train", "-f", "spec.yaml", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == wording(GRID, SEARCH, POPULATIONS, "28")
    assert [path.name for path in tmp_path.iterdir()] == ["spec.yaml"]


def test_the_output_of_a_dry_run_of_one_trial_is_short(spec: Path, wording) -> None:
    spec.write_text("one:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 1e5}\n")
    result = rlrun("train", "-f", "spec.yaml", "--dry-run")
    assert result.stdout == wording("CartPole-v1", "000")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("algorithm: maml, env: rlrun.toys:PointGoals, stop: {env_steps: 100_000}", "160,000 (60% more)"),
        (
            "algorithm: alphazero, env: {world: rlrun.toys:TicTacToe}, stop: {env_steps: 400}",
            "1,024 (156% more)",
        ),
        ("algorithm: ppo, env: CartPole-v1, stop: {env_steps: 100_000}", ""),
        ("algorithm: ppo, env: CartPole-v1, stop: {iteration: 1}", ""),
    ],
)
def test_a_dry_run_shows_how_far_the_last_iteration_will_exceed_the_stop(spec: Path, entry: str, told: str) -> None:
    spec.write_text(f"one: {{{entry}}}\n")
    result = rlrun("train", "-f", "spec.yaml", "--dry-run")
    assert result.exit_code == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if line.startswith("stop: ")]
    assert [told in line for line in lines] == ([True] if told else [])


def test_a_dry_run_shows_envs_that_vary_by_their_ids(spec: Path) -> None:
    envs = "{grid_search: [CartPole-v1, {id: Pendulum-v1, kwargs: {g: 9.81}}]}"
    spec.write_text(f"one:\n  algorithm: ppo\n  env: {envs}\n  stop: {{env_steps: 1e5}}\n")
    result = rlrun("train", "-f", "spec.yaml", "--dry-run")
    assert result.stdout.splitlines()[2:5] == [
        "trial                       env          seed",
        "000-env=CartPole-v1-seed=0  CartPole-v1     0",
        "001-env=Pendulum-v1-seed=0  Pendulum-v1     0",
    ]


def test_the_json_of_a_dry_run_lists_trials_searchers_and_schedulers() -> None:
    grid, search, populations = json.loads(rlrun("train", "-f", "spec.yaml", "--dry-run", "--json").stdout)[
        "experiments"
    ]
    assert list(grid) == [
        "name",
        "algorithm",
        "env",
        "configurations",
        "seeds",
        "num_trials",
        "scheduler",
        "searcher",
        "trials",
    ]
    assert [trial["params"] for trial in grid["trials"]][1] == {"lr": 1e-3, "hiddens": [64, 64]}
    assert (search["num_trials"], search["trials"]) == (20, [])
    assert search["searcher"]["optuna"]["max_concurrent"] == 4
    assert [(trial["population"], trial["configuration"]) for trial in populations["trials"]] == [
        (4, 0),
        (4, 1),
        (7, 0),
        (7, 1),
    ]
    assert populations["scheduler"]["pbt"]["mutations"] == {"lr": {"loguniform": [1e-5, 1e-2]}}


@pytest.mark.parametrize("words", [["train", "--dry-run", "-f"], ["validate"]])
def test_a_sweep_larger_than_max_trials_is_refused(spec: Path, words: list[str], wording) -> None:
    spec.write_text(SPEC.replace("seeds: 2", "seeds: 5001"))
    refused = rlrun(*words, "spec.yaml")
    assert (refused.exit_code, refused.stderr) == (
        2,
        wording("spec.yaml:1:1", "10,002", "10,000"),
    )
    assert rlrun("validate", "spec.yaml", "--max-trials", "10002").exit_code == 0
    small = rlrun(*words, "spec.yaml", "--max-trials", "3")
    assert [line.partition(": ")[0] for line in small.stderr.splitlines()] == [
        "spec.yaml:1:1",
        "spec.yaml:8:1",
        "spec.yaml:16:1",
    ]


def test_the_validate_command_counts_trials_and_names_schedulers_and_searchers(wording) -> None:
    assert rlrun("validate", "spec.yaml").stdout.splitlines() == wording("CartPole-v1", "20")


def test_validate_does_not_mention_schedulers_if_there_are_none(spec: Path, wording) -> None:
    spec.write_text("one:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 1e5}\n")
    assert rlrun("validate", "spec.yaml").stdout.splitlines()[0] == wording()
    (described,) = json.loads(rlrun("validate", "spec.yaml", "--json").stdout)["experiments"]
    assert (described["trials"], described["scheduler"], described["searcher"]) == (1, None, None)


def test_the_plan_of_a_spec_says_how_observations_enter_the_network(spec: Path, wording) -> None:
    spec.write_text("one:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 1e5}\n")
    assert rlrun("plan", "-f", "spec.yaml").stdout.splitlines()[-3:-1] == wording("shared_value", "64")


def test_the_plan_of_a_recurrent_policy_names_its_core(spec: Path) -> None:
    model = "{hiddens: [32], shared_value: true, core: gru, core_width: 48}"
    spec.write_text(
        f"one: {{algorithm: ppo, env: CartPole-v1, stop: {{env_steps: 1e5}}, config: {{model: {model}}}}}\n"
    )
    assert rlrun("plan", "-f", "spec.yaml").stdout.splitlines()[-3].split()[1:] == ["core", "gru", "of", "width", "48"]


@pytest.mark.parametrize("learner", ["{algorithm: maml", "{algorithm: pg, config: {use_baseline: false}"])
def test_the_plan_of_a_policy_without_a_value_network_does_not_mention_value_sharing(
    spec: Path, learner: str, wording
) -> None:
    spec.write_text(f"one: {learner}, env: CartPole-v1, stop: {{env_steps: 1e5}}}}\n")
    assert wording("64") in rlrun("plan", "-f", "spec.yaml").stdout.splitlines()


def test_the_plan_of_a_spec_lists_the_settings_of_its_preset(spec: Path, wording) -> None:
    env = "{id: ALE/Pong-v5, preset: atari}"
    spec.write_text(f"one:\n  algorithm: dqn\n  env: {env}\n  stop: {{env_steps: 1e5}}\n")
    assert rlrun("plan", "-f", "spec.yaml").stdout.splitlines()[-4:-1] == wording(
        "clip_rewards", "model.conv", "replay.frame_stack"
    )


def test_the_plan_command_accepts_experiments_with_a_searcher() -> None:
    result = rlrun("plan", "-f", "spec.yaml")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("# ") >= 3


def test_a_world_can_be_given_on_the_command_line_in_the_form_used_in_specs() -> None:
    planned = rlrun("train", "--algorithm", "ppo", "--env", "{world: 'rlrun.toys:CartPoles'}", "--dry-run", "--json")
    assert planned.exit_code == 0
    (experiment,) = json.loads(planned.stdout)["experiments"]
    assert (experiment["name"], experiment["env"]) == ("cartpoles-ppo", "rlrun.toys:CartPoles")


class CountedCartPoles(CartPoles):
    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1


@pytest.mark.parametrize("command", [("validate",), ("train", "--dry-run")])
def test_a_mapping_pattern_that_matches_no_agent_is_reported(
    command: Sequence[str], tmp_path: Path, wording: Any
) -> None:
    spec = tmp_path / "poles.yaml"
    spec.write_text(
        f"poles:\n  env: {{world: '{__name__}:CountedCartPoles'}}\n  policies: {{a: {{algorithm: ppo}}}}\n"
        "  mapping: {pole_2: a, 'pole_*': a}\n  stop: {env_steps: 100}\n"
    )
    CountedCartPoles.made = 0
    done = rlrun(*command, str(spec))
    assert (done.exit_code, done.stderr) == (0, wording("'pole_2'", "pole_0, pole_1"))
    assert CountedCartPoles.made == 1
