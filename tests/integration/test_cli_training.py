"""The commands on real runs: train, resume, evaluate, record, runs, doctor."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import pytest
from click.testing import Result

from tests.command import rlrun

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "configs/cartpole/ppo.yaml"
COMMAND = [sys.executable, "-m", "rlrun"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def train(runs_dir: Path, *words: object, steps: int = 3000) -> Result:
    return rlrun("train", "-f", SPEC, "--set", f"stop.env_steps={steps}", "--runs-dir", runs_dir, *words)


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run named cartpole-ppo."""
    folder = tmp_path_factory.mktemp("runs")
    result = train(folder, "--json")
    assert result.exit_code == 0, result.stderr
    (folder / "printed.json").write_text(result.stdout)
    (folder / "progress.txt").write_text(result.stderr)
    return folder


def test_train_prints_results_as_json_on_stdout_and_progress_on_stderr(runs_dir: Path) -> None:
    (trial,) = json.loads((runs_dir / "printed.json").read_text())["trials"]
    assert (trial["name"], trial["status"], trial["seed"]) == ("000-seed=0", "TERMINATED", 0)
    assert 3000 <= trial["last_result"]["env_steps"] < 4300
    assert Path(trial["checkpoint"]).is_dir()
    progress = (runs_dir / "progress.txt").read_text().splitlines()
    assert progress[0].startswith("cartpole-ppo: 1 trial, in ")
    assert re.fullmatch(r"000-seed=0: starting on \S+:\d+", progress[1])
    assert any(re.match(r"000-seed=0: [\d,]+ of 3,000 env steps, return ", line) for line in progress[2:])
    assert progress[-1].endswith(">= 3,000]")


def test_train_ends_by_printing_a_results_table_and_the_next_commands(tmp_path: Path, wording) -> None:
    result = train(tmp_path, "--name", "table", "--seed", 3)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["trial", "status"]
    assert lines[1].startswith("000-seed=3  terminated")
    assert lines[-2:] == wording("20")


def test_a_dry_run_prints_the_trials_and_writes_nothing(tmp_path: Path) -> None:
    result = train(tmp_path / "runs", "--dry-run", "--set", "config.lr={grid_search: [1e-3, 1e-4]}", "--set", "seeds=2")
    assert result.exit_code == 0, result.stderr
    assert "001-lr=0.001-seed=1" in result.stdout
    assert result.stdout.endswith("\n4 trials in total.\n")
    assert not (tmp_path / "runs").exists()
    (as_json,) = json.loads(train(tmp_path, "--dry-run", "--json", "--seed", 5).stdout)["experiments"]
    assert [(trial["name"], trial["seed"]) for trial in as_json["trials"]] == [("000-seed=5", 5)]


def test_train_needs_only_an_algorithm_and_an_env(tmp_path: Path) -> None:
    words = ["train", "--algorithm", "ppo", "--env", "CartPole-v1", "--dry-run", "--json"]
    (experiment,) = json.loads(rlrun(*words).stdout)["experiments"]
    assert experiment["trials"][0]["config"]["gamma"] == 0.98  # from the shipped config, not the default


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name spec files with -f"),
        (["--algorithm", "ppo"], "must be given together"),
        (["-f", "x.yaml", "--env", "CartPole-v1"], "name spec files with -f, or"),
        (["-f", "no-such.yaml"], "no-such.yaml"),
        (["-f", SPEC, "--executor", "cloud"], "'local', 'ray'"),
        (["-f", SPEC, "--seed", "-1"], "--seed"),
        (["-f", SPEC, "--set", "config.lrr=1"], "did you mean 'lr'?"),
        (["-f", SPEC, "--from", "nowhere"], "nowhere does not exist"),
        (["-f", SPEC, "--runs-dir", SPEC / "below"], "below"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_usage_of_train_prints_a_message_without_a_traceback(words: list[object], message: str) -> None:
    result = rlrun("train", *words)
    assert result.exit_code == 2, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_evaluate_plays_the_exact_number_of_episodes_and_is_reproducible(runs_dir: Path) -> None:
    words = ["evaluate", "cartpole-ppo", "--runs-dir", runs_dir, "--episodes", 11, "--json"]
    first, second = json.loads(rlrun(*words).stdout), json.loads(rlrun(*words).stdout)
    assert first == second
    assert len(first["returns"]) == len(first["lengths"]) == first["episodes"] == 11
    assert first["ci95"][0] <= first["mean"] <= first["ci95"][1]
    assert json.loads(rlrun(*words, "--actions", "sampled").stdout)["returns"] != first["returns"]
    assert json.loads(rlrun(*words, "--seed", 1).stdout)["returns"] != first["returns"]
    text = rlrun(*words[:-1], "--best").stdout
    assert "11 episodes" in text
    assert "95% interval" in text


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPole-v9", "did you mean 'CartPole-v1'?"),
        ("Pendulum-v1", "the observations are Box("),
        ("MountainCar-v0", "the observations are Box("),
    ],
)
def test_evaluate_prints_a_message_if_the_env_is_incompatible(runs_dir: Path, env: str, message: str) -> None:
    result = rlrun("evaluate", "cartpole-ppo", "--runs-dir", runs_dir, "--env", env)
    assert result.exit_code == 2, result.stderr
    assert message in result.stderr


