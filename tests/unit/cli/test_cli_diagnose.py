from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import rlrun
from rlrun.cli.main import cli
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.step_marks import StepMarks, enable_step_marks, end_marks
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.experiments.runs.trial_result import read_trial


def invoke(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of two seeds that cannot learn."""
    folder = tmp_path_factory.mktemp("runs")
    spec = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "config": {
            "lr": 0.0,
            "train_batch_size": 256,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 64,
            "num_epochs": 2,
            "compile": False,
        },
        "stop": {"env_steps": 2000},
        "seeds": 2,
    }
    rlrun.run({"still": spec}, runs_dir=folder, executor="local")
    return folder


def test_each_finding_is_numbered_and_shown_with_its_reason_and_what_to_try(runs: Path, wording) -> None:
    done = invoke("diagnose", "still", "--runs-dir", runs)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == wording("CartPole-v1")
    assert lines[1] == wording()
    assert lines[3:6] == wording("config.lr")
    assert lines[6:9] == wording("config.minibatch_size", "config.num_epochs", "72")


def test_json_contains_the_findings_and_the_result_of_the_random_policy(runs: Path) -> None:
    done = invoke("diagnose", "still", "--runs-dir", runs, "--episodes", 5, "--json")
    data = json.loads(done.stdout)
    assert [one["name"] for one in data["findings"]] == ["zero learning rate", "few updates"]
    assert data["random_policy"]["episodes"] == 5
    assert set(data["trials"].values()) == {"TERMINATED"}


def test_the_env_of_a_run_outside_runs_dir_is_not_created_without_trust(runs: Path, tmp_path: Path) -> None:
    done = invoke("diagnose", runs / "still", "--runs-dir", tmp_path)
    assert done.exit_code == 0
    assert "a random policy" not in done.stdout
    assert "--trust" in done.stderr
    assert "a random policy" in invoke("diagnose", runs / "still", "--runs-dir", tmp_path, "--trust").stdout


def test_each_policy_of_a_world_is_diagnosed_and_compared_with_random_policies(tmp_path: Path, wording) -> None:
    ppo = {"lr": 0.0, "train_batch_size": 256, "minibatch_size": 64, "num_epochs": 2, "compile": False}
    spec = {
        "env": {"world": "rlrun.toys:CartPoles", "kwargs": {"num_agents": 3}},
        "policies": {
            "left": {"algorithm": "ppo", "config": ppo},
            "right": {"algorithm": "dqn", "config": {"learning_starts": 50_000, "compile": False}},
            "still": {"algorithm": "ppo", "config": ppo},
        },
        "mapping": {"pole_0": "left", "pole_1": "right", "*": "still"},
        "train": ["left", "right"],
        "config": {"num_envs_per_worker": 2},
        "stop": {"env_steps": 1000},
    }
    rlrun.run({"poles": spec}, runs_dir=tmp_path, executor="local")
    done = invoke("diagnose", "poles", "--runs-dir", tmp_path, "--episodes", 5)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == wording("rlrun.toys:CartPoles")
    assert [line.partition(": ")[0] for line in lines[1:3]] == ["left", "right"]
    assert all("; a random policy reaches" in line for line in lines[1:3])
    names = [line.partition(". ")[2].rpartition(": ")[0] for line in lines if line[:1].isdigit()]
    assert names == wording()
    assert any("config.learning_starts below" in line for line in lines)
    assert len(json.loads(invoke("diagnose", "poles", "--runs-dir", tmp_path, "--json").stdout)["random_policy"]) > 1


def test_a_failed_trial_is_reported_first_and_its_env_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    (tmp_path / "belts.py").write_text(
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Torn(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        raise ValueError('the belt is torn')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec = {"algorithm": "ppo", "env": "belts:Torn", "config": {"compile": False}, "stop": {"env_steps": 100}}
    with pytest.raises(TrainingFailed):
        rlrun.run({"torn": spec}, runs_dir=tmp_path, executor="local")
    done = invoke("diagnose", "torn", "--runs-dir", tmp_path)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[:4] == wording("belts:Torn", "ValueError")
    assert lines[5] == wording()
    assert lines[5].endswith("--retry-failed")
    assert len(lines) == 6


def test_a_diverged_trial_is_reported_first_with_advice_on_settings_that_apply_to_it(tmp_path: Path, wording) -> None:
    config = {"lr": 1e20, "max_grad_norm": None, "learning_starts": 64, "compile": False, "double": False}
    spec = {"algorithm": "dqn", "env": "CartPole-v1", "config": config, "stop": {"env_steps": 3000}}
    with pytest.raises(TrainingFailed):
        rlrun.run({"far": spec}, runs_dir=tmp_path, executor="local")
    (first, *_) = json.loads(invoke("diagnose", "far", "--runs-dir", tmp_path, "--json").stdout)["findings"]
    assert first["name"] == "failed"
    assert first["found"].startswith("training has diverged")
    assert first["advice"] == wording("config.lr", "config.max_grad_norm", "config.clip_rewards")


def test_the_diagnosis_of_an_interrupted_trial_says_that_it_was_interrupted(
    runs: Path, tmp_path: Path, wording
) -> None:
    shutil.copytree(runs / "still", tmp_path / "still")
    for path in (tmp_path / "still").glob("*/trial.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"status": "INTERRUPTED", "stop_reason": ""}))
    done = invoke("diagnose", "still", "--runs-dir", tmp_path)
    assert done.stdout.splitlines()[0] == wording("CartPole-v1")
    assert "few updates" not in done.stdout
    assert done.stdout.splitlines()[-1] == wording(tmp_path / "still")
    for path in (tmp_path / "still").glob("*/result.json"):
        path.unlink()
    without = invoke("diagnose", "still", "--runs-dir", tmp_path)
    assert (without.exit_code, without.stderr) == (2, wording())


def test_a_crashed_run_is_reported_with_its_last_env_step_and_its_env_is_not_run_again(
    runs: Path, tmp_path: Path, wording
) -> None:
    shutil.copytree(runs / "still", tmp_path / "still")
    (first, other) = sorted((tmp_path / "still").glob("*/trial.json"))
    record = json.loads(first.read_text())
    first.write_text(json.dumps(record | {"status": "RUNNING", "stop_reason": "", "pid": 1}))
    enable_step_marks(first.parent)
    try:
        StepMarks("lab:Torn", EpisodeSeeds(run_seed=7, worker_index=0), 1).begin(0, 3, 11)
        done = invoke("diagnose", "still", "--runs-dir", tmp_path)
        (first.parent / "result.json").unlink()
        (other.parent / "result.json").unlink()
        without = invoke("diagnose", "still", "--runs-dir", tmp_path)
        known = read_trial(first.parent, "still", has_driver=False).ended_in
    finally:
        end_marks()
    lines = done.stdout.splitlines()
    assert lines[0] == wording("CartPole-v1")
    assert known == wording("lab:Torn", "11")
    assert lines[3] == wording(known)
    assert "a random policy reaches" not in done.stdout
    assert done.stderr == wording()
    assert wording(known) in without.stdout.splitlines()
