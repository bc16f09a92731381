"""What the time of a fragment goes into, as its worker measures it."""

from __future__ import annotations

import dataclasses
import platform
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ENV_STEP = "env_step"
INFERENCE = "inference"
RECORDING = "recording"
POSTPROCESS = "postprocess"
SGD = "sgd"


@dataclass(slots=True)  # not frozen: a frozen one takes three times as long to make, once for each fragment
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


@cache
def machine_clock() -> str:
    """Names the clock of this machine: the processes that find the same name can compare their moments."""
    boot = Path("/proc/sys/kernel/random/boot_id")  # the monotonic clock of Linux begins with it
    try:
        return boot.read_text().strip()
    except OSError:
        return platform.node()
