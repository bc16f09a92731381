"""Jobs that tests submit to a Slurm on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.trial.results import read_results
from scripts.slurm_lab import SlurmLab
from tests.results import all_numbers

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "examples" / "slurm"

PATIENCE_S = 900.0
"""Timeout in seconds for anything on a busy machine."""

UNFINISHED = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED"}


class Jobs:
    """Submits jobs to a lab, and reads their results.

    Args:
        lab: The lab.
        programs: Folder of the commands rlrun and ray for jobs, those of this Python.
    """

    def __init__(self, lab: SlurmLab, programs: Path) -> None:
        self.lab = lab
        self._programs = programs

    def submit(
        self, recipe: str, arguments: Sequence[object], folder: Path, options: Sequence[str] = (), **environment: str
    ) -> str:
        """Submits a recipe in its folder, with a job's output in `folder`, and returns the job's id.

        Args:
            recipe: File in `examples/slurm`.
            arguments: Arguments of the recipe.
            folder: Folder for the output.
            options: Options of sbatch.
            environment: Environment variables of the job.
        """
        command = ["sbatch", "--parsable", f"--output={folder}/%A_%a.log", *options, recipe, *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=RECIPES,
            env={
                **self.lab.environment,
                "PATH": f"{self._programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                **environment,
            },
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def field(self, job: str, name: str) -> str:
        """Returns a field of a job, such as JobState, from `scontrol show job`; for an array, all distinct values."""
        words = self.lab.command("scontrol", "--oneliner", "show", "job", job).split()
        return ",".join(sorted({word.partition("=")[2] for word in words if word.startswith(f"{name}=")}))

    def state(self, job: str) -> str:
        """Returns a job's state, such as "RUNNING"."""
        return self.field(job, "JobState")

    def wait(self, condition: Callable[[], bool], what: Callable[[], object]) -> None:
        """Waits until a condition is true."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, what()
            time.sleep(0.2)

    def end(self, job: str, folder: Path) -> str:
        """Waits until a job has ended, and returns its state, exit code and output."""
        self.wait(
            lambda: not UNFINISHED & {*self.state(job).split(",")}, lambda: f"{self.state(job)}\n{output(folder)}"
        )
        return f"{self.state(job)} {self.field(job, 'ExitCode')}\n{output(folder)}"


def output(folder: Path) -> str:
    """Returns what jobs have printed."""
    return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(folder.glob("*.log")))


def numbers(run: Path) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of all trials of a run, without times."""
    opened = RunDirectory.open(run)
    return {name: all_numbers(read_results(run / name)) for name in opened.table.trials}
