"""A logger that collects the results of all trials in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from rlrun.plugin import TrialLogger


class JsonLines(TrialLogger):
    """Appends a line of JSON for each result, and one for the end of a trial.

    Args:
        path: The file; results of several trials and runs may share it.
        metrics: Names of the numbers to keep.
    """

    def __init__(self, path: str, metrics: list[str]) -> None:
        self.path = Path(path)
        self.metrics = metrics
        self.trial = ""

    @override
    def start(
        self, trial: Mapping[str, Any], directory: Path, known_as: str | None
    ) -> str:
        """Keeps the id of a resumed trial; a new id consists of run and trial name."""
        self.trial = known_as or f"{directory.resolve().parent.name}/{trial['name']}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.trial

    @override
    def log(self, row: Mapping[str, Any]) -> None:
        self._append({name: row[name] for name in self.metrics})

    @override
    def finish(self, status: str) -> None:
        self._append({"status": status})

    def _append(self, content: Mapping[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"trial": self.trial, **content}) + "\n")
