"""Shipped configs learn. `make test` trains one seed for some of the env steps, up to an easy gate.

The gates are above the best return of 1,000 episodes of random actions, and below the 10th percentile of 30 seeds, so
they hold whatever is drawn or rounded. Policies that do not learn (the control) miss all gates.

`make regress` trains all seeds for as long as each config says, and checks what the config expects: two of three seeds
reach it in 20 deterministic episodes (of the final policy or, if a spec says so, of its last evaluations), and no seed
is at random level.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.experiments.spec.experiment import Experiment
from rlrun.experiments.spec.load import load_experiments
from rlrun.report.regression import suite

ROOT = Path(__file__).parents[2]
EASY = {
    "regression/ppo_cartpole.yaml": (25_000, 150),
    "regression/dqn_cartpole.yaml": (20_000, 100),
    "regression/ppo_pendulum.yaml": (30_000, -500),
    "regression/sac_pendulum.yaml": (3_500, -500),
    "inverted_pendulum/ppo.yaml": (10_240, 50),
}
"""Env steps, and the mean return of 20 deterministic episodes after them.

The 10th percentiles of the seeds 100 to 129 (DQN: 100 to 111) are, in this order, 244, 214, -218, -318 and 106. The
best of 1,000 episodes of random actions is 90 on CartPole, -559 on Pendulum, and 30 on InvertedPendulum.
"""
RANDOM_LEVELS = {
    "cartpole/ppo.yaml": 60,
    "cartpole/impala.yaml": 60,
    "regression/dqn_cartpole.yaml": 60,
    "pendulum/ppo.yaml": -900,
    "inverted_pendulum/ppo.yaml": 50,
}

Verdicts = dict[str, dict[str, Any]]


def easy(config: str, env_steps: int | None = None) -> Experiment:
    """Returns a config with its easy gate, trained for the gate's env steps or for the given number."""
    gate_env_steps, episode_return_mean = EASY[config]
    expect = f"expect={{episode_return_mean: {episode_return_mean}}}"
    overrides = [f"stop.env_steps={env_steps or gate_env_steps}", "evaluation=null", expect]
    (experiment,) = load_experiments([ROOT / "configs" / config], overrides)
    return experiment


@pytest.mark.parametrize("config", EASY)
def test_a_regression_config_passes_an_easier_gate(config: str, tmp_path: Path) -> None:
    (verdict,) = suite.regress([easy(config)], runs_dir=tmp_path, seeds=1, executor="local")
    assert verdict.passed, verdict.cases


def test_frozen_policies_miss_the_easier_gates(tmp_path: Path) -> None:
    # Frozen policies gain nothing from more env steps, so a few are enough. `make regress` tries the gates of all
    # configs.
    experiments = [easy(f"regression/{config}.yaml", env_steps=2_000) for config in ("ppo_cartpole", "ppo_pendulum")]
    verdicts = suite.regress(experiments, runs_dir=tmp_path, seeds=1, control=True, executor="local")
    assert [case.outcome for verdict in verdicts for case in verdict.cases] == ["missed"] * 2


def regress(configs: list[str], runs_dir: Path, *more: str) -> tuple[Verdicts, str]:
    """Returns the verdict on each config, and the messages. All configs run in a single Ray."""
    files = [word for config in configs for word in ("-f", str(ROOT / "configs" / config))]
    command = [sys.executable, "-m", "rlrun", "regress", *files, "--json", "--runs-dir", str(runs_dir), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return dict(zip(configs, json.loads(done.stdout)["experiments"], strict=True)), f"{done.returncode}\n{done.stderr}"


def returns_of(verdict: dict[str, Any]) -> list[float]:
    return [case["values"]["episode_return_mean"] for case in verdict["cases"]]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdicts, str]:
    return regress(list(RANDOM_LEVELS), tmp_path_factory.mktemp("learned"), "--seeds", "3")


@pytest.mark.regress
@pytest.mark.timeout(3600)  # the first test waits until everything is trained
@pytest.mark.parametrize("config", RANDOM_LEVELS)
def test_a_config_reaches_its_expected_return_and_every_seed_beats_random_level(
    config: str, learned: tuple[Verdicts, str]
) -> None:
    verdicts, told = learned
    found = returns_of(verdicts[config])
    assert verdicts[config]["passed"], f"{found}\n{told}"
    assert len(found) == 3
    assert min(found) > RANDOM_LEVELS[config], found


@pytest.mark.regress
def test_frozen_policies_miss_every_configs_expected_return(tmp_path: Path) -> None:
    words = ["--control", "--executor", "local", "--seeds", "1"]
    verdicts, told = regress(list(RANDOM_LEVELS), tmp_path, *words)
    assert told.startswith("0\n"), told
    reached = {config: [case["outcome"] for case in verdict["cases"]] for config, verdict in verdicts.items()}
    assert reached == {config: ["missed"] for config in RANDOM_LEVELS}


@pytest.mark.regress
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("config", "least"), [("lunar_lander/ppo.yaml", 200), ("lunar_lander/dqn.yaml", 120)])
def test_the_interquartile_mean_of_five_seeds_solves_lunar_lander(config: str, least: float, tmp_path: Path) -> None:
    verdicts, told = regress([config], tmp_path, "--seeds", "5")
    found = returns_of(verdicts[config])
    assert len(found) == 5, told
    assert np.mean(sorted(found)[1:4]) >= least, found
    assert min(found) > 0, found
