"""Time profile of the collection of a fragment: seconds of env steps, inference, recording, hooks and SGD."""

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
HOOKS = "hooks"
SGD = "sgd"
QUEUE = "queue"
ROUND_TRIP = "round_trip"


@dataclass(slots=True)  # created for each fragment; a frozen instance would take three times as long
class FragmentTimes:
    """Time profile of one fragment's collection: start, end, and seconds spent on each part.

    Attributes:
        clock: Identifier of the machine's clock; times on different clocks cannot be compared.
        began: Start of the collection, in seconds on the clock of `time.perf_counter`.
        ended: End of the collection, including postprocessing on the worker.
        seconds: Seconds by activity, such as stepping envs; they sum to the time between `began` and `ended`.
    """

    clock: str
    began: float
    ended: float
    seconds: dict[str, float]

    def extended(self, sgd_s: float) -> FragmentTimes:
        """Returns a copy of this profile that ends now; the added time counts as SGD and postprocessing.

        Args:
            sgd_s: Seconds of SGD since the previous end; the rest was postprocessing.
        """
        now = time.perf_counter()
        seconds = dict(self.seconds)
        seconds[POSTPROCESS] += now - self.ended - sgd_s
        if sgd_s:
            seconds[SGD] = sgd_s
        return dataclasses.replace(self, ended=now, seconds=seconds)


@cache
def machine_clock() -> str:
    """Returns an identifier of this machine's clock; processes with equal identifiers can compare time stamps."""
    boot = Path("/proc/sys/kernel/random/boot_id")  # Linux's monotonic clock starts at each boot
    try:
        return boot.read_text().strip()
    except OSError:
        return platform.node()
