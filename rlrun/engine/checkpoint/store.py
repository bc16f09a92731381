"""Store of one trial's checkpoints: their names, the newest valid and the best one, and which ones are kept."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rlrun.engine.checkpoint.durable import remove_directory, remove_leftovers
from rlrun.engine.checkpoint.format import (
    Content,
    StagedCheckpoint,
    read_checkpoint,
    stage_checkpoint,
    verify_checkpoint,
)
from rlrun.engine.checkpoint.manifest import read_manifest
from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml
from rlrun.engine.messages.errors import CheckpointError

T = TypeVar("T")

RESULT_KEY = "result"
"""Manifest key of the result of the checkpoint's iteration, which selects the best checkpoint."""

_NAME = re.compile(r"iteration_(\d{6,})")


@dataclass(frozen=True)
class SkippedCheckpoint:
    """Checkpoint that cannot be used, with the reason.

    Attributes:
        path: Directory of the checkpoint.
        reason: Error message, which names the damaged file.
    """

    path: Path
    reason: str


@dataclass(frozen=True)
class Scan:
    """Result of a search for the newest valid checkpoint.

    Attributes:
        newest: Newest valid checkpoint, or None.
        skipped: Newer checkpoints that are not usable, newest first.
    """

    newest: Path | None
    skipped: tuple[SkippedCheckpoint, ...]


