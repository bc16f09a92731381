"""The checkpoints of a trial while it runs: when one is due, how it is written, and which one it would go on from.

What a checkpoint holds is in its files, beside their place, before the trial goes on. A thread then makes them last,
gives them their place and removes older ones: the disk is waited for while the next iteration runs.
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
        store: Where they are; nothing may touch it between `begin` and `wait`.
        newest: The one that the trial would go on from now, None before the first.
    """

    def __init__(self, directory: Path, config: CheckpointConfig) -> None:
        """Opens the checkpoints of a trial, which need not exist yet.

        Args:
            directory: The trial's checkpoints.
            config: When they are written, and which are kept.
        """
        self.store = CheckpointStore(directory, config.keep, config.best)
        self.newest: Path | None = None
        self._config = config
        self._iteration = -1
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._being_saved: Future[Path] | None = None

    def note(self, path: Path, iteration: int) -> None:
        """Notes the checkpoint that the trial goes on from, and its iteration."""
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
        """Begins to write a checkpoint, unless the iteration has one already; the one before it is waited for.

        Args:
            iteration: The iteration it is made after.
            content: Returns what to write, which may change as soon as this method returns.
            generation: The last generation of its population that the trial has carried out.
            result: The result of the iteration.
            before: Called by the thread before the checkpoint has its place.
            after: Called by the thread once it has.

        Raises:
            OutOfResources: If the disk is full, for this checkpoint or the one before it.
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
        """Waits until the checkpoint that was begun last has its place.

        Raises:
            OutOfResources: If the disk is full. Told once; the iteration has no checkpoint then.
        """
        self.settle()
        being_saved, self._being_saved = self._being_saved, None
        if being_saved is not None:
            if being_saved.exception() is not None:
                self._iteration = -1
            self.newest = being_saved.result()

    def settle(self) -> None:
        """Waits until nothing is being written; what went wrong is told by the next `wait`."""
        if self._being_saved is not None:
            futures.wait([self._being_saved])

    def close(self) -> None:
        """Waits until nothing is being written, and ends the thread."""
        self._thread.shutdown()

    def is_due(self, row: Row, *, is_last: bool) -> bool:
        """Whether one is to be written.

        Args:
            row: The result of the iteration.
            is_last: Whether the trial is over with it.
        """
        config = self._config
        if is_last and config.at_end:
            return True
        if config.every is not None and row["iteration"] % config.every == 0:
            return True
        # An evaluation speaks of the weights of its own iteration only, so its best is kept when it happens.
        score = row.get(config.best) if config.best and config.best.startswith(EVALUATION) else None
        if score is None:
            return False
        self.settle()
        best = self.store.best_score()
        return best is None or score > best
