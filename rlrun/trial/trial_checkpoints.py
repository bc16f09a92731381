"""The checkpoints of a trial while it runs: when one is due, and which one it would go on from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlrun.checkpoint.format import Content
from rlrun.checkpoint.store import CheckpointStore
from rlrun.spec.experiment import CheckpointConfig
from rlrun.trial.exploit import GENERATION
from rlrun.trial.results import Row
from rlrun.trial.trial_evaluation import EVALUATION


class TrialCheckpoints:
    """Writes the checkpoints of a trial, at most one for each iteration.

    Attributes:
        store: Where they are.
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

    def note(self, path: Path, iteration: int) -> None:
        """Notes the checkpoint that the trial goes on from, and its iteration."""
        self.newest, self._iteration = path, iteration

    def of(self, iteration: int) -> Path | None:
        """Returns the checkpoint that the trial has of an iteration, None if that is not its newest."""
        return self.newest if self._iteration == iteration else None

    def save(self, iteration: int, content: Content, generation: int, result: Row) -> Path:
        """Writes a checkpoint.

        Args:
            iteration: The iteration it is made after.
            content: What to write.
            generation: The last generation of its population that the trial has carried out.
            result: The result of the iteration.

        Returns:
            Its directory.

        Raises:
            OutOfResources: If the disk is full.
        """
        content = replace(content, manifest={**content.manifest, GENERATION: generation})
        path = self.store.save(iteration, content, result)
        self.note(path, iteration)
        return path

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
        best = self.store.best_score() if score is not None else None
        return score is not None and (best is None or score > best)
