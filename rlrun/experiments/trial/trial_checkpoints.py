"""Asynchronous checkpointing of a running trial: schedule of checkpoints and a background writer.

The files are written under a temporary name before the trial continues. A background thread then flushes them to disk,
renames them and removes older checkpoints, while the next iteration runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.experiments.spec.experiment import CheckpointConfig
from rlrun.experiments.trial.exploit import GENERATION
from rlrun.experiments.trial.results import Row
from rlrun.experiments.trial.trial_evaluation import EVALUATION


class TrialCheckpoints:
    """Asynchronous writer of a trial's checkpoints: one at a time, and at most one per iteration.

    Attributes:
        store: The checkpoint store, which must not be used between `begin` and `wait`.
        newest: The newest complete checkpoint; None before the first.
        blocked_s: Total seconds for which checkpoints have blocked the trial so far, in `begin` and `wait`.
    """

    def __init__(self, directory: Path, config: CheckpointConfig) -> None:
        """Opens the checkpoint store of a trial; its directory need not exist yet.

        Args:
            directory: Directory of the trial's checkpoints.
            config: Settings for when checkpoints are written, and which are kept.
        """
        self.store = CheckpointStore(directory, config.keep, config.best)
        self.newest: Path | None = None
        self.blocked_s = 0.0
        self._config = config
        self._iteration = -1
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._being_saved: Future[Path] | None = None

    def note(self, path: Path, iteration: int) -> None:
        """Records the checkpoint from which a resumed trial was restored, and its iteration."""
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
        """Starts an asynchronous checkpoint once the previous one is complete.

        Does nothing if the iteration already has a checkpoint.

        Args:
            iteration: The last completed iteration.
            content: Function that returns the checkpoint's content, which may be modified after this method returns.
            generation: The last population generation (PBT) that the trial has carried out.
            result: The result of the iteration.
            before: Called by the background thread before the checkpoint gets its final name.
            after: Called by the background thread after the checkpoint has its final name.

        Raises:
            OutOfResources: The disk was full when writing this checkpoint or the previous one.
        """
        self.wait()
        if self._iteration == iteration:
            return
        with self._timing():
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
        """Blocks until the last checkpoint is complete.

        Raises:
            OutOfResources: The disk is full. The error is raised only once, and the iteration gets no checkpoint.
        """
        with self._timing():
            self.settle()
        being_saved, self._being_saved = self._being_saved, None
        if being_saved is not None:
            if being_saved.exception() is not None:
                self._iteration = -1
            self.newest = being_saved.result()

    def settle(self) -> None:
        """Blocks until no checkpoint is being written; errors are deferred to the next `wait`."""
        if self._being_saved is not None:
            futures.wait([self._being_saved])

    @contextmanager
    def _timing(self) -> Iterator[None]:
        """Adds the seconds of a block of code to `blocked_s`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.blocked_s += time.perf_counter() - began

    def close(self) -> None:
        """Blocks until no checkpoint is being written, and terminates the background thread."""
        self._thread.shutdown()

    def is_due(self, row: Row, *, is_last: bool) -> bool:
        """Whether a checkpoint is due after an iteration.

        Args:
            row: The result of the iteration.
            is_last: Whether the iteration is the trial's last.
        """
        config = self._config
        if is_last and config.at_end:
            return True
        if config.every is not None and row["iteration"] % config.every == 0:
            return True
        # An evaluation measures the weights of its iteration, so a checkpoint with the best score is written at once.
        score = row.get(config.best) if config.best and config.best.startswith(EVALUATION) else None
        if score is None:
            return False
        self.settle()
        best = self.store.best_score()
        return best is None or score > best
