"""What the time of a fragment goes into: measured on the worker, when somebody asks for it."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

ENV_STEP = "env_step"
INFERENCE = "inference"
RECORDING = "recording"
POSTPROCESS = "postprocess"
SGD = "sgd"


@dataclass(frozen=True)
class FragmentTimes:
    """When a fragment was made, and what that took.

    Attributes:
        clock: Which machine's clock the moments are on; those on other clocks cannot be compared with them.
        began: When the worker began with it, in seconds on the clock of `time.perf_counter`.
        ended: When it was done, operators on the worker included.
        seconds: By phase; they add up to the time between the two.
    """

    clock: str
    began: float
    ended: float
    seconds: dict[str, float]

    def extended(self, sgd_s: float) -> FragmentTimes:
        """Returns the times of a fragment that operators on the worker have worked on until now.

        Args:
            sgd_s: Seconds of that in which they learned; the rest is postprocessing.
        """
        now = time.perf_counter()
        seconds = dict(self.seconds)
        seconds[POSTPROCESS] += now - self.ended - sgd_s
        if sgd_s:
            seconds[SGD] = sgd_s
        return dataclasses.replace(self, ended=now, seconds=seconds)


class Timed(Protocol):
    """Gives for a function the function to call instead, whose calls may be measured."""

    def __call__(self, phase: str, function: Callable[P, R], /) -> Callable[P, R]:
        """Returns the function whose calls count into a phase."""
        ...


def untimed(phase: str, function: Callable[P, R], /) -> Callable[P, R]:
    """Returns the function itself: nobody measures."""
    return function


class PhaseClock:
    """Adds up what calls take while one fragment is recorded, which begins now.

    A call that is timed costs about 0.2 us more; a worker that is not asked for times makes no clock.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds = {ENV_STEP: 0.0, INFERENCE: 0.0}

    def timed(self, phase: str, function: Callable[P, R], /) -> Callable[P, R]:
        """Returns the same function, whose calls count into a phase."""
        seconds, now = self._seconds, time.perf_counter

        def call(*arguments: P.args, **named: P.kwargs) -> R:
            began = now()
            returned = function(*arguments, **named)
            seconds[phase] += now() - began
            return returned

        return call

    def times(self, recorded: float) -> FragmentTimes:
        """Returns the times of the fragment, which is done now.

        Args:
            recorded: When its last step was recorded; what came after that is postprocessing.
        """
        ended = time.perf_counter()
        rest = recorded - self._began - sum(self._seconds.values())
        seconds = {**self._seconds, RECORDING: rest, POSTPROCESS: ended - recorded}
        return FragmentTimes(machine_clock(), self._began, ended, seconds)


@cache
def machine_clock() -> str:
    """Names the clock of this machine: the processes that find the same name can compare their moments."""
    boot = Path("/proc/sys/kernel/random/boot_id")  # the monotonic clock of Linux begins with it
    try:
        return boot.read_text().strip()
    except OSError:
        return platform.node()
