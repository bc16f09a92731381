"""Tags and notes of runs: added, changed, listed and missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlrun
from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.load import parse_experiments
from tests.command import rlrun as command

SPEC = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1000}}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("pole", "other"):
        (experiment,) = parse_experiments({name: SPEC})
        RunDirectory.create(tmp_path, name, experiment, experiment.trials(), "local")
    return tmp_path


def test_without_labels_the_table_of_runs_has_no_tags_column(runs: Path) -> None:
    assert command("label", "pole", "--runs-dir", runs).stdout == "no labels\n"
    assert "tags" not in command("runs", "--runs-dir", runs).stdout.splitlines()[0]
    (first, second) = json.loads(command("runs", "--runs-dir", runs, "--json").stdout)["runs"]
    assert (first["tags"], first["note"], second["tags"]) == ([], "", [])


def test_labels_can_be_changed_and_are_shown_by_the_commands_runs_status_and_show(runs: Path) -> None:
    assert command("label", "pole", "--tag", "good", "--tag", "old", "--runs-dir", runs).exit_code == 0
    changed = command("label", "pole", "--untag", "old", "--tag", "lr", "--note", "wider", "--runs-dir", runs, "--json")
    document = json.loads(changed.stdout)
    assert (document["name"], document["tags"], document["note"]) == ("pole", ["good", "lr"], "wider")
    (heading, *rows) = command("runs", "--runs-dir", runs).stdout.splitlines()
    assert heading.split()[-2:] == ["tags", "note"]
    assert any(row.startswith("pole ") and row.split()[-3:] == ["good,", "lr", "wider"] for row in rows)
    assert command("status", "pole", "--runs-dir", runs).stdout.splitlines()[1:3] == ["tags: good, lr", "note: wider"]
    assert json.loads(command("status", "pole", "--runs-dir", runs, "--json").stdout)["tags"] == ["good", "lr"]
    shown = command("show", "pole", "--runs-dir", runs).stdout.splitlines()
    assert shown[1:3] == ["  tags        good, lr", "  note        wider"]
    assert command("label", "pole", "--note", "", "--runs-dir", runs).stdout == "tags: good, lr\n"


def test_runs_that_have_all_the_given_tags_are_listed(runs: Path, wording) -> None:
    command("label", "pole", "--tag", "good", "--tag", "lr", "--runs-dir", runs)
    command("label", "other", "--tag", "good", "--runs-dir", runs)

    def chosen(*tags: str) -> set[str]:
        words = [word for tag in tags for word in ("--tag", tag)]
        document = json.loads(command("runs", *words, "--runs-dir", runs, "--json").stdout)
        return {run["name"] for run in document["runs"]}

    assert (chosen("good"), chosen("good", "lr"), chosen("bad")) == ({"pole", "other"}, {"pole"}, set())
    assert command("runs", "--tag", "bad", "--runs-dir", runs).stdout == wording(runs)


def test_an_attempt_to_remove_an_unknown_tag_suggests_the_closest_one(runs: Path, wording) -> None:
    assert "it has no tags" in command("label", "pole", "--untag", "good", "--runs-dir", runs).stderr
    command("label", "pole", "--tag", "good", "--runs-dir", runs)
    wrong = command("label", "pole", "--untag", "god", "--runs-dir", runs)
    assert (wrong.exit_code, wrong.stderr) == (2, wording("god", "good"))


def test_an_invalid_tag_is_refused_before_anything_runs(tmp_path: Path, wording) -> None:
    with wording.raised(UsageError, "40"):
        rlrun.run({"pole": SPEC}, runs_dir=tmp_path / "runs", tags=["two words"])
    assert not (tmp_path / "runs").exists()


def test_damaged_labels_are_reported_and_the_run_is_still_shown(runs: Path, wording) -> None:
    (runs / "pole/labels.json").write_text('{"tags": 1}')
    told = command("status", "pole", "--runs-dir", runs)
    assert told.exit_code == 5
    assert wording("labels.json") in told.stdout.splitlines()
    assert command("show", "pole", "--runs-dir", runs).exit_code == 5
    assert "pole" in command("runs", "--runs-dir", runs).stdout
