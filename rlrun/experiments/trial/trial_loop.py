"""Training loop of one trial in this process, without Ray: iterations, evaluation, checkpoints, results, stopping.

A kill at any time is harmless, since the row of an iteration is written before its checkpoint. So the rows of a
checkpoint always exist, and rows after the newest checkpoint are removed when the trial is resumed.
"""

from __future__ import annotations

import os
import platform
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.envs.step_marks import begin_marks, end_marks, stepped_env
from rlrun.engine.envs.vector_env import EnvError, EnvStartFailed
from rlrun.engine.messages.errors import DiskFull, RlrunError, TrainingFailed, UsageError, shortened
from rlrun.engine.messages.explain import Remark
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.checked_results import truncate_results
from rlrun.experiments.trial.divergence import DivergenceGuard
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.loggers.trial_logger import loggers_of
from rlrun.experiments.trial.plateau import Plateau
from rlrun.experiments.trial.results import RETURN, ResultWriter, Row, best_value, iterate_results, json_row
from rlrun.experiments.trial.resumption import Resumption, ending_in_words
from rlrun.experiments.trial.starting_point import StartingPoint
from rlrun.experiments.trial.trial_checkpoints import TrialCheckpoints
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord, TrialStatus
from rlrun.experiments.trial.trial_evaluation import EVALUATION, episodes_shown, evaluated, pictures
from rlrun.experiments.trial.trial_loggers import TrialLoggers
from rlrun.experiments.trial.trial_training import rebuilt, record_to, training_of
from rlrun.experiments.trial.user_code import exits_as_failures, failure_of_user_code


