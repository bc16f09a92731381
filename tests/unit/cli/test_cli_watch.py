"""The view of a run on stderr."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlrun.cli.watch import RunWatcher
from rlrun.tune.events import RunFinished, RunStarted


def test_a_log_that_nobody_reads_any_more_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with open(write, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        with RunWatcher() as watcher:
            os.close(read)
            watcher(RunStarted("tiny", Path("runs/tiny"), "local", False, (), False, stderr))
            watcher(RunFinished(Path("runs/tiny"), (), 1.0))
