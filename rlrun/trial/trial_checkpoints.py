"""Checkpointing of a running trial: when a checkpoint is due, and how it is written in the background.

The files are written under a temporary name before the trial continues. A thread then flushes them to the disk, renames
them and removes older checkpoints, while the next iteration runs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from rlrun.checkpoint.format import Content
from rlrun.checkpoint.store import CheckpointStore
from rlrun.spec.experiment import CheckpointConfig
from rlrun.trial.exploit import GENERATION
from rlrun.trial.results import Row
from rlrun.trial.trial_evaluation import EVALUATION


class TrialCheckpoints:
    """Writes the checkpoints of a trial, one at a time and at most one for each iteration.

    Attributes:
        store: The checkpoints; not to be used between `begin` and `wait`.
        newest: The newest finished checkpoint, None before the first.
    """

    def __init__(self, directory: Path, config: CheckpointConfig) -> None:
        """Opens the checkpoints of a trial, whose directory need not exist yet.

        Args:
            directory: Directory of the trial's checkpoints.
            config: When checkpoints are written, and which are kept.
        """
        self.store = CheckpointStore(directory, config.keep, config.best)
        self.newest: Path | None = None
        self._config = config
        self._iteration = -1
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._being_saved: Future[Path] | None = None

    def note(self, path: Path, iteration: int) -> None:
        """Sets the checkpoint that the trial was resumed from, and its iteration."""
        self.newest, self._iteration = path, iteration

    def begin(
        self,
        iteration: int,
        content: Callable[[], Content],
        generation: int,
        result: Row,
        *,
        before: Callable[[], None],
        after: Callable[[], None],
    ) -> None:
        """Begins to write a checkpoint after waiting for the one before, unless the iteration has one already.

        Args:
            iteration: The last iteration done.
            content: Returns the content, which may change once this method returns.
            generation: The last generation of its population that the trial has carried out.
            result: The result of the iteration.
            before: Called by the thread before it renames the checkpoint.
            after: Called by the thread after that.

        Raises:
            OutOfResources: The disk is full, for this checkpoint or the one before it.
        """
        self.wait()
        if self._iteration == iteration:
            return
        made = content()
        made = replace(made, manifest={**made.manifest, GENERATION: generation})
        staged = self.store.stage(iteration, made, result)

        def commit() -> Path:
            before()
            path = self.store.commit(staged)
            after()
            return path

        self._iteration = iteration
        self._being_saved = self._thread.submit(commit)

    def wait(self) -> None:
        """Waits until the last checkpoint is finished.

        Raises:
            OutOfResources: The disk is full. It is raised once, and the iteration has no checkpoint.
        """
        self.settle()
        being_saved, self._being_saved = self._being_saved, None
        if being_saved is not None:
            if being_saved.exception() is not None:
                self._iteration = -1
            self.newest = being_saved.result()

    def settle(self) -> None:
        """Waits until nothing is being written; errors are raised by the next `wait`."""
        if self._being_saved is not None:
            futures.wait([self._being_saved])

    def close(self) -> None:
        """Waits until nothing is being written, and ends the thread."""
        self._thread.shutdown()

    def is_due(self, row: Row, *, is_last: bool) -> bool:
        """Whether a checkpoint is to be written after an iteration.

        Args:
            row: The result of the iteration.
            is_last: Whether it is the trial's last.
        """
        config = self._config
        if is_last and config.at_end:
            return True
        if config.every is not None and row["iteration"] % config.every == 0:
            return True
        # An evaluation is of the weights of its iteration, so a checkpoint with the best one is written at once.
        score = row.get(config.best) if config.best and config.best.startswith(EVALUATION) else None
        if score is None:
            return False
        self.settle()
        best = self.store.best_score()
        return best is None or score > best
