"""Start of a trial: from its newest checkpoint, from the weights of another run, or with new weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.envs.step_marks import enable_step_marks, stepped_env
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.checked_results import truncate_results
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.results import json_row
from rlrun.experiments.trial.resumption import Resumption, ending_in_words
from rlrun.experiments.trial.starting_point import StartingPoint
from rlrun.experiments.trial.trial_journal import TrialJournal
from rlrun.experiments.trial.trial_training import record_to, training_of


class TrialStart:
    """Start of a trial in two steps: `training` builds the training, and `restore` loads its state.

    Attributes:
        point: The checkpoint from which the trial resumes; None for a start without one.
        was_paused: Whether the trial was paused before.
    """

    def __init__(self, trial: TrialSpec, journal: TrialJournal, *, resume: bool, from_checkpoint: Path | None) -> None:
        """Reads the trial's files, and writes trial.json and spec.yaml for the start.

        Args:
            trial: The trial.
            journal: The trial's journal.
            resume: Whether to resume from the newest valid checkpoint, if there is one.
            from_checkpoint: A checkpoint of another run whose weights and filters a new trial starts with.

        Raises:
            CheckpointError: There are checkpoints, but none is usable.
        """
        files = journal.files
        self._trial = trial
        self._journal = journal
        self._before = before = files.read_record() if resume else None
        self._stepped = stepped_env(files.path)
        enable_step_marks(files.path)
        if before is not None:
            from_checkpoint = None if before.from_checkpoint is None else Path(before.from_checkpoint)
            journal.record = replace(journal.record, exact_resume=before.exact_resume, output=before.output)
        self.was_paused = before is not None and before.status == "PAUSED"
        self._from_checkpoint = from_checkpoint
        start = None if from_checkpoint is None else str(from_checkpoint.absolute())
        journal.record = replace(journal.record, from_checkpoint=start)
        files.write_spec(journal.spec)
        files.clear_error()
        journal.write_record()
        self.point = StartingPoint.newest(journal.checkpoints.store) if resume else None

    def training(self, exploit: Exploit | None, *, eager: bool) -> Training:
        """Builds the trial's training with the settings that the start requires; starts no process and no env.

        Args:
            exploit: The trial's last exploit step (PBT), None outside of populations.
            eager: Whether compiled updates may continue uncompiled.

        Raises:
            CheckpointError: The trial's settings differ from those of its checkpoint.
            CompilerMissing: The trial's updates need a compiler, this machine has none, and `eager` is False.
        """
        trial = self._trial if self.point is None else self.point.trial(self._trial, exploit)
        return training_of(trial, self._journal.note, eager=eager)

    def restore(self, training: Training, *, eager: bool) -> Resumption | None:
        """Loads the state with which the training starts, and removes result rows of later iterations.

        Args:
            training: The training from `training`.
            eager: Whether compiled updates may continue uncompiled.

        Returns:
            Report on the resumption, None for a new trial.

        Raises:
            CheckpointError: The checkpoint does not fit the training.
            UsageError: The folder of the trial's data set is that of something else.
        """
        trial, journal, before = self._trial, self._journal, self._before
        if trial.output is not None:
            record_to(training, Path(trial.output), begun=journal.record.output, from_start=self.point is None)
            journal.record = replace(journal.record, output=trial.output)
            journal.write_record()
        resumption = self._begin(training) if self.point is None else self._resume(training, self.point, eager=eager)
        if trial.begins is not None and trial.begins.weights and trial.begins.filters == "frozen":
            saved_state.freeze_filters(training.running)
        if resumption is not None and before is not None and before.status == "RUNNING":
            steps_envs = trial.config.num_workers == 0
            crash = ending_in_words("the process before was killed or crashed", self._stepped, steps_envs=steps_envs)
            resumption = replace(resumption, crash=crash)
        return resumption

    def _begin(self, training: Training) -> Resumption | None:
        """Starts without a checkpoint of the trial: with new weights, or with those of another run or stage."""
        before, begins = self._before, self._trial.begins
        cut = truncate_results(self._journal.files.path, after_iteration=0)
        if self._from_checkpoint is not None:
            content, optimizers = read_checkpoint(self._from_checkpoint), begins is not None and begins.optimizers
            saved_state.load_weights(training.running, content, in_part=begins is not None, optimizers=optimizers)
        if cut.rows_cut or (before is not None and before.status != "PENDING"):
            return Resumption(None, rows_cut=cut.rows_cut, damage=cut.damage)
        return None

    def _resume(self, training: Training, point: StartingPoint, *, eager: bool) -> Resumption:
        """Resumes from a checkpoint of the trial."""
        journal = self._journal
        store = journal.checkpoints.store
        resumption = point.restore(training, journal.files.path, store, record=self._before, eager=eager)
        journal.checkpoints.note(point.path, training.iteration)
        for sentence in point.ended_schedules(self._trial):
            journal.note(sentence)
        journal.last_result = json_row(point.result)
        was_exact = journal.record.exact_resume is not False
        journal.record = replace(journal.record, exact_resume=was_exact and resumption.is_exact)
        return resumption
