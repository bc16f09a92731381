"""Altered or missing results: every command that reads them reports this, with the same message."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.experiments.runs import run_state
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.results import ResultWriter

SPEC = {"algorithm": "ppo", "env": "CartPole-v1", "seeds": 3, "stop": {"iteration": 5}}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Returns a complete run of three trials with five rows each, as recorded in trial.json."""
    (experiment,) = parse_experiments({"pole": SPEC})
    run = RunDirectory.create(tmp_path, "pole", experiment, experiment.trials(), "local")
    for name in run.table.trials:
        writer = ResultWriter(run.path / name)
        for number in range(1, 6):
            writer.write({"iteration": number, "env_steps": 100 * number, "episode_return_mean": float(number)})
        writer.close()
        record = replace(run.record(name), status="TERMINATED", iteration=5, env_steps=500, best_return=5.0)
        run.trial_directory(name).write_record(record)
    return run


def set_a_return(lines: list[str]) -> None:
    lines[2] = lines[2].replace("3.0}", "9999.0}")


def remove_a_row(lines: list[str]) -> None:
    del lines[2]


def remove_the_last_row(lines: list[str]) -> None:
    del lines[-1]


def put_garbage(lines: list[str]) -> None:
    lines[-1] = "garbage"


def rlrun(run: RunDirectory, command: str, *words: str) -> Result:
    return CliRunner().invoke(cli, [command, *(words or ["pole"]), "--runs-dir", str(run.path.parent)])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            set_a_return,
            ":3: ignoring episode_return_mean 9999, which exceeds 5, the best value in trial.json",
        ),
        (remove_a_row, ": the row of iteration 3 is missing and not in any checkpoint"),
        (remove_the_last_row, ": the row of iteration 5 is missing and not in any checkpoint"),
        (put_garbage, ": the row of iteration 5 is missing and not in any checkpoint"),
        (list.clear, ": the rows of iterations 1 to 5 are missing and not in any checkpoint"),
    ],
)
def test_every_command_that_reads_results_reports_damage_to_them(
    run: RunDirectory, tmp_path: Path, damage: Callable[[list[str]], None], told: str, wording
) -> None:
    file = run.path / run.table.trials[0] / "result.json"
    lines = file.read_text().splitlines()
    damage(lines)
    file.write_text("".join(f"{line}\n" for line in lines))
    for command in ("show", "resume"):
        done = rlrun(run, command)
        assert done.exit_code == 5, done.output
        assert f"{file}{told}" in done.output
        assert done.stderr.splitlines()[-1] == wording(run.path)
        assert "9,999" not in done.output
    others = [f"pole/{name}" for name in run.table.trials[1:]]
    for command, words in (("compare", others), ("report", ["pole", "-o", str(tmp_path / "page.html")])):
        done = rlrun(run, command, *words)
        assert done.exit_code == 0, done.output
        assert f"{file}{told}" in done.output


@pytest.mark.parametrize(
    ("damage", "ends"), [(remove_the_last_row, "ends with iteration 4"), (list.clear, "has no rows")]
)
def test_the_status_command_reports_a_missing_last_row(
    run: RunDirectory, damage: Callable[[list[str]], None], ends: str, wording
) -> None:
    file = run.path / run.table.trials[0] / "result.json"
    lines = file.read_text().splitlines()
    damage(lines)
    file.write_text("".join(f"{line}\n" for line in lines))
    told = f"{file}: {ends}, but trial.json has iteration 5"
    done = rlrun(run, "status")
    assert (done.exit_code, done.stderr) == (5, wording(run.path))
    assert told in done.stdout
    trials = json.loads(rlrun(run, "status", "pole", "--json").stdout)["trials"]
    assert [trial["problems"] for trial in trials] == [[told], [], []]


@pytest.mark.parametrize("name", ["run.json", "spec.yaml", "000-seed=0/trial.json"])
def test_every_command_names_the_altered_file_of_a_run(run: RunDirectory, name: str) -> None:
    file = run.path / name
    file.write_text(file.read_text().replace("iteration", "iterations").replace("python", "pythons"))
    for command in ("status", "show", "resume"):
        done = rlrun(run, command)
        assert done.exit_code == 5, done.output
        assert f"{file}: cannot parse: it was altered" in done.output


@pytest.mark.parametrize("name", ["run.json", "spec.yaml", "000-seed=0/trial.json"])
def test_a_directory_in_place_of_a_run_file_is_reported_as_damage(run: RunDirectory, name: str) -> None:
    (run.path / name).unlink()
    (run.path / name).mkdir()
    for command in ("status", "show", "resume"):
        done = rlrun(run, command)
        assert done.exit_code == 5, done.output
        assert f"{run.path / name}: cannot parse: it is a directory" in done.output


def test_a_run_without_run_json_is_reported_as_damaged_rather_than_unknown(run: RunDirectory, wording) -> None:
    (run.path / "run.json").unlink()
    for command in ("status", "show", "resume"):
        done = rlrun(run, command)
        assert done.exit_code == 5, done.output
        assert wording("run.json") in done.output.splitlines()


def test_commands_report_no_damage_for_an_intact_run(run: RunDirectory) -> None:
    for command in ("status", "show"):
        done = rlrun(run, command)
        assert (done.exit_code, done.stderr) == (0, ""), done.output
    done = rlrun(run, "resume")
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith(f"{run.path} ")
    assert "--extend" in done.stderr


def test_trials_with_damaged_results_are_counted_if_there_are_many(tmp_path: Path, wording) -> None:
    (experiment,) = parse_experiments({"pole": {**SPEC, "seeds": 5}})
    run = RunDirectory.create(tmp_path, "pole", experiment, experiment.trials(), "local")
    for name in run.table.trials:
        run.trial_directory(name).write_record(replace(run.record(name), status="TERMINATED", iteration=1))
    done = rlrun(run, "status")
    assert done.stdout.count("has no rows, but trial.json has iteration 1") == 3
    assert wording("rlrun show") in done.stdout.splitlines()
    assert done.stderr == wording(run.path)


@pytest.mark.parametrize(("sort", "read"), [("age", ["new"]), ("name", ["new"]), ("best", ["new", "old"])])
def test_with_a_limit_the_runs_command_reads_only_the_runs_it_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sort: str, read: list[str]
) -> None:
    (experiment,) = parse_experiments({"pole": SPEC})
    for name in ("old", "new"):
        RunDirectory.create(tmp_path, name, experiment, [], "local")
    os.utime(tmp_path / "old/run.json", (1, 1))
    names: list[str] = []
    read_run_state = run_state.read_run_state
    monkeypatch.setattr(run_state, "read_run_state", lambda path: names.append(path.name) or read_run_state(path))
    done = CliRunner().invoke(cli, ["runs", "--limit", "1", "--sort", sort, "--runs-dir", str(tmp_path)])
    assert (done.exit_code, names) == (0, read), done.output
    assert "new" in done.stdout