class CheckpointStore:
    """Directory of one trial's checkpoints, ``iteration_000010`` and so on.

    Any process may read the directory at any time; only the trial's process may write to it. The directory is created
    by the first `stage`.
    """

    def __init__(self, directory: Path, keep: int = 3, best: str | None = None) -> None:
        """Initializes a store for a directory, which need not exist yet.

        Args:
            directory: Directory of the checkpoints.
            keep: Number of newest checkpoints to keep, at least 1.
            best: Metric; the checkpoint with its highest value is kept as well.
        """
        if keep < 1:
            raise ValueError(f"keep must be at least 1, not {keep}")
        self.directory = Path(directory)
        self.keep = keep
        self.best_metric = best
        self._corrupt: set[Path] = set()
        self._spec: tuple[dict[str, Any], str] | None = None

    def stage(self, iteration: int, content: Content, result: Mapping[str, Any]) -> StagedCheckpoint:
        """Writes a new checkpoint under a temporary name, after removing leftovers of interrupted writes.

        Args:
            iteration: Number of the last completed iteration.
            content: Content of the checkpoint; `result` is added to its manifest.
            result: Result row (metrics) of that iteration.

        Returns:
            The checkpoint, to be passed to `commit` before the next `stage`.

        Raises:
            OutOfResources: The disk is full; other checkpoints are unchanged.
        """
        remove_leftovers(self.directory)
        if self._spec is None or self._spec[0] != content.spec:  # cached, since dumping YAML takes longer than the rest
            self._spec = (copy.deepcopy(content.spec), dump_plain_yaml(content.spec))
        content = replace(content, manifest={**content.manifest, RESULT_KEY: dict(result)})
        return stage_checkpoint(self._place_of(iteration), content, self._spec[1])

    def commit(self, staged: StagedCheckpoint) -> Path:
        """Renames a staged checkpoint to its final path, and removes older checkpoints that need not be kept.

        Checkpoints of later iterations, which are left over when a run resumes from an earlier checkpoint, are removed
        too. This may run in another thread, as long as nothing else uses the store at the same time.

        Returns:
            The checkpoint's directory.

        Raises:
            OutOfResources: The disk is full; other checkpoints are unchanged.
        """
        path = staged.commit()
        self._corrupt.discard(path)
        self._prune(path)
        return path

    def paths(self) -> list[Path]:
        """Returns the paths of all checkpoints, valid or not, oldest first."""
        return [path for _, path in self._numbered()]

    def newest_valid(self) -> Path | None:
        """Returns the path of the newest valid checkpoint; None if there is none."""
        return self.scan().newest

    def scan(self) -> Scan:
        """Searches for the newest valid checkpoint; also returns newer unusable checkpoints, with the reasons."""
        found, skipped = self._newest(verify_checkpoint)
        return Scan(found[0] if found else None, skipped)

    def read_newest(self) -> tuple[Path, Content, tuple[SkippedCheckpoint, ...]] | None:
        """Loads the newest valid checkpoint.

        Returns:
            Directory and content of the checkpoint, and the newer checkpoints skipped as unusable; None if there are
            no checkpoints.

        Raises:
            CheckpointError: There are checkpoints, but none is usable; the message has the reason for each.
        """
        found, skipped = self._newest(read_checkpoint)
        if found is not None:
            return *found, skipped
        if skipped:
            reasons = "\n".join(f"  {checkpoint.reason}" for checkpoint in skipped)
            raise CheckpointError(f"{self.directory}: no usable checkpoint:\n{reasons}")
        return None

    def best(self, metric: str | None = None) -> Path | None:
        """Returns the path of the checkpoint with the highest value of a metric (in a tie, the newest).

        The result is None if no checkpoint has a value of the metric.

        Args:
            metric: Name of the metric; None for the metric that determines which checkpoint the store keeps as the
                best.
        """
        metric = self.best_metric if metric is None else metric
        scored = [(score, path) for path in self.paths() if (score := self._score(path, metric)) is not None]
        best = max((score for score, _ in scored), default=None)
        return next((path for score, path in reversed(scored) if score == best), None)

    def best_score(self) -> float | None:
        """Returns the best checkpoint's value of the metric that ranks checkpoints; None if there is no best one."""
        best = self.best()
        return None if best is None else self._score(best, self.best_metric)

    def results(self) -> dict[int, dict[str, Any]]:
        """Returns the result rows (metrics) stored in the checkpoints, by iteration.

        Damaged checkpoints are skipped.
        """
        found: dict[int, dict[str, Any]] = {}
        for iteration, path in self._numbered():
            with suppress(CheckpointError):
                result = read_manifest(path).about.get(RESULT_KEY)
                if not isinstance(result, dict) or any(isinstance(value, dict | list) for value in result.values()):
                    continue
                if result.get("iteration") == iteration:
                    found[iteration] = result
        return found

    def _place_of(self, iteration: int) -> Path:
        return self.directory / f"iteration_{iteration:06d}"

    def _prune(self, newest: Path) -> None:
        paths = self.paths()
        given_up = [path for path in paths if _iteration(path) > _iteration(newest)]
        current = paths[: len(paths) - len(given_up)]
        whole = [path for path in current if path not in self._corrupt]
        kept = {*whole[-self.keep :], self.best()}
        for path in (*given_up, *(path for path in current if path not in kept)):
            with suppress(FileNotFoundError):  # another process has removed it
                remove_directory(path)

    def _numbered(self) -> list[tuple[int, Path]]:
        if not self.directory.is_dir():
            return []
        matches = ((_NAME.fullmatch(path.name), path) for path in self.directory.iterdir())
        return sorted((int(match[1]), path) for match, path in matches if match)

    def _newest(
        self, open_checkpoint: Callable[[Path], T]
    ) -> tuple[tuple[Path, T] | None, tuple[SkippedCheckpoint, ...]]:
        skipped: list[SkippedCheckpoint] = []
        for path in reversed(self.paths()):
            try:
                return (path, open_checkpoint(path)), tuple(skipped)
            except CheckpointError as error:
                self._corrupt.add(path)
                skipped.append(SkippedCheckpoint(path, str(error)))
        return None, tuple(skipped)

    def _score(self, path: Path, metric: str | None) -> float | None:
        if metric is None or path in self._corrupt:
            return None
        try:
            result = read_manifest(path).about.get(RESULT_KEY)
        except CheckpointError:
            return None
        value = result.get(metric) if isinstance(result, dict) else None
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _iteration(path: Path) -> int:
    return int(path.name.rpartition("_")[2])
