"""A run that is killed and interrupted at random moments, and resumed until it is complete."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from run_until_signal import descendants

from rlrun.experiments.runs.run_directory import RUN_FILE, RunDirectory

ROOT = Path(__file__).resolve().parents[2]
END_TIMEOUT_S = 600.0
LIVES = 40
"""Number of resumes after which an incomplete run counts as failed."""


class DisturbedRun:
    """Runs a spec in separate processes, and kills or interrupts them.

    Attributes:
        log: What was done to the run, and how its processes ended, for debugging.
    """

    def __init__(self, spec: Path, folder: Path, seed: str) -> None:
        self.log: list[str] = []
        self._spec = spec
        self._folder = folder
        self._random = random.Random(seed)
        self._acts: dict[str, Callable[[subprocess.Popen[str]], None]] = {
            "kill the driver": lambda process: kill([process.pid]),
            "kill everything": lambda process: kill(reversed(descendants(process.pid))),
            "kill a trial": self._kill_a_trial,
            "Ctrl-C": lambda process: os.killpg(process.pid, signal.SIGINT),
            "Ctrl-C twice": self._interrupt_twice,
            "SIGTERM": lambda process: os.kill(process.pid, signal.SIGTERM),
        }

    def until_complete(self, disturbances: int, within_s: float) -> RunDirectory:
        """Starts the run, disturbs it several times, then lets it end.

        Args:
            disturbances: Number of disturbances.
            within_s: A disturbance comes within this number of seconds after the start of a process.
        """
        for _ in range(LIVES):
            process = self._start()
            if disturbances:
                disturbances -= 1
                self._disturb(process, self._random.uniform(0, within_s))
            code = process.wait(timeout=END_TIMEOUT_S)
            self.log.append(f"  ended with exit code {code}")
            self._check_words(code)
            run = self.run
            if run is not None and not run.unfinished(retry_failed=True):
                return run
        raise AssertionError(f"never complete:\n{self}")

    @property
    def run(self) -> RunDirectory | None:
        """The run in its current state, None before its directory is complete."""
        found = sorted(self._folder.glob(f"*/{RUN_FILE}"))
        return RunDirectory.open(found[-1].parent) if found else None

    def __str__(self) -> str:
        return "\n".join([*self.log, *(f"--- {path.name}\n{path.read_text()}" for path in self._outputs()[-2:])])

    def _start(self) -> subprocess.Popen[str]:
        run = self.run
        verb = ["train", "-f", str(self._spec)] if run is None else ["resume", str(run.path), "--retry-failed"]
        command = [sys.executable, "-m", "rlrun", *verb, "--runs-dir", str(self._folder), "--executor", "ray"]
        self.log.append(" ".join(command[2:5]))
        with (self._folder.parent / f"output-{len(self._outputs()):03}").open("w") as output:
            return subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    def _disturb(self, process: subprocess.Popen[str], after_s: float) -> None:
        """Disturbs a process after some seconds, unless it has ended by then."""
        act = self._random.choice(list(self._acts))
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=after_s)
            self.log.append(f"  {act} would have come too late")
            return
        self.log.append(f"  {act} after {after_s:.1f} s, at iterations {self._iterations()}")
        self._acts[act](process)

    def _kill_a_trial(self, process: subprocess.Popen[str]) -> None:
        """Kills the process of one of the running trials, if there is one; the run goes on."""
        run = self.run
        if run is None:
            return
        records = [run.record(name) for name in run.table.trials]
        alive = descendants(process.pid)
        if pids := [record.pid for record in records if record.status == "RUNNING" and record.pid in alive]:
            kill([self._random.choice(pids)])

    def _interrupt_twice(self, process: subprocess.Popen[str]) -> None:
        for _ in range(2):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            time.sleep(self._random.uniform(0.1, 1.5))

    def _iterations(self) -> list[int]:
        run = self.run
        return [] if run is None else [run.record(name).iteration for name in run.table.trials]

    def _outputs(self) -> list[Path]:
        return sorted(self._folder.parent.glob("output-*"))

    def _check_words(self, code: int) -> None:
        """Checks that a process that was not killed ends with a message, not with a traceback of rlrun."""
        text = self._outputs()[-1].read_text()
        if code >= 0:
            assert "Traceback" not in text, f"{self}"


def kill(pids: Sequence[int] | reversed[int]) -> None:
    """Kills processes at once."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
