"""What is written is synced before it gets its name, and the name is synced after: seen by the calls to the system."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.checkpoint.durable import append_line, put_directory, write_file
from rlrun.checkpoint.format import Content, write_checkpoint
from rlrun.spec.load import parse_experiments
from rlrun.trial.trial_loop import TrialLoop

Journal = list[tuple[str, Path]]


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    """What is synced, and what gets a name, in their order; the calls do what they always do."""
    found: Journal = []

    def recording(name: str, call: Callable[..., Any], place: Callable[..., Path]) -> Callable[..., Any]:
        def recorded(*arguments: Any, **keywords: Any) -> Any:
            where = place(*arguments)
            result = call(*arguments, **keywords)
            found.append((name, where))
            return result

        return recorded

    monkeypatch.setattr(
        os, "fsync", recording("sync", os.fsync, lambda descriptor: Path(os.readlink(f"/proc/self/fd/{descriptor}")))
    )
    for call in ("rename", "replace"):
        monkeypatch.setattr(os, call, recording("name", getattr(os, call), lambda _, new: Path(new)))
    return found


def test_a_file_is_synced_before_it_gets_its_name_and_the_folder_after(tmp_path: Path, journal: Journal) -> None:
    write_file(tmp_path / "a.json", b"{}")
    (synced, partial), named, folder = journal
    assert (synced, partial.parent, partial.name[:8]) == ("sync", tmp_path, ".a.json.")
    assert [named, folder] == [("name", tmp_path / "a.json"), ("sync", tmp_path)]


def test_an_appended_line_is_synced(tmp_path: Path, journal: Journal) -> None:
    append_line(tmp_path / "rows", b"one")
    assert journal == [("sync", tmp_path / "rows")]


def test_all_folders_of_a_directory_are_synced_before_it_gets_its_name(tmp_path: Path, journal: Journal) -> None:
    partial = tmp_path / "partial"
    (partial / "inner").mkdir(parents=True)
    put_directory(partial, tmp_path / "whole")
    assert journal == [
        ("sync", partial / "inner"),
        ("sync", partial),
        ("name", tmp_path / "whole"),
        ("sync", tmp_path),
    ]


def test_every_file_and_folder_of_a_checkpoint_is_synced_before_it_gets_its_name(
    tmp_path: Path, journal: Journal
) -> None:
    zeros = np.zeros(3, np.float32)
    content = Content({"algorithm": "none"}, {}, {"policies/default": {"a": zeros}}, {"kept": zeros})
    directory = write_checkpoint(tmp_path / "checkpoint", content)
    names = [place for kind, place in journal if kind == "name"]
    assert names == [directory]
    before = [place for _, place in journal[: journal.index(("name", directory))]]
    (partial,) = {place for place in before if place.parent == tmp_path}
    written = {path.relative_to(directory) for path in directory.rglob("*")} | {Path()}
    assert {place.relative_to(partial) for place in before} == written
    assert journal[-1] == ("sync", tmp_path)


def test_the_rows_of_a_trial_are_synced_before_the_checkpoint_that_follows_them(
    tmp_path: Path, journal: Journal
) -> None:
    entry = {
        "algorithm": "pg",
        "env": "CartPole-v1",
        "stop": {"iteration": 3},
        "config": {"train_batch_size": 32, "min_env_steps_per_iteration": 0, "model": {"hiddens": [4]}},
        "checkpoint": {"every": 1, "keep": 5},
    }
    (experiment,) = parse_experiments({"a": entry})
    (trial,) = experiment.trials()
    with TrialLoop(trial, tmp_path / "trial") as loop:
        while not loop.done:
            loop.step()
    checkpoints = [place for kind, place in journal if kind == "name" and place.parent.name == "checkpoints"]
    assert [place.name for place in checkpoints] == [f"iteration_{number:06}" for number in (1, 2, 3)]
    since = 0
    for place in checkpoints:
        named = journal.index(("name", place))
        assert ("sync", tmp_path / "trial" / "result.json") in journal[since:named]
        since = named
