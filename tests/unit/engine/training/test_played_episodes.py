"""Episodes of an evaluation as text, kept for reports and printed by `rlrun evaluate --show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import rlrun
from rlrun.cli.main import cli
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError
from rlrun.engine.training.act.played_episodes import episodes_as_text
from rlrun.engine.training.training import Training
from rlrun.experiments.launch.run import run
from rlrun.report.page import page_data
from rlrun.report.reading import read_run

SMALL = {"num_envs_per_worker": 2, "train_batch_size": 32, "minibatch_size": 32, "num_epochs": 1, "compile": False}


def test_evaluation_episodes_are_kept_as_text_and_printed(tmp_path: Path) -> None:
    spec = {
        "talk": {
            "algorithm": "ppo",
            "env": "rlrun.toys:TwentyQuestions",
            "config": {**SMALL, "model": {"hiddens": [4]}},
            "stop": {"iteration": 1},
            "evaluation": {"episodes": 3, "show": 2},
        }
    }
    (trial,) = run(spec, runs_dir=tmp_path)
    kept = (trial.directory / "episodes.txt").read_text().splitlines()
    assert len(kept) == 2
    assert all(" it is " in line for line in kept)
    view = read_run(tmp_path / "talk")
    (data,) = page_data([view], "episode_return_mean", "max", [])["runs"]
    assert data["episodes"] == {"trial": trial.name, "text": "\n".join(kept)}
    words = ["evaluate", "talk", "--runs-dir", str(tmp_path), "--episodes", "3", "--show", "3", "--seed", "7", "--json"]
    found = json.loads(CliRunner().invoke(cli, words, catch_exceptions=False).stdout)
    assert [float(line.split()[0]) for line in found["shown"]] == pytest.approx(found["returns"])


def test_envs_without_text_rendering_and_worlds_with_several_agents_are_refused(wording) -> None:
    with Training("CartPole-v1", rlrun.PPO(**SMALL)) as training:
        with wording.raised(EnvironmentUnusable, "rgb_array"):
            episodes_as_text(training.acting.policy(), EnvConfig(id="CartPole-v1"), 1, 0)
        world = EnvConfig(world="rlrun.toys:TwoStepGame")
        with wording.raised(UsageError, "TwoStepGame"):
            episodes_as_text(training.acting.policy(), world, 1, 0)
