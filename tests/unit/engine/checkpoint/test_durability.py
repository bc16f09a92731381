"""Files are synced before they get their names, and the names are synced afterwards, as system calls show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.engine.checkpoint.durable import append_line, commit_directory, write_file
from rlrun.engine.checkpoint.format import Content, write_checkpoint
from rlrun.experiments.cluster.driver_files import DriverFiles, Operation
from rlrun.experiments.search.searchers.dimension import dimensions_of
from rlrun.experiments.search.searchers.journal import JournaledSearcher
from rlrun.experiments.search.suggestions import SEARCHERS
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.search_space import find_spaces
from rlrun.experiments.trial.trial_loop import TrialLoop

Journal = list[tuple[str, Path]]


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Syncs and renames, in order; the recorded calls still do their work."""
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


def recorded_removal(journal: Journal) -> Callable[..., None]:
    """Returns a function that removes a directory and records it in the journal."""
    remove = shutil.rmtree

    def removed(path: Path, *, ignore_errors: bool = False) -> None:
        remove(path, ignore_errors=ignore_errors)
        journal.append(("remove", path))

    return removed


def test_a_file_is_synced_before_its_rename_and_its_folder_afterwards(tmp_path: Path, journal: Journal) -> None:
    write_file(tmp_path / "a.json", b"{}")
    (synced, partial), named, folder = journal
    assert (synced, partial.parent, partial.name[:8]) == ("sync", tmp_path, ".a.json.")
    assert [named, folder] == [("name", tmp_path / "a.json"), ("sync", tmp_path)]


def test_an_appended_line_is_synced(tmp_path: Path, journal: Journal) -> None:
    append_line(tmp_path / "rows", b"one")
    assert journal == [("sync", tmp_path / "rows")]


def test_all_subfolders_of_a_directory_are_synced_before_its_rename(tmp_path: Path, journal: Journal) -> None:
    partial = tmp_path / "partial"
    (partial / "inner").mkdir(parents=True)
    commit_directory(partial, tmp_path / "whole")
    assert journal == [
        ("sync", partial / "inner"),
        ("sync", partial),
        ("name", tmp_path / "whole"),
        ("sync", tmp_path),
    ]


def test_a_replacement_directory_is_renamed_and_synced_before_the_old_one_is_removed(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("partial", "whole"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    monkeypatch.setattr(shutil, "rmtree", recorded_removal(journal))
    commit_directory(tmp_path / "partial", tmp_path / "whole")
    (_, old), *others = journal[2:]
    assert journal[:2] == [("sync", tmp_path / "partial" / "file"), ("sync", tmp_path / "partial")]
    assert others == [("name", tmp_path / "whole"), ("sync", tmp_path), ("remove", old)]
    assert (tmp_path / "whole" / "file").read_text() == "partial"


def test_suggestions_and_results_of_a_search_are_synced_line_by_line(tmp_path: Path, journal: Journal) -> None:
    spaces = {"lr": {"loguniform": [1e-5, 1e-1]}}
    head = {"searcher": "any", "metric": "r", "mode": "max", "seed": 4, "startup_trials": 3, "spaces": spaces}
    file = tmp_path / "search.jsonl"
    dimensions = dimensions_of(find_spaces(spaces)[0])
    searcher = JournaledSearcher(SEARCHERS["bohb"](), file, head, dimensions, lambda values: None)
    searcher.suggest(0)
    searcher.observe(0, 10, 1.5)
    searcher.complete(0, 2.5)
    assert len(file.read_text().splitlines()) == 4
    assert journal == [("sync", file)] * 4


def test_files_sent_by_a_remote_trial_are_synced_like_local_ones(tmp_path: Path, journal: Journal) -> None:
    trial = tmp_path / "trial"
    files = DriverFiles(str(tmp_path))
    claim = files.claim("trial", by_force=False)
    assert claim is not None

    def done(*operations: Operation) -> Journal:
        journal.clear()
        files.apply("trial", claim, operations)
        return list(journal)

    try:
        assert done(Operation("append", "result.json", b"{}\n"), Operation("sync", "result.json")) == [
            ("sync", trial / "result.json")
        ]
        large = done(
            Operation("part", ".large.partial", b"data"), Operation("commit", "large", source=".large.partial")
        )
        assert large == [("sync", trial / ".large.partial"), ("name", trial / "large"), ("sync", trial)]
        point = done(
            Operation("part", "checkpoints/.new/file", b"data"),
            Operation("commit", "checkpoints/new", source="checkpoints/.new"),
        )
        folder = trial / "checkpoints"
        assert point == [
            ("sync", folder / ".new" / "file"),
            ("sync", folder / ".new"),
            ("name", folder / "new"),
            ("sync", folder),
        ]
    finally:
        files.release("trial")


def test_every_file_and_folder_of_a_checkpoint_is_synced_before_its_rename(tmp_path: Path, journal: Journal) -> None:
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
