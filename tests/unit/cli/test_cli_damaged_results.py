"""Results that were altered or are gone: every command that reads them says so, in the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.runs.run_directory import RunDirectory
from rlrun.spec.load import parse_experiments
from rlrun.trial.results import ResultWriter

SPEC = {"algorithm": "ppo", "env": "CartPole-v1", "seeds": 3, "stop": {"iteration": 5}}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Returns a complete run of three trials with five rows each, as trial.json knows."""
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
            ":3: episode_return_mean 9999 is above 5, which trial.json knows as the best: it does not count",
        ),
        (remove_a_row, ": the rows of iterations 3 are gone, and no checkpoint knows them"),
        (remove_the_last_row, ": the rows of iterations 5 are gone, and no checkpoint knows them"),
        (put_garbage, ": the rows of iterations 5 are gone, and no checkpoint knows them"),
        (list.clear, ": the rows of iterations 1 to 5 are gone, and no checkpoint knows them"),
    ],
)
def test_every_command_that_reads_results_names_what_is_wrong_with_them(
    run: RunDirectory, tmp_path: Path, damage: Callable[[list[str]], None], told: str
) -> None:
    file = run.path / run.table.trials[0] / "result.json"
    lines = file.read_text().splitlines()
    damage(lines)
    file.write_text("".join(f"{line}\n" for line in lines))
    for command in ("status", "show", "resume"):
        done = rlrun(run, command)
        assert done.exit_code == 5, done.output
        assert f"{file}{told}" in done.output
        assert done.stderr.splitlines()[-1] == f"Error: {run.path}: 1 file cannot be relied on"
        assert "9,999" not in done.output
    others = [f"pole/{name}" for name in run.table.trials[1:]]
    for command, words in (("compare", others), ("report", ["pole", "-o", str(tmp_path / "page.html")])):
        done = rlrun(run, command, *words)
        assert done.exit_code == 0, done.output
        assert f"{file}{told}" in done.output
    trials = json.loads(rlrun(run, "status", "pole", "--json").stdout)["trials"]
    assert [trial["problems"] for trial in trials] == [[f"{file}{told}"], [], []]


def test_a_run_with_all_of_its_rows_is_told_to_be_whole(run: RunDirectory) -> None:
    for command in ("status", "show", "resume"):
        done = rlrun(run, command)
        assert (done.exit_code, done.stderr) == (0, ""), done.output


def test_many_trials_with_damaged_results_are_counted(tmp_path: Path) -> None:
    (experiment,) = parse_experiments({"pole": {**SPEC, "seeds": 5}})
    run = RunDirectory.create(tmp_path, "pole", experiment, experiment.trials(), "local")
    for name in run.table.trials:
        run.trial_directory(name).write_record(replace(run.record(name), status="TERMINATED", iteration=1))
    done = rlrun(run, "status")
    assert done.stdout.count("the rows of iterations 1 are gone") == 3
    assert "and 2 more; `rlrun show` names each" in done.stdout
    assert done.stderr == f"Error: {run.path}: 5 files cannot be relied on\n"