class TrialLoop:
    """Training loop of one trial; as a context manager, terminates all processes of the trial at exit.

    Attributes:
        trial: The trial.
        directory: Directory of the trial's files.
        checkpoints: Checkpoints of the trial.
        done: Whether the trial has reached one of its stop criteria.
        stop_reason: The reached stop criterion, "" before.
        generation: The last population generation (PBT) that the trial has carried out; 0 outside of populations.
        resumption: Report on the resumption, None for a new trial.
        was_paused: Whether the trial was resumed after `pause`.
        last_result: The newest result row, {} before the first.
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
    ) -> None:
        """Locks the directory and builds the training, or restores it from the newest valid checkpoint.

        Args:
            trial: The trial.
            directory: Directory for its files; created if missing.
            resume: Whether to resume from the newest valid checkpoint, or restart if there is none yet.
            from_checkpoint: A checkpoint of another run whose weights and filters a new trial starts with.
            exploit: The trial's last exploit step (PBT), None outside of populations.
            eager: Whether compiled updates may continue uncompiled.
            announce: Callback with a message before a slow operation.

        Raises:
            UsageError: Another process runs the trial, or checkpoints exist already and `resume` is False.
            CheckpointError: A checkpoint cannot be used.
            CompilerMissing: The trial's updates need a compiler, this machine has none, and `eager` is False.
        """
        self.trial = trial
        self.directory = Path(directory)
        self.done = False
        self.stop_reason = ""
        self.generation = 0
        self.resumption: Resumption | None = None
        self.was_paused = False
        self.last_result: Row = {}
        self._files = TrialDirectory(self.directory)
        self.checkpoints = TrialCheckpoints(self._files.checkpoints, trial.checkpoint)
        self._results = ResultWriter(
            self.directory, {"algorithm": trial.algorithm, "env": trial.env.id, **trial.params}
        )
        self._spec = trial.to_data()
        self._best: Row = dict.fromkeys([RETURN, trial.judged_by])
        self._plateau = Plateau(trial)
        self._checkpoint_s = 0.0
        self._since_last_s = 0.0
        self._is_between_iterations = True
        self._announce = announce
        self._training: Training | None = None
        if not resume and self.checkpoints.store.paths():
            raise UsageError(f"{self.directory}: has checkpoints already; resume it, or train into another directory")
        self._files.claim()
        self._loggers = TrialLoggers(loggers_of(trial.loggers), trial, self.directory, announce)
        self._record = TrialRecord(
            trial.name,
            "RUNNING",
            trial.seed,
            dict(trial.params),
            judged_by=trial.judged_by,
            pid=os.getpid(),
            host=platform.node(),
        )
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
        """The current training (policies, workers and dataflow) of the trial."""
        if self._training is None:
            raise RuntimeError(f"{self.directory}: the trial's training could not be built")
        return self._training

    def step(self) -> Row:
        """Runs one training iteration, with evaluation and checkpoint when due.

        Returns:
            The iteration's result as in result.json, with None for non-finite numbers.

        Raises:
            TrainingFailed: An env or plugin failed, or training has diverged, see `failed/`.
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
        """Writes a checkpoint synchronously, unless this iteration has one already."""
        self._begin_to_save()
        self.wait_until_saved()
        saved = self.checkpoints.newest
        if saved is None:
            raise RuntimeError(f"{self.directory}: a checkpoint was written and is not there")
        return saved

    def wait_until_saved(self) -> None:
        """Blocks until the last checkpoint is complete.

        Raises:
            OutOfResources: The disk is full.
        """
        with self._timing_checkpoint():
            self.checkpoints.wait()

    def take_exploit(self, exploit: Exploit) -> None:
        """Carries out an exploit-and-explore step (PBT): copies the parent's weights, if any, and applies new settings.

        No checkpoint is written, so that the step is repeatable after a kill.

        Args:
            exploit: The exploit step; ignored if its generation was carried out before.

        Raises:
            CheckpointError: The parent's checkpoint does not fit this trial.
        """
        if exploit.generation <= self.generation:
            return
        if exploit.parent is not None:
            parent = read_checkpoint(exploit.parent)
            if not self.training.reconfigure(exploit.trial.learns):
                self._rebuild(exploit.trial)
            saved_state.adopt(self.training.running, parent)
            self._guard = DivergenceGuard(self.training)
        self.trial, self.generation = exploit.trial, exploit.generation
        self._write_spec()
        self._record = replace(self._record, params=dict(self.trial.params))
        self._write_record("RUNNING")

    def pause(self) -> None:
        """Saves the trial and releases its directory, for a later resume in any process."""
        if self._record.status == "RUNNING" and not self.done:
            if self.training.iteration > 0:
                self.save()
            self._write_record("PAUSED")
        self.close()

    def interrupt(self) -> Path | None:
        """Interrupts the trial; an iteration aborted by a KeyboardInterrupt is discarded.

        Returns:
            The checkpoint for a resume; None if a resume will restart the trial.
        """
        if self._is_between_iterations and self.training.iteration > 0:
            self.save()
        self._write_record("INTERRUPTED")
        self.wait_until_saved()
        return self.checkpoints.newest

    def finish(self, reason: str) -> None:
        """Terminates the trial before a stop criterion is reached, as a scheduler may decide.

        Args:
            reason: The reason for trial.json.
        """
        if self._record.status == "RUNNING":
            self.done, self.stop_reason = True, reason
            self._finish()

    def close(self) -> None:
        """Terminates workers, closes files and releases the directory; a running trial becomes PENDING."""
        try:
            self.checkpoints.close()
            if self._record.status == "RUNNING":
                with suppress(OSError, RlrunError):
                    self._write_record("PENDING")
            self._results.close()
            if self._training is not None:
                self._training.close()
            self._loggers.finish(self._record.status)
        finally:
            end_marks()
            self._files.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Start and resume.

    def _begin(self, *, resume: bool, from_checkpoint: Path | None, exploit: Exploit | None, eager: bool) -> None:
        before = self._files.read_record() if resume else None
        stepped = stepped_env(self.directory)
        begin_marks(self.directory)
        if before is not None:
            from_checkpoint = None if before.from_checkpoint is None else Path(before.from_checkpoint)
            self._record = replace(self._record, exact_resume=before.exact_resume, output=before.output)
            self.was_paused = before.status == "PAUSED"
        start = None if from_checkpoint is None else str(from_checkpoint.absolute())
        self._record = replace(self._record, from_checkpoint=start)
        self._files.write_spec(self._spec)
        self._files.clear_error()
        self._files.write_record(self._record)
        point = StartingPoint.newest(self.checkpoints.store) if resume else None
        trial = self.trial if point is None else point.trial(self.trial, exploit)
        self._training = training_of(trial, self._note, eager=eager)
        if self.trial.output is not None:
            record_to(self.training, Path(self.trial.output), begun=self._record.output, from_start=point is None)
            self._record = replace(self._record, output=self.trial.output)
            self._files.write_record(self._record)
        if point is not None:
            self._resume(point, before, eager=eager)
        else:
            cut = truncate_results(self.directory, after_iteration=0)
            if cut.rows_cut or (before is not None and before.status != "PENDING"):
                self.resumption = Resumption(None, rows_cut=cut.rows_cut, damage=cut.damage)
            if from_checkpoint is not None:
                self._load_weights(from_checkpoint)
        begins = self.trial.begins
        if begins is not None and begins.weights and begins.filters == "frozen":
            saved_state.freeze_filters(self.training.running)
        if self.resumption is not None and before is not None and before.status == "RUNNING":
            steps_envs = self.trial.config.num_workers == 0
            crash = ending_in_words("the process before was killed or crashed", stepped, steps_envs=steps_envs)
            self.resumption = replace(self.resumption, crash=crash)
        networks = self.training.description.networks(self.training.running.spaces())
        self._record = replace(self._record, network=networks)
        self._files.write_record(self._record)
        self._write_spec()
        self._guard = DivergenceGuard(self.training)
        if exploit is not None:
            self.take_exploit(exploit)

    def _write_spec(self) -> None:
        """Writes spec.yaml, with the executor by which updates are computed."""
        self._spec = {**self.trial.to_data(), "update_executor": self.training.update_executor}
        self._files.write_spec(self._spec)

    def _load_weights(self, start: Path) -> None:
        """Begins with the weights of another run, or with all that the trial takes over from an earlier stage."""
        begins, content = self.trial.begins, read_checkpoint(start)
        optimizers = begins is not None and begins.optimizers
        saved_state.load_weights(self.training.running, content, in_part=begins is not None, optimizers=optimizers)

    def _rebuild(self, trial: TrialSpec) -> None:
        """Replaces the training with one that has other settings; the former envs are closed."""
        self._training = rebuilt(self.training, trial, self._note)

    def _resume(self, point: StartingPoint, before: TrialRecord | None, *, eager: bool) -> None:
        self.generation = point.generation
        self.resumption = point.restore(
            self.training, self.directory, self.checkpoints.store, record=before, eager=eager
        )
        self.checkpoints.note(point.path, self.training.iteration)
        for sentence in point.ended_schedules(self.trial):
            self._note(sentence)
        self.last_result = json_row(point.result)
        self._best = dict.fromkeys(self._best)
        self._plateau = Plateau(self.trial)
        self._note_rows(iterate_results(self.directory))
        was_exact = self._record.exact_resume is not False
        self._record = replace(self._record, exact_resume=was_exact and self.resumption.is_exact)
        self._note_stop(self.last_result)
        self._note_endless_episodes()
        self._write_record("TERMINATED" if self.done else "RUNNING")

    # Iterations.

    def _step(self) -> Row:
        self._is_between_iterations = False
        result = self.training.step(self._since_last_s)
        trained, self._since_last_s = time.perf_counter(), 0.0
        if not self.training.running.workers.lost_nothing and self._record.exact_resume is not False:
            self._record = replace(self._record, exact_resume=False)
            self._write_record("RUNNING")
        self._guard.refuse_divergence(result, self._spec, self._files.failed)
        self._guard.remember()
        result |= evaluated(self.training, self.trial, is_last=self._why_to_stop(result) is not None)
        if result.get(f"{EVALUATION}episode_return_mean") is not None:
            if self.training.running.hooks is not None:
                found = {name: value for name, value in result.items() if name.startswith(EVALUATION)}
                result |= self.training.running.hooks.on_evaluation(self.training.iteration, found)
            for policy, picture in pictures(self.training).items():
                self._files.write_picture(policy, picture)
            if texts := episodes_shown(self.training, self.trial):
                self._files.write_episodes(texts)
        result["time/checkpoint_s"], self._checkpoint_s = self._checkpoint_s, 0.0
        self.last_result = self._results.write(result)
        self._note_rows([self.last_result])
        self._loggers.log(self.last_result)
        self._is_between_iterations = True
        self._note_stop(self.last_result)
        self._note_endless_episodes()
        if self.checkpoints.is_due(self.last_result, is_last=self.done):
            self._begin_to_save()
        if self.done:
            self._finish()
        self._since_last_s = time.perf_counter() - trained
        return self.last_result

    def _begin_to_save(self) -> None:
        """Starts an asynchronous checkpoint, after result rows are on disk and before trial.json refers to it."""
        if not self._is_between_iterations:
            raise RuntimeError(
                f"{self.directory}: an iteration was stopped halfway; there is no complete state to save"
            )
        if self.training.running.hooks is not None:
            self.training.running.hooks.on_checkpoint(self.training.iteration)
        self._record = self._updated_record("RUNNING")
        record = self._record
        with self._timing_checkpoint():
            self.checkpoints.begin(
                self.training.iteration,
                lambda: self.training.content(self._spec),
                self.generation,
                self.last_result,
                before=self._results.sync,
                after=lambda: self._files.write_record(record),
            )

    @contextmanager
    def _timing_checkpoint(self) -> Iterator[None]:
        """Measures the seconds for which a checkpoint blocks the trial."""
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self._checkpoint_s += seconds
            self._since_last_s += seconds

    def _note_rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._plateau.note(row)
            self._best = {metric: best_value([{metric: best}, row], metric) for metric, best in self._best.items()}

    def _note_stop(self, row: Row) -> None:
        reason = self._why_to_stop(row)
        if reason is not None:
            self.done, self.stop_reason = True, reason

    def _why_to_stop(self, row: Row) -> str | None:
        """Reason to stop after a result: a bound, a hook's reason or a plateau; None for none."""
        hooks = self.training.running.hooks
        by_hook = "" if hooks is None else hooks.stop
        return stop_reached(self.trial.stop.bounds, row) or by_hook or self._plateau.reason or None

    def _note_endless_episodes(self) -> None:
        """Warns the user after half of the run if no episode has ended."""
        counts = self.training.running.workers.counts
        half = {metric: bound / 2 for metric, bound in self.trial.stop.bounds.items()}
        if counts.endless is not None and stop_reached(half, self.last_result) is not None:
            counts.endless.look_halfway(counts.env_steps)

    # End.

    def _finish(self) -> None:
        if self.trial.checkpoint.at_end and self._is_between_iterations and self.training.iteration > 0:
            self.save()
        self.wait_until_saved()
        self._results.complete()  # a resume leaves a trial alone that is done
        self._write_record("TERMINATED")

    def _fail(self, error: Exception) -> None:
        """Records a fatal error of the trial; raises an error in user code with the user's traceback."""
        described = None if self._training is None else self._training.description
        plugins = [] if described is None else map(type, described.policies.algorithms.values())
        failure: TrainingFailed | None
        if isinstance(error, EnvStartFailed) and self._training is not None and self._training.iteration > 0:
            failure = EnvError(str(error))  # an evaluation env, since the training env has started
        else:
            failure = failure_of_user_code(error, *plugins, directory=self.directory)
        shown = failure or error
        message = (
            str(shown) if isinstance(shown, RlrunError) else "".join(traceback.format_exception_only(shown)).strip()
        )
        with suppress(OSError, RlrunError):  # a full disk must not hide what happened
            self._files.write_error("".join(traceback.format_exception(error)))
        self._record = replace(self._record, error=shortened(message))
        with suppress(OSError, RlrunError):
            # A full disk is no error of the trial: it can be resumed once there is space.
            self._write_record("INTERRUPTED" if isinstance(error, DiskFull) else "ERROR")
        if failure is not None:
            raise failure from error

    def _note(self, text: str) -> None:
        """Announces a message and appends it to trial.json; a `Remark` is only appended."""
        if not isinstance(text, Remark):
            self._announce(text)
        if text not in self._record.notes:
            self._record = replace(self._record, notes=[*self._record.notes, text])
            self.checkpoints.settle()
            self._files.write_record(self._record)

    def _write_record(self, status: TrialStatus) -> None:
        self._record = self._updated_record(status)
        self.checkpoints.settle()
        self._files.write_record(self._record)

    def _updated_record(self, status: TrialStatus) -> TrialRecord:
        iteration = int(self.last_result.get("iteration") or 0)
        results_bytes, results_sha256 = self._results.written() if iteration else (0, "")
        return replace(
            self._record,
            status=status,
            iteration=iteration,
            results_bytes=results_bytes,
            results_sha256=results_sha256,
            env_steps=int(self.last_result.get("env_steps") or 0),
            best_return=self._best[RETURN],
            best_score=self._best[self._record.judged_by],
            stop_reason=self.stop_reason,
            pid=os.getpid() if status == "RUNNING" else None,
            host=platform.node() if status == "RUNNING" else "",
        )


def stop_reached(stop: Mapping[str, float], result: Mapping[str, Any]) -> str | None:
    """Stop criterion that a result satisfies, None without any.

    Examples:
        >>> stop_reached({"env_steps": 100, "episodes": 9}, {"env_steps": 128, "episodes": None})
        'env_steps 128 >= 100'
    """
    for metric, bound in stop.items():
        value = result.get(metric)
        if value is not None and value >= bound:
            return f"{metric} {value:g} >= {bound:g}"
    return None
