"""A job that Slurm requeues repeatedly, in every way that Slurm has, ends as if nothing had happened.

The moments are drawn uniformly over the iterations of the undisturbed run, from a fixed seed. The ways take turns.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from jobs import ROOT, Jobs, numbers, output

from rlrun.experiments.runs.run_directory import RunDirectory

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(4 * 3600)]

SEED = "slurm 1"
ITERATIONS = 200
CHECKPOINT_EVERY = 15
SPEC = f"""\
job:
  algorithm: ppo
  env: CartPole-v1
  seeds: 2
  stop: {{iteration: {ITERATIONS}}}
  checkpoint: {{every: {CHECKPOINT_EVERY}}}
  evaluation: {{every: 50, episodes: 2}}
  config: {{num_envs_per_worker: 4, train_batch_size: 8192, minibatch_size: 512, num_epochs: 4}}
"""


class Interruptions:
    """Interrupts a job in several ways, and waits each time until Slurm has requeued it.

    Attributes:
        table: A row for each interruption: way, drawn iteration, rows of the trials, next node.
    """

    def __init__(self, jobs: Jobs, job: str, run: Path, folder: Path) -> None:
        self._jobs = jobs
        self._lab = jobs.lab
        self._job = job
        self._run = run
        self._folder = folder
        self.table: list[str] = []
        self._ways: dict[str, Callable[[], None]] = {
            "time limit": self._time_limit,
            "USR1": lambda: self._tell("scancel", "--batch", "--signal=USR1", job),
            "scontrol requeue": lambda: self._tell("scontrol", "requeue", job),
            "node down": self._node_down,
            "kill -9 of the step": self._kill_step,
            "kill -9 of rlrun": self._kill_driver,
        }

    def interrupt(self, way: str, iteration: int) -> None:
        """Interrupts the job once its trials have reached an iteration, and waits until it runs again."""
        self._jobs.wait(lambda: min(self._iterations(), default=0) >= iteration, self.__str__)
        before, restarts = self._iterations(), self._restarts()
        self._ways[way]()
        self._jobs.wait(lambda: self._restarts() > restarts, self.__str__)
        for node, state in self._lab.states().items():
            if state.startswith("down"):
                self._lab.start_node(node)
        self._jobs.wait(lambda: self._jobs.state(self._job) == "RUNNING", self.__str__)
        row = f"{len(self.table) + 1:2} {way:20} drawn {iteration:3}, at {before}, node {self._node()} next"
        self.table.append(row)
        print(row, flush=True)

    def lose_other_node(self, iteration: int) -> None:
        """Kills a node on which only Ray runs, once the trials have reached an iteration."""
        self._jobs.wait(lambda: min(self._iterations(), default=0) >= iteration, self.__str__)
        others = [node for node, state in self._lab.states().items() if state == "alloc" and node != self._node()]
        self._lab.kill_node(others[0])

    def __str__(self) -> str:
        state = self._lab.command("scontrol", "show", "job", self._job)
        return "\n".join([*self.table, state, output(self._folder)])

    def _iterations(self) -> list[int]:
        """Rows of each trial; its record counts iterations only at checkpoints."""
        return [len(file.read_bytes().splitlines()) for file in sorted(self._run.glob("*/result.json"))]

    def _restarts(self) -> int:
        return int(self._jobs.field(self._job, "Restarts"))

    def _node(self) -> str:
        return self._jobs.field(self._job, "BatchHost")

    def _tell(self, program: str, *arguments: str) -> None:
        self._lab.command(program, *arguments)

    def _time_limit(self) -> None:
        """Moves the time limit so close that Slurm sends the recipe's signal."""
        restarts = self._restarts()
        hours, minutes, _ = map(int, self._jobs.field(self._job, "RunTime").split(":"))
        self._tell("scontrol", "update", f"JobId={self._job}", f"TimeLimit={hours * 60 + minutes + 2}")
        self._jobs.wait(lambda: self._restarts() > restarts, self.__str__)
        self._tell("scontrol", "update", f"JobId={self._job}", "TimeLimit=240")

    def _node_down(self) -> None:
        self._lab.kill_node(self._node())

    def _kill_step(self) -> None:
        """Kills everything of the job, but not the node's slurmd, and requeues the job once Slurm has noticed."""
        node = self._node()
        for pid in reversed(self._lab.processes(node)):
            if pid != self._lab.daemon(node):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._requeue_if_failed()

    def _kill_driver(self) -> None:
        """Kills the command, and requeues the job, which Slurm ends as failed."""
        for pid in self._lab.processes(self._node()):
            with suppress(OSError):
                if b"\0rlrun\0train\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        self._requeue_if_failed()

    def _requeue_if_failed(self) -> None:
        """Waits until Slurm has requeued the job, or has ended it as failed: then requeues it, as a user would."""
        restarts = self._restarts()
        self._jobs.wait(
            lambda: self._restarts() > restarts or self._jobs.state(self._job) in ("FAILED", "NODE_FAIL"), self.__str__
        )
        if self._restarts() == restarts:
            self._tell("scontrol", "requeue", self._job)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("spec") / "job.yaml"
    file.write_text(SPEC)
    return file


@pytest.fixture(scope="module")
def calm(spec: Path) -> Path:
    """The undisturbed run, without Slurm."""
    runs = spec.parent / "runs"
    command = [sys.executable, "-m", "rlrun", "train", str(spec), "--runs-dir", str(runs)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    return runs / "job"


@pytest.mark.parametrize(
    ("recipe", "ways"),
    [
        (
            "requeue",
            2 * ["time limit", "USR1", "scontrol requeue", "node down", "kill -9 of the step", "kill -9 of rlrun"],
        ),
        ("several_nodes", ["USR1", "node down"]),
    ],
    ids=["one node", "several nodes"],
)
def test_a_job_interrupted_in_every_possible_way_matches_an_undisturbed_run(
    recipe: str, ways: list[str], jobs: Jobs, spec: Path, calm: Path, tmp_path: Path
) -> None:
    run = tmp_path / "runs/job"
    job = jobs.submit(f"{recipe}.sbatch", [spec, "--runs-dir", run.parent], tmp_path)
    interruptions = Interruptions(jobs, job, run, tmp_path)
    chance = random.Random(SEED)
    moments = sorted(chance.randrange(1, ITERATIONS) for _ in ways)
    for way, moment in zip(chance.sample(ways, len(ways)), moments, strict=True):
        interruptions.interrupt(way, moment)
    told = jobs.end(job, tmp_path)
    assert told.startswith("COMPLETED 0:0"), str(interruptions)
    assert numbers(run) == numbers(calm), str(interruptions)
    assert all(trial.status == "TERMINATED" for trial in RunDirectory.open(run).results())


def test_a_multi_node_job_that_loses_a_node_matches_an_undisturbed_run(
    jobs: Jobs, spec: Path, calm: Path, tmp_path: Path
) -> None:
    run = tmp_path / "runs/job"
    words = [spec, "--runs-dir", run.parent, "--set", "failure.max_restarts=3"]
    job = jobs.submit("several_nodes.sbatch", words, tmp_path)
    interruptions = Interruptions(jobs, job, run, tmp_path)
    interruptions.lose_other_node(20)  # trials move to the other node, until Slurm notices and requeues the job
    told = jobs.end(job, tmp_path)
    assert told.startswith("COMPLETED 0:0"), str(interruptions)
    assert numbers(run) == numbers(calm), str(interruptions)