def test_evaluate_runs_in_another_compatible_env(runs_dir: Path) -> None:
    words = ["evaluate", "cartpole-ppo", "--runs-dir", runs_dir, "--episodes", 3, "--json", "--env"]
    result = json.loads(rlrun(*words, "CartPole-v0").stdout)
    assert result["max"] <= 200.0


def test_evaluate_uses_the_evaluation_env_of_the_spec(tmp_path: Path) -> None:
    world = "evaluation={every: 9, env: {id: CartPole-v1, max_episode_steps: 7}}"
    assert train(tmp_path, "--set", world, "--set", "stop.iteration=1").exit_code == 0
    result = rlrun("evaluate", "cartpole-ppo", "--runs-dir", tmp_path, "--episodes", 2, "--json")
    assert json.loads(result.stdout)["lengths"] == [7, 7]


def test_record_shows_the_same_episodes_as_evaluate_plays(runs_dir: Path, tmp_path: Path) -> None:
    video = tmp_path / "pole.gif"
    words = ["record", "cartpole-ppo", "--runs-dir", runs_dir, "--episodes", 2, "-o", video]
    done = rlrun(*words)
    assert (done.exit_code, done.stderr) == (0, "")
    evaluated = json.loads(rlrun("evaluate", "cartpole-ppo", "--runs-dir", runs_dir, "--episodes", 2, "--json").stdout)
    frames = sum(evaluated["lengths"]) + 2
    returns = ", ".join(f"{value:.1f}" for value in evaluated["returns"])
    assert done.stdout == f"{video}: {frames} frames, returns {returns}\n"
    assert imageio.get_reader(video).get_data(0).shape == (400, 600, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["pole.gif"]


def test_the_command_runs_lists_a_finished_run(runs_dir: Path) -> None:
    (run,) = json.loads(rlrun("runs", "--runs-dir", runs_dir, "--json").stdout)["runs"]
    assert run["name"] == "cartpole-ppo"
    assert run["trials"][0]["status"] == "TERMINATED"


def test_train_with_the_option_from_starts_with_the_weights_of_the_named_run(runs_dir: Path) -> None:
    result = train(runs_dir, "--from", "cartpole-ppo", "--name", "second", "--set", "stop.iteration=1", "--json")
    assert result.exit_code == 0, result.stderr
    (trial,) = json.loads(result.stdout)["trials"]
    assert trial["last_result"]["iteration"] == 1
    record = json.loads((Path(trial["directory"]) / "trial.json").read_text())
    assert "cartpole-ppo/000-seed=0/checkpoints/" in record["from_checkpoint"]


def test_resuming_a_finished_run_changes_nothing(runs_dir: Path) -> None:
    result = rlrun("resume", "cartpole-ppo", "--runs-dir", runs_dir, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == json.loads((runs_dir / "printed.json").read_text())


def test_training_on_an_env_that_raises_shows_the_traceback_and_exits_with_code_4(tmp_path: Path) -> None:
    (tmp_path / "crumbling.py").write_text(
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Crumbling(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        raise ValueError('the pole broke')\n"
    )
    spec = tmp_path / "crumbling.yaml"
    spec.write_text(
        "crumbling: {algorithm: ppo, env: {id: 'crumbling:Crumbling', max_episode_steps: 9}, stop: {iteration: 1}}\n"
    )
    result = rlrun("train", "-f", spec, "--runs-dir", tmp_path)
    assert result.exit_code == 4, result.stderr
    assert "ValueError: the pole broke" in result.stderr
    assert "bug in rlrun" not in result.stderr


def test_checkpoints_from_elsewhere_import_custom_code_only_with_trust(tmp_path: Path, wording) -> None:
    (tmp_path / "homemade.py").write_text(
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\nclass Homemade(CartPoleEnv): pass\n"
    )
    spec = tmp_path / "homemade.yaml"
    spec.write_text(
        "homemade: {algorithm: ppo, env: {id: 'homemade:Homemade', max_episode_steps: 9}, stop: {iteration: 1}}\n"
    )
    runs = tmp_path / "runs"
    assert rlrun("train", "-f", spec, "--runs-dir", runs).exit_code == 0
    (checkpoint,) = runs.glob("*/*/checkpoints/*")
    stranger = shutil.copytree(checkpoint, tmp_path / "downloaded")
    words = ["--runs-dir", runs, "--episodes", 1, "--json"]
    assert json.loads(rlrun("evaluate", "homemade", *words).stdout)["lengths"] == [9]
    refused = rlrun("evaluate", stranger, *words)
    assert refused.exit_code == 5
    assert "homemade:Homemade" in refused.stderr
    assert "--trust" in refused.stderr
    assert json.loads(rlrun("evaluate", stranger, *words, "--trust").stdout)["lengths"] == [9]
    received = shutil.copytree(runs / "homemade", tmp_path / "received")
    words = ["--runs-dir", runs, "--extend", "iteration=2"]
    refused = rlrun("resume", received, *words)
    assert refused.exit_code == 5
    assert refused.stderr == wording("homemade:Homemade")
    assert rlrun("resume", received, *words, "--trust").exit_code == 0
    assert rlrun("resume", "homemade", *words).exit_code == 0


def read_until(stream: Any, pattern: str, seconds: float) -> str:
    """Reads lines until one matches; returns what was read."""
    deadline, text = time.monotonic() + seconds, ""
    while not re.search(pattern, text):
        assert time.monotonic() < deadline, text
        ready, _, _ = select.select([stream], [], [], 0.2)
        if ready:
            read = os.read(stream.fileno() if not isinstance(stream, int) else stream, 4096).decode()
            assert read, text
            text += read
    return text


UNHURRIED = """
import time
from pathlib import Path

from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class Unhurried(CartPoleEnv):
    def step(self, action):
        if not Path(__file__).with_name("hurry").exists():
            time.sleep(0.003)
        return super().step(action)
"""


def test_ctrl_c_saves_the_run_and_prints_a_resume_command_that_works(tmp_path: Path) -> None:
    (tmp_path / "unhurried.py").write_text(UNHURRIED)  # the run must not end before the signal comes
    spec = tmp_path / "unhurried.yaml"
    spec.write_text(SPEC.read_text().replace(" CartPole-v1", " {id: 'unhurried:Unhurried', max_episode_steps: 500}"))
    words = ["train", "-f", spec, "--set", "stop.env_steps=6_000", "--runs-dir", tmp_path]
    process = subprocess.Popen([*COMMAND, *map(str, words)], stderr=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stderr is not None
    with process:
        read_until(process.stderr, r"env steps, return", seconds=600)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read().decode()
    assert process.returncode == 130, rest
    assert f"rlrun resume {tmp_path}/cartpole-ppo" in rest
    before = (tmp_path / "cartpole-ppo/000-seed=0/result.json").read_text().splitlines()
    (tmp_path / "hurry").touch()
    result = rlrun("resume", "cartpole-ppo", "--runs-dir", tmp_path, "--json")
    assert result.exit_code == 0, result.stderr
    after = (tmp_path / "cartpole-ppo/000-seed=0/result.json").read_text().splitlines()
    assert after[: len(before)] == before
    assert json.loads(result.stdout)["trials"][0]["last_result"]["env_steps"] >= 6_000


@pytest.mark.parametrize(
    "variables",
    [{}, *(pytest.param(each, marks=pytest.mark.regress) for each in ({"TERM": "dumb"}, {"NO_COLOR": "1"}))],
    ids=str,
)
def test_train_redraws_its_progress_on_a_terminal_and_leaves_only_the_results(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    words = ["train", "-f", SPEC, "--set", "stop.env_steps=1500", "--runs-dir", tmp_path]
    parent, child = pty.openpty()
    environment = ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "70", "LINES": "20"} | variables
    process = subprocess.Popen([*COMMAND, *map(str, words)], stdout=child, stderr=child, env=environment)
    os.close(child)
    text = read_until(parent, r"rlrun evaluate .*\r\n", seconds=600)
    assert process.wait(600) == 0
    os.close(parent)
    drawn, table = text.split("trial       status", 1)
    assert "return" in drawn
    assert "terminated" in table
    assert ("\x1b[2K" in drawn) == (variables.get("TERM") != "dumb")  # lines are redrawn in place
    colors = re.findall(r"\x1b\[[0-9;]*m", drawn)
    assert bool([color for color in colors if re.search(r"\b[39]\d", color)]) == (variables == {})


def test_a_command_ends_quietly_if_the_reader_of_its_output_closes_the_pipe() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "config", "ppo"], stdout=write, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_doctor_finds_nothing_missing_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Running the compiler takes ten seconds, and the learner's own tests cover it.
    monkeypatch.setattr(
        "rlrun.cli.machine.TRY_COMPILATION", "from rlrun.engine.learner.executors.compilation import loaded, traced"
    )
    result = rlrun("doctor", "--compile", "--json", "--runs-dir", tmp_path / "not/there/yet")
    assert result.exit_code == 0, result.stderr
    verdicts = {finding["subject"]: finding["verdict"] for finding in json.loads(result.stdout)["findings"]}
    assert "missing" not in verdicts.values()
    assert verdicts["torch"] == verdicts["extra mujoco"] == verdicts["disk"] == "ok"


def test_doctor_tune_times_settings_for_a_spec_and_prints_the_best_as_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlrun.experiments.launch.timings.BUDGET_S", 0.0)
    monkeypatch.setattr("rlrun.experiments.launch.timings.WINDOW_S", 0.0)
    result = rlrun("doctor", "--tune", SPEC)
    assert result.exit_code == 0, result.stderr
    assert "num_workers 0, num_envs_per_worker 8: " in result.stderr
    assert result.stdout.splitlines()[1:] == ["config:", "  num_workers: 0", "  num_envs_per_worker: 8"]
