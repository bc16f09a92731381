"""Progress messages from inside slow training iterations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlrun.experiments.trial.trial_loop import TrialLoop

SLOW_ITERATION_S = 10.0
"""Seconds after which a slow iteration reports its progress, and seconds between further reports."""

PROGRESS_FILE = ".progress"
"""Name of the file in a trial's directory that holds the last progress message of a trial in another process."""


@contextmanager
def slow_iterations_noted(
    loop: TrialLoop, note: Callable[[str], None], every_s: float = SLOW_ITERATION_S
) -> Iterator[None]:
    """Context manager that reports the progress of slow iterations from a separate thread.

    Args:
        loop: The trial's training loop.
        note: Function that is called with each progress message.
        every_s: Seconds between two messages; an iteration that takes less time sends none.
    """
    ended = threading.Event()

    def watch() -> None:
        seen = loop.training.iteration
        while not ended.wait(every_s):
            if (iteration := loop.training.iteration) == seen:
                note(progress_text(loop))
            seen = iteration

    thread = threading.Thread(target=watch, name="slow iterations", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def progress_text(loop: TrialLoop) -> str:
    """Message about progress within a trial's current iteration, such as its env steps and minibatches so far."""
    running = loop.training.running
    if running.iteration > loop.last_result.get("iteration", 0):
        return f"iteration {running.iteration}: evaluating"
    sgd_steps = sum(trainee.learner.sgd_steps for trainee in running.trainees)
    env_steps = running.workers.counts.env_steps
    return f"iteration {running.iteration + 1}: {env_steps:,} env steps and {sgd_steps:,} SGD steps in total so far"


class ProgressMessages:
    """Reader with which the driver reads the progress messages of trials in other processes.

    Args:
        run: The run's directory.
        every_s: Minimum number of seconds between two messages, no matter how many trials there are.
    """

    def __init__(self, run: Path, every_s: float = SLOW_ITERATION_S) -> None:
        self._run = run
        self._every_s = every_s
        self._last: dict[str, str] = {}
        self._read_at = -every_s

    def forget(self, trial: str) -> None:
        """Marks a trial's message as read, because a newer result exists or the process that wrote it has ended.

        Args:
            trial: Name of the trial.
        """
        self._last[trial] = self._message(trial)

    def new(self, running: Sequence[str]) -> dict[str, str]:
        """Returns `{trial: message}` for the first trial with a new message; {} if there is none.

        Args:
            running: Names of the running trials.
        """
        if time.monotonic() - self._read_at < self._every_s:
            return {}
        for trial in running:
            message = self._message(trial)
            if message and message != self._last.get(trial):
                self._last[trial], self._read_at = message, time.monotonic()
                return {trial: message}
        return {}

    def _message(self, trial: str) -> str:
        with suppress(FileNotFoundError):
            return (self._run / trial / PROGRESS_FILE).read_text()
        return ""
