"""Local executor: runs trials in this process, one after the other."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from rlrun.engine.messages.errors import DiskFull
from rlrun.experiments.runs.active_run import ActiveRun
from rlrun.experiments.runs.events import TrialEvent
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.trial_loop import TrialLoop


def run_locally(run: ActiveRun) -> None:
    """Runs the trials of a run in this process; a failed trial does not stop the others.

    Args:
        run: The run. After an interrupt, trials that have not started stay PENDING.
    """
    for trial in run.trials:
        if run.interrupts.received:
            return
        run.tell(TrialEvent(trial.name, "RUNNING", place=f"{platform.node()}:{os.getpid()}"))
        try:
            _run_with_restarts(run, trial)
        except Exception as error:
            run.failed(trial.name, error)
        else:
            run.ended(trial.name)


def _run_with_restarts(run: ActiveRun, trial: TrialSpec) -> None:
    for restart in range(1, trial.max_restarts + 1):
        try:
            _run_trial(run, trial, resume=run.resumed or restart > 1)
        except DiskFull:
            raise
        except Exception as error:
            run.restarts(trial.name, restart, trial.max_restarts, error)
        else:
            return
    _run_trial(run, trial, resume=run.resumed or trial.max_restarts > 0)


def _run_trial(run: ActiveRun, trial: TrialSpec, *, resume: bool) -> None:
    start = run.directory.record(trial.name).from_checkpoint
    loop = TrialLoop(
        trial,
        run.directory.path / trial.name,
        resume=resume,
        from_checkpoint=None if start is None else Path(start),
        eager=run.eager,
        announce=lambda text: run.note(trial.name, text),
    )
    with loop:
        if loop.resumption is not None:
            run.note(trial.name, loop.resumption.message)
        try:
            while not loop.done and not run.interrupts.received:
                run.iterated(trial.name, loop.step())
        except KeyboardInterrupt:
            loop.interrupt()
            raise
        if not loop.done:
            run.stopping()
            loop.interrupt()
