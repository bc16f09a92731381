"""Training loop of one trial in this process, without Ray: iterations, evaluation, checkpoints, results, stopping.

A kill at any time is harmless: since an iteration's row is written before its checkpoint, all result rows up to a
checkpoint always exist, and rows after the newest checkpoint are removed on resume.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Self

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.envs.step_marks import end_marks
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.divergence import DivergenceGuard
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.results import Row, iterate_results
from rlrun.experiments.trial.resumption import Resumption
from rlrun.experiments.trial.stop_criteria import StopCriteria
from rlrun.experiments.trial.trial_checkpoints import TrialCheckpoints
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_evaluation import evaluate_and_record
from rlrun.experiments.trial.trial_journal import TrialJournal
from rlrun.experiments.trial.trial_start import TrialStart
from rlrun.experiments.trial.trial_training import failure_of, rebuilt
from rlrun.experiments.trial.user_code import exits_as_failures


class TrialLoop:
    """Training loop of one trial; as a context manager, it terminates all processes of the trial at exit.

    Attributes:
        trial: The trial.
        directory: Directory of the trial's files.
        checkpoints: Checkpoints of the trial.
        done: Whether the trial has reached one of its stop criteria.
        generation: The last population generation (PBT) that the trial has carried out; 0 if it is in no population.
        resumption: Report on the resumption; None for a new trial.
        was_paused: Whether the trial was resumed after `pause`.
    """

    def __init__(
        self,
        trial: TrialSpec,
        directory: Path,
        *,
        resume: bool = False,
        from_checkpoint: Path | None = None,
        exploit: Exploit | None = None,
        eager: bool = False,
        announce: Callable[[str], None] = lambda message: None,
        confirm: Callable[[], object] = lambda: None,
    ) -> None:
        """Locks the directory and builds the `Training`, or restores it from the newest valid checkpoint.

        Args:
            trial: The trial.
            directory: Directory for the trial's files; created if missing.
            resume: Whether to resume from the newest valid checkpoint, or restart if there is none yet.
            from_checkpoint: A checkpoint of another run, with whose weights and filters a new trial starts.
            exploit: The trial's last exploit step (PBT); None if the trial is in no population.
            eager: Whether compiled updates may continue uncompiled on a machine without a compiler.
            announce: Callback that receives a message before a slow operation.
            confirm: Called before each result row and checkpoint is written.

        Raises:
            UsageError: Another process is running the trial, or checkpoints exist already and `resume` is False.
            CheckpointError: A checkpoint cannot be used.
            CompilerMissing: The trial's updates need a compiler, this machine has none, and `eager` is False.
        """
        self.trial = trial
        self.directory = Path(directory)
        self.done = False
        self.generation = 0
        self.resumption: Resumption | None = None
        self.was_paused = False
        self._files = TrialDirectory(self.directory)
        self.checkpoints = TrialCheckpoints(self._files.checkpoints, trial.checkpoint)
        self._criteria = StopCriteria(trial)
        self._blocked_s = 0.0  # seconds for which checkpoints blocked training, up to the last row
        self._since_last_s = 0.0  # excludes the seconds for which checkpoints blocked training
        self._is_between_iterations = True
        self._training: Training | None = None
        if not resume and self.checkpoints.store.paths():
            raise UsageError(f"{self.directory}: already has checkpoints; resume it, or train in another directory")
        self._files.claim()
        self._journal = TrialJournal(trial, self._files, self.checkpoints, announce, confirm)
        try:
            with exits_as_failures():
                self._begin(resume=resume, from_checkpoint=from_checkpoint, exploit=exploit, eager=eager)
        except BaseException as error:
            try:
                if isinstance(error, Exception):
                    self._fail(error)
                raise
            finally:
                self.close()

    @property
    def training(self) -> Training:
        """The trial's current `Training` (policies, workers and dataflow)."""
        if self._training is None:
            raise RuntimeError(f"{self.directory}: the trial's training could not be set up")
        return self._training

    @property
    def last_result(self) -> Row:
        """The newest result row; {} before the first."""
        return self._journal.last_result

    @property
    def stop_reason(self) -> str:
        """Stop criterion that the trial has reached; "" if it has reached none."""
        return self._journal.stop_reason

    def step(self) -> Row:
        """Runs one training iteration, with an evaluation and a checkpoint when they are due.

        Returns:
            The iteration's result as in result.json, with None for non-finite numbers.

        Raises:
            TrainingFailed: An env or plugin failed, or training has diverged (see the folder `failed`).
            OutOfResources: The disk is full.
        """
        if self.done:
            raise RuntimeError(f"{self.directory}: the trial is done: {self.stop_reason}")
        try:
            with exits_as_failures():
                return self._step()
        except Exception as error:
            self._fail(error)
            raise

    def save(self) -> Path:
        """Writes a checkpoint synchronously, unless this iteration already has one."""
        self._begin_to_save()
        self.checkpoints.wait()
        saved = self.checkpoints.newest
        if saved is None:
            raise RuntimeError(f"{self.directory}: a checkpoint was written but is missing")
        return saved

    def apply_exploit(self, exploit: Exploit) -> None:
        """Performs an exploit-and-explore step (PBT): copies the parent's weights, if any, and applies new settings.

        No checkpoint is written, so that the step can be repeated after a kill.

        Args:
            exploit: The exploit step; ignored if its generation has already been performed.

        Raises:
            CheckpointError: The parent's checkpoint does not fit this trial.
        """
        if exploit.generation <= self.generation:
            return
        if exploit.parent is not None:
            parent = read_checkpoint(exploit.parent)
            if not self.training.reconfigure(exploit.trial.learns):
                self._training = rebuilt(self.training, exploit.trial, self._journal.note)
            saved_state.adopt(self.training.running, parent)
            self._guard = DivergenceGuard(self.training)
        self.trial, self.generation = exploit.trial, exploit.generation
        self._write_spec()
        self._journal.record = replace(self._journal.record, params=dict(self.trial.params))
        self._journal.write("RUNNING")

    def pause(self) -> None:
        """Saves the trial and releases its directory, so that any process can resume it later."""
        if self._journal.record.status == "RUNNING" and not self.done:
            if self.training.iteration > 0:
                self.save()
            self._journal.write("PAUSED")
        self.close()

    def interrupt(self) -> Path | None:
        """Interrupts the trial and saves it; an iteration aborted by a KeyboardInterrupt is discarded.

        Returns:
            The checkpoint from which the trial can resume; None if a resume will restart the trial.
        """
        if self._is_between_iterations and self.training.iteration > 0:
            self.save()
        self._journal.write("INTERRUPTED")
        self.checkpoints.wait()
        return self.checkpoints.newest

    def finish(self, reason: str) -> None:
        """Ends the trial before it reaches a stop criterion, for example because a scheduler has decided to stop it.

        Args:
            reason: The reason, recorded in trial.json.
        """
        if self._journal.record.status == "RUNNING":
            self.done, self._journal.stop_reason = True, reason
            self._finish()

    def close(self) -> None:
        """Terminates workers, closes files and releases the directory; a running trial becomes PENDING."""
        try:
            self.checkpoints.close()
            self._journal.close_files()
            if self._training is not None:
                self._training.close()
            self._journal.finish_loggers()
        finally:
            end_marks()
            self._files.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _begin(self, *, resume: bool, from_checkpoint: Path | None, exploit: Exploit | None, eager: bool) -> None:
        start = TrialStart(self.trial, self._journal, resume=resume, from_checkpoint=from_checkpoint)
        self.was_paused = start.was_paused
        self._training = start.training(exploit, eager=eager)
        if start.point is not None:
            self.generation = start.point.generation
        self.resumption = start.restore(self._training, eager=eager)
        if start.point is not None:
            self._take_in(iterate_results(self.directory))
            self._journal.write("TERMINATED" if self.done else "RUNNING")
        networks = self._training.description.networks(self._training.running.spaces())
        self._journal.record = replace(self._journal.record, network=networks)
        self._journal.write_record()
        self._write_spec()
        self._guard = DivergenceGuard(self._training)
        if exploit is not None:
            self.apply_exploit(exploit)

    def _write_spec(self) -> None:
        """Writes spec.yaml, with the executor by which updates are computed."""
        self._journal.write_spec({**self.trial.to_data(), "update_executor": self.training.update_executor})

    def _step(self) -> Row:
        self._is_between_iterations = False
        result = self.training.step(self._since_last_s + self.checkpoints.blocked_s)
        trained = time.perf_counter()
        if not self.training.running.workers.lost_nothing and self._journal.record.exact_resume is not False:
            self._journal.record = replace(self._journal.record, exact_resume=False)
            self._journal.write("RUNNING")
        self._guard.refuse_divergence(result, self._journal.spec, self._files.failed)
        self._guard.remember()
        is_last = self._why_to_stop(result) is not None
        result |= evaluate_and_record(self.training, self.trial, self._files, is_last=is_last)
        result["time/checkpoint_s"] = self.checkpoints.blocked_s - self._blocked_s
        self._blocked_s = self.checkpoints.blocked_s
        self._take_in([self._journal.add(result)])
        self._is_between_iterations = True
        if self.checkpoints.is_due(self.last_result, is_last=self.done):
            self._begin_to_save()
        if self.done:
            self._finish()
        self._since_last_s = time.perf_counter() - trained - self.checkpoints.blocked_s
        return self.last_result

    def _begin_to_save(self) -> None:
        """Starts an asynchronous checkpoint, after result rows are on disk and before trial.json refers to it."""
        if not self._is_between_iterations:
            raise RuntimeError(f"{self.directory}: an iteration was interrupted, so there is no complete state to save")
        if self.training.running.hooks is not None:
            self.training.running.hooks.on_checkpoint(self.training.iteration)
        self._journal.begin_checkpoint(
            self.training.iteration, lambda: self.training.content(self._journal.spec), self.generation
        )

    def _take_in(self, rows: Iterable[Row]) -> None:
        """Updates the trial's state from a new row, or from the rows before a resume; sets `done` if the trial is done.

        After half of the run it warns the user if no episode has ended.
        """
        for row in rows:
            self._journal.note_row(row)
            self._criteria.note(row)
        reason = self._why_to_stop(self.last_result)
        if reason is not None:
            self.done, self._journal.stop_reason = True, reason
        counts = self.training.running.workers.counts
        if counts.endless is not None and self._criteria.is_halfway(self.last_result):
            counts.endless.look_halfway(counts.env_steps)

    def _why_to_stop(self, row: Row) -> str | None:
        """Reason to stop after a result: a bound, a hook's reason or a plateau; None for none."""
        hooks = self.training.running.hooks
        return self._criteria.reason(row, by_hook="" if hooks is None else hooks.stop)

    def _finish(self) -> None:
        if self.trial.checkpoint.at_end and self._is_between_iterations and self.training.iteration > 0:
            self.save()
        self.checkpoints.wait()
        self._journal.complete_rows()  # before TERMINATED, since a resume skips finished trials
        self._journal.write("TERMINATED")

    def _fail(self, error: Exception) -> None:
        """Records a fatal error of the trial; raises an error in user code with the user's traceback."""
        failure = failure_of(error, self._training, self.directory)
        self._journal.write_failure(error, shown=failure or error)
        if failure is not None:
            raise failure from error
