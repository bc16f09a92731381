"""Timing of short training runs of a trial with different numbers of workers and envs, learning included."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.processes.process_end import end_process
from rlrun.experiments.cluster.growth import NodeWait
from rlrun.experiments.cluster.ray_session import RaySession, belongs_to_ray
from rlrun.experiments.runs.driver_log import DriverLog
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.altered_process import require_elapsed
from rlrun.experiments.trial.trial_training import training_of
from rlrun.experiments.trial.user_code import user_code_explained

BUDGET_S = 60.0
"""Seconds after which no further setting is timed."""

WINDOWS = 3
"""Number of timing windows per setting."""

WINDOW_S = 0.8
"""Minimum length of a timing window in seconds; a window ends with an iteration."""

NEAR = 0.1
"""Fraction by which a speed may be below the highest speed and still count as equal to it."""


@dataclass(frozen=True)
class Timing:
    """Measured training speed for one combination of worker and env counts.

    Attributes:
        num_workers: Number of rollout workers.
        num_envs_per_worker: Number of envs of each rollout worker.
        windows: Env steps per second in each time window of the measurement, learning included.
    """

    num_workers: int
    num_envs_per_worker: int
    windows: tuple[float, ...]

    @property
    def env_steps_per_s(self) -> float:
        """Median training speed over the measured windows, in env steps per second."""
        return median(self.windows)

    @property
    def settings(self) -> str:
        """Formats the numbers of workers and envs for messages."""
        return f"num_workers {self.num_workers}, num_envs_per_worker {self.num_envs_per_worker}"


def chosen(timings: Sequence[Timing]) -> Timing:
    """Chooses the smallest of the timed settings whose speed is nearly equal to the highest speed.

    Timings are noisy, so a setting counts as equally fast if its fastest window is at most 10% below the highest speed.
    Of these settings, the one with the fewest workers is chosen, then the one with the fewest envs.

    Args:
        timings: The measured settings.

    Examples:
        >>> chosen([Timing(0, 8, (95, 93, 94)), Timing(1, 8, (100, 99, 101))]).num_workers
        0
        >>> chosen([Timing(0, 8, (60, 50, 40)), Timing(1, 8, (100, 99, 101))]).num_workers
        1
    """
    fastest = max(timings, key=lambda timing: timing.env_steps_per_s)
    equal = [timing for timing in timings if max(timing.windows) >= (1 - NEAR) * fastest.env_steps_per_s]
    return min(equal, key=lambda timing: (timing.num_workers, timing.num_envs_per_worker))


def time_settings(trial: TrialSpec, settings: Sequence[tuple[int, int]]) -> Iterator[Timing]:
    """Yields the training speed with each setting, in the given order, until the time budget is used up.

    At least the first setting is timed.

    Once a setting needs Ray, all further output of this process is discarded.

    Args:
        trial: The trial.
        settings: Pairs (num_workers, num_envs_per_worker).

    Raises:
        TrainingFailed: The user's code raised an exception.
    """
    trials = [
        trial.replace(config=trial.config.replace(num_workers=workers, num_envs_per_worker=envs))
        for workers, envs in settings
    ]
    start = time.monotonic()
    with ExitStack() as stack:
        for number, changed in enumerate(trials):
            if number and time.monotonic() - start > BUDGET_S:
                return
            if changed.needs_ray and not belongs_to_ray():
                stack.enter_context(quiet(RaySession(trials)))
            windows = tuple(_windows(changed))
            yield Timing(changed.config.num_workers, changed.config.num_envs_per_worker, windows)


@contextmanager
def quiet(ray: RaySession, report: Callable[[NodeWait], object] = lambda wait: None) -> Iterator[None]:
    """Context manager that starts Ray and discards all output of the process until the end of the block.

    Args:
        ray: The Ray session to start.
        report: Function called with each report on a wait for nodes; what it prints is not discarded.
    """
    with DriverLog() as log, ray:
        log.send_to(Path(os.devnull))

        def lost(failure: RlrunError) -> None:
            with log.printing_to_terminal():
                print(f"Error: {failure}", file=sys.stderr, flush=True)
            end_process(failure)

        def shown(wait: NodeWait) -> None:
            with log.printing_to_terminal():
                report(wait)

        ray.start(lambda _: None, lost)
        ray.wait_for_nodes(shown)
        yield


def _windows(trial: TrialSpec) -> Iterator[float]:
    """Yields the env steps per second of short windows of training, without the first iteration."""
    with user_code_explained(*map(type, trial.learns.algorithms.values())), training_of(trial) as training:
        last = training.step()
        for _ in range(WINDOWS):
            start, before = time.perf_counter(), last["env_steps"]
            last, seconds = training.step(), time.perf_counter() - start
            require_elapsed(seconds)
            while seconds < WINDOW_S:
                last, seconds = training.step(), time.perf_counter() - start
            yield (last["env_steps"] - before) / seconds
