"""Runs trials in this process, one after the other."""

from __future__ import annotations

import os
import platform

from rlrun.spec.experiment import TrialSpec
from rlrun.trial.trial_loop import TrialLoop
from rlrun.tune.active_run import ActiveRun
from rlrun.tune.events import RunStopping, TrialEvent


def run_locally(run: ActiveRun) -> None:
    """Runs the trials of a run here; one that fails does not keep the others from running.

    Args:
        run: The run; trials that the user's interrupt leaves out stay PENDING.
    """
    for trial in run.trials:
        if run.interrupts.received:
            return
        run.tell(TrialEvent(trial.name, "RUNNING", place=f"{platform.node()}:{os.getpid()}"))
        try:
            _run_trial(run, trial)
        except Exception as error:
            run.failed(trial.name, error)
        else:
            run.ended(trial.name)


def _run_trial(run: ActiveRun, trial: TrialSpec) -> None:
    loop = TrialLoop(
        trial,
        run.directory.path / trial.name,
        resume=run.resumed,
        from_checkpoint=run.from_checkpoint,
        eager=run.eager,
        announce=lambda text: run.note(trial.name, text),
    )
    with loop:
        if loop.resumption is not None:
            run.note(trial.name, loop.resumption.message)
        try:
            while not loop.done and not run.interrupts.received:
                run.tell(TrialEvent(trial.name, "RUNNING", loop.step()))
        except KeyboardInterrupt:
            loop.interrupt()
            raise
        if not loop.done:
            run.tell(RunStopping(run.interrupts.received))
            loop.interrupt()
