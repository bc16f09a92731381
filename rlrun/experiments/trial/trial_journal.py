"""Journal of a running trial: writes result rows, status, notes and errors to the trial's directory.

An iteration's result row is written before its checkpoint, and trial.json after the checkpoint.
"""

from __future__ import annotations

import os
import platform
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.messages.errors import DiskFull, RlrunError, shortened
from rlrun.engine.messages.silent_message import SilentMessage
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.results import RETURN, ResultWriter, Row, best_value
from rlrun.experiments.trial.trial_checkpoints import TrialCheckpoints
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord, TrialStatus
from rlrun.experiments.trial.trial_loggers import TrialLoggers, loggers_of


class TrialJournal:
    """Journal of a running trial: writes result rows, trial.json and spec.yaml, and passes rows to the loggers.

    Args:
        trial: The trial.
        files: The trial's directory, locked by this process.
        checkpoints: The trial's checkpoints; trial.json is not written while a checkpoint is being written.
        announce: Callback that receives messages for the user.
        confirm: Called before each result row and checkpoint is written.

    Attributes:
        files: The trial's directory.
        checkpoints: The trial's checkpoints.
        record: Content of trial.json, with counters as of the last write.
        spec: Content of spec.yaml.
        last_result: The newest result row; {} before the first.
        stop_reason: The stop criterion that the trial has reached; "" if it has reached none.
    """

    def __init__(
        self,
        trial: TrialSpec,
        files: TrialDirectory,
        checkpoints: TrialCheckpoints,
        announce: Callable[[str], None],
        confirm: Callable[[], object] = lambda: None,
    ) -> None:
        self.files = files
        self.checkpoints = checkpoints
        self.record = TrialRecord(
            trial.name,
            "RUNNING",
            trial.seed,
            dict(trial.params),
            judged_by=trial.judged_by,
            pid=os.getpid(),
            host=platform.node(),
        )
        self.spec = trial.to_data()
        self.last_result: Row = {}
        self.stop_reason = ""
        self._announce = announce
        self._confirm = confirm
        self._best: Row = dict.fromkeys([RETURN, trial.judged_by])
        self._results = ResultWriter(files.path, {"algorithm": trial.algorithm, "env": trial.env.id, **trial.params})
        self._loggers = TrialLoggers(loggers_of(trial.loggers), trial, files.path, announce)

    def add(self, result: Mapping[str, Any]) -> Row:
        """Writes an iteration's result row and enqueues it for the loggers; returns the row as written."""
        self._confirm()
        self.last_result = self._results.write(result)
        self._loggers.log(self.last_result)
        return self.last_result

    def note_row(self, row: Row) -> None:
        """Updates the best values for trial.json with a result row, which may be new or from before a resume."""
        self._best = {metric: best_value([{metric: best}, row], metric) for metric, best in self._best.items()}

    def begin_checkpoint(self, iteration: int, content: Callable[[], Content], generation: int) -> None:
        """Starts an asynchronous checkpoint, which syncs the result rows to disk first and writes trial.json last.

        Args:
            iteration: The last completed iteration.
            content: Function that returns the content.
            generation: The last population generation (PBT) that the trial has carried out.

        Raises:
            OutOfResources: The disk is full.
        """
        record = self.record = self.updated("RUNNING")

        def before() -> None:
            self._confirm()
            self._results.sync()

        self.checkpoints.begin(
            iteration,
            content,
            generation,
            self.last_result,
            before=before,
            after=lambda: self.files.write_record(record),
        )

    def complete_rows(self) -> None:
        """Writes the last result row to progress.csv and TensorBoard, which get only some rows during training."""
        self._results.complete()

    def write_spec(self, spec: dict[str, Any]) -> None:
        """Replaces the trial's spec.yaml."""
        self.spec = spec
        self.files.write_spec(spec)

    def write(self, status: TrialStatus) -> None:
        """Writes trial.json with a status and the current counters."""
        self.record = self.updated(status)
        self.write_record()

    def write_record(self) -> None:
        """Writes trial.json with `record`, once no checkpoint is being written."""
        self.checkpoints.settle()
        self.files.write_record(self.record)

    def updated(self, status: TrialStatus) -> TrialRecord:
        """Copies the trial's record with a given status and the current counters."""
        iteration = int(self.last_result.get("iteration") or 0)
        results_bytes, results_sha256 = self._results.written() if iteration else (0, "")
        return replace(
            self.record,
            status=status,
            iteration=iteration,
            results_bytes=results_bytes,
            results_sha256=results_sha256,
            env_steps=int(self.last_result.get("env_steps") or 0),
            best_return=self._best[RETURN],
            best_score=self._best[self.record.judged_by],
            stop_reason=self.stop_reason,
            pid=os.getpid() if status == "RUNNING" else None,
            host=platform.node() if status == "RUNNING" else "",
        )

    def note(self, text: str) -> None:
        """Shows a message to the user and appends it to the notes in trial.json; a `SilentMessage` is only appended."""
        if not isinstance(text, SilentMessage):
            self._announce(text)
        if text not in self.record.notes:
            self.record = replace(self.record, notes=[*self.record.notes, text])
            self.write_record()

    def write_failure(self, error: Exception, *, shown: Exception) -> None:
        """Writes error.txt, and the status of a failed trial to trial.json.

        A full disk does not count as a failure: the status becomes INTERRUPTED, and the trial can be resumed once there
        is space.

        Args:
            error: The error that ended the trial, with its traceback.
            shown: The error as shown to the user.
        """
        message = (
            str(shown) if isinstance(shown, RlrunError) else "".join(traceback.format_exception_only(shown)).strip()
        )
        with suppress(OSError, RlrunError):  # a full disk must not hide what happened
            self.files.write_error("".join(traceback.format_exception(error)))
        self.record = replace(self.record, error=shortened(message))
        with suppress(OSError, RlrunError):
            self.write("INTERRUPTED" if isinstance(error, DiskFull) else "ERROR")

    def close_files(self) -> None:
        """Closes the result files; the status of a running trial becomes PENDING."""
        if self.record.status == "RUNNING":
            with suppress(OSError, RlrunError):
                self.write("PENDING")
        self._results.close()

    def finish_loggers(self) -> None:
        """Passes the trial's status to the loggers, and waits until they have finished."""
        self._loggers.finish(self.record.status)
