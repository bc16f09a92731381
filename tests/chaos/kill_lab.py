"""Kills processes of runs on a cluster of three nodes, at moments drawn from a seed, and compares the rows.

Each run of a spec in `killed/` takes a share of the kills. Moments are drawn uniformly over the time of the undisturbed
run, and translated into its number of rows at that time, since a disturbed run takes longer. One kill of each kind
comes while a checkpoint is being written, and one while the run recovers from another kill.

A cluster without its GCS, or without the raylet of the driver's machine, is lost. The driver must then end with a
message that contains a command, which the lab runs: on a new cluster if kills are left, otherwise unchanged, on this
machine alone. A driver that has not yet joined says that there is no cluster; the same command then uses the new one.

    PYTHONPATH=.:tests/integration python tests/chaos/kill_lab.py --kills 100 --seed 0 --table kills.md
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import disturbed_run
from cluster_nodes import Nodes, driving
from run_until_signal import descendants

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.run_directory import RUN_FILE, RunDirectory
from rlrun.experiments.runs.run_lock import drivers_of
from rlrun.experiments.search.lineage import read_generations
from rlrun.experiments.trial.results import RESULT_FILE, read_results
from tests.results import all_numbers

ROOT = Path(__file__).resolve().parents[2]
SPECS = Path(__file__).with_name("killed")
SHELLS = {"chain": "rollout worker", "learners": "learner"}
"""Kinds of processes in addition to trials, by spec."""

Started = TypeVar("Started")

KINDS = {
    "population": ("driver", "raylet", "trial", "GCS", "head raylet"),
    "chain": ("driver", "raylet", "trial", "rollout worker", "GCS", "head raylet"),
    "learners": ("trial", "learner", "raylet"),
}
FATAL = ("GCS", "head raylet")
"""Kinds of processes that a cluster cannot survive; the command that the run prints continues it elsewhere."""

NO_CLUSTER = "no Ray cluster at the address"
"""Message of a driver that found no cluster."""

KILLS_PER_RUN = 8
STARTS = 8
TIMES = "times.json"
OUTCOME = "outcome.json"
PATIENCE_S = 900.0
RECOVERY_S = 4.0
"""Maximum number of seconds between a kill and the next one, while the run recovers."""


@dataclass
class Kill:
    """One kill.

    Attributes:
        kind: Kind of the process.
        moment: "uniform", "checkpoint" or "recovery".
        share: When it happens, as a share of the undisturbed run's time.
        note: What happened; "" if the run had already ended, or its cluster did not start.
        is_in_write: Whether a checkpoint was being written, even if the kill did not wait for that.
    """

    kind: str
    moment: str
    share: float
    note: str = ""
    is_in_write: bool = False


@dataclass
class Attempt:
    """A run of a spec with some kills, and its outcome.

    Attributes:
        spec: Name of the spec.
        kills: The kills, in order.
        is_equal: Whether it ended with the rows of the undisturbed run.
        seconds: How long it took.
        problem: Why not, or "".
    """

    spec: str
    kills: list[Kill]
    is_equal: bool = False
    seconds: float = 0.0
    problem: str = ""
    log: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Calm:
    """An undisturbed run: its rows by run and trial, and the times at which its rows came."""

    rows: dict[str, Any]
    times: list[float]


def plan(number: int, seed: int) -> list[Attempt]:
    """Draws the same number of kills of each kind, and distributes them among runs."""
    chance = random.Random(seed)
    kinds = list(dict.fromkeys(kind for kinds in KINDS.values() for kind in kinds))
    drawn: dict[str, list[Kill]] = {spec: [] for spec in KINDS}
    for place, kind in enumerate(kinds):
        specs = [spec for spec in KINDS if kind in KINDS[spec]]
        moments = ["checkpoint", "recovery", *["uniform"] * number][: len(range(place, number, len(kinds)))]
        for moment in moments:
            drawn[chance.choice(specs)].append(Kill(kind, moment, chance.random()))
    attempts: list[Attempt] = []
    for spec, kills in drawn.items():
        chance.shuffle(kills)
        kills.sort(key=lambda kill: kill.moment == "recovery")
        runs = ceil(len(kills) / KILLS_PER_RUN)
        attempts += [Attempt(spec, _in_order(kills[run::runs], chance)) for run in range(runs)]
    chance.shuffle(attempts)
    return attempts


def _in_order(kills: Sequence[Kill], chance: random.Random) -> list[Kill]:
    """Returns the kills of a run in order: by their moments, and kills during a recovery after any other kill."""
    ordered = sorted((kill for kill in kills if kill.moment != "recovery"), key=lambda kill: kill.share)
    for kill in kills:
        if kill.moment == "recovery":
            ordered.insert(chance.randint(min(1, len(ordered)), len(ordered)), kill)
    return ordered


def rows_of(runs: Path) -> dict[str, Any]:
    """Returns the rows of all runs in a folder, and the lineage of populations.

    Timing metrics and the count of lost workers are left out.
    """
    found: dict[str, Any] = {}
    for file in sorted(runs.glob(f"*/{RUN_FILE}")):
        run = RunDirectory.open(file.parent)
        for name in run.table.trials:
            rows = all_numbers(read_results(run.path / name))
            found[f"{run.path.name}/{name}"] = [
                {metric: value for metric, value in row.items() if metric != "worker_restarts"} for row in rows
            ]
        generations = sorted(read_generations(run.path), key=lambda each: (each.population, each.generation))
        found[f"{run.path.name} lineage"] = generations
    return found


def count_rows(runs: Path) -> int:
    total = 0
    for file in runs.glob(f"*/*/{RESULT_FILE}"):
        with suppress(FileNotFoundError):
            total += file.read_bytes().count(b"\n")
    return total


def patiently(start: Callable[[], Started], clear: Callable[[], object] = lambda: None) -> Started:
    """Starts nodes, up to `STARTS` times if a busy machine takes longer than Ray's limits of 15 s and 30 s.

    Args:
        start: Starts the nodes.
        clear: Ends what a start that was too slow has left.
    """
    for left in range(STARTS - 1, -1, -1):
        try:
            return start()
        except Exception as error:  # Ray has no exception class for this
            if "timed out during startup" not in str(error) or not left:
                raise
            clear()
    raise AssertionError


def start_nodes(folder: Path) -> Nodes:
    """Starts a cluster, while this process runs nothing else."""
    return patiently(lambda: Nodes(folder, is_bare=True), lambda: disturbed_run.kill(descendants(os.getpid())[:0:-1]))


def begin(spec: str, folder: Path, place: Sequence[str]) -> list[str]:
    return ["train", str(SPECS / f"{spec}.yaml"), "--runs-dir", str(folder / "runs"), *place]


def undisturbed(spec: str, folder: Path) -> Calm:
    """Runs a spec on the cluster without kills, unless an earlier call has done so in the folder."""
    if (folder / TIMES).exists():
        return Calm(rows_of(folder / "runs"), json.loads((folder / TIMES).read_text()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    nodes = start_nodes(folder)
    times: list[float] = []
    try:
        with driving(begin(spec, folder, ["--address", nodes.address]), folder) as driver:
            began = time.monotonic()
            while driver.poll() is None:
                rows = count_rows(folder / "runs")
                times += [time.monotonic() - began] * (rows - len(times))
                time.sleep(0.2)
        assert driver.returncode == 0, (folder / "output").read_text()
    finally:
        nodes.close()
    (folder / TIMES).write_text(json.dumps(times))
    return Calm(rows_of(folder / "runs"), times)


class Disturbance:
    """A run on a cluster, some of whose processes are killed.

    Args:
        attempt: The run's kills.
        calm: The undisturbed run.
        folder: Folder of the run and of the nodes' own files.
    """

    def __init__(self, attempt: Attempt, calm: Calm, folder: Path) -> None:
        self.attempt = attempt
        self.calm = calm
        self.folder = folder
        self.runs = folder / "runs"
        self.clusters = 0
        self.left = list(attempt.kills)
        self.most_rows = 0
        self.began = time.monotonic()
        self._start_cluster()

    def run(self) -> None:
        """Does all kills, and compares the rows at the end."""
        commands = [begin(self.attempt.spec, self.folder, ["--address", self.nodes.address])]
        try:
            while commands and not self.attempt.problem:
                commands = self._drive(commands)
            found = rows_of(self.runs)
            differing = [name for name in self.calm.rows if found.get(name) != self.calm.rows[name]]
            if differing and not self.attempt.problem:
                self.attempt.problem = f"rows differ: {differing}"
            self.attempt.is_equal = not differing and not self.attempt.problem
        finally:
            self.attempt.seconds = time.monotonic() - self.began
            self.nodes.close()

    def _start_cluster(self) -> None:
        """Starts a cluster whose nodes have disks of their own."""
        self.nodes = start_nodes(self.folder / f"cluster-{self.clusters}")
        self.clusters += 1
        self.alive = [1, 2]

    def _drive(self, commands: list[list[str]]) -> list[list[str]]:
        """Runs the first command until it ends, and kills processes meanwhile; returns the next commands to run."""
        with driving(commands[0], self.folder) as driver:
            is_lost = self._kill_some(driver)
            try:
                code = driver.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                code = None
        output = (self.folder / "output").read_text()
        (self.folder / "output").rename(self.folder / f"output-{time.monotonic():.0f}")
        if code == 0:
            return commands[1:]
        told = [line for line in output.splitlines() if "rlrun resume " in line]
        if is_lost and code == UsageError.exit_code and NO_CLUSTER in output and not told:  # the driver had not joined
            names = [commands[0][1]]
        elif is_lost and code and told:
            names = [words.split()[0].strip("`.;'") for words in told[-1].split("rlrun resume ")[1:]]
        else:
            self.attempt.problem = f"exit code {code}: {output[-600:]}"
            return []
        self.attempt.log.append(f"exit code {code}: {output.splitlines()[-1]}")
        self.nodes.close()
        place = []
        if self.left:
            self._start_cluster()
            place = ["--address", self.nodes.address]
        if commands[0][0] == "train" and not told:
            return [begin(self.attempt.spec, self.folder, place)]
        rest = [command[1] for command in commands[1:] if command[1] not in names]
        return [["resume", name, *place] for name in [*names, *rest]]

    def _kill_some(self, driver: subprocess.Popen[str]) -> bool:
        """Kills until the driver has ended or no kill is left; returns whether the cluster is lost."""
        began = time.monotonic()
        while self.left:
            kill = self.left[0]
            if kill.moment == "recovery":
                time.sleep(random.Random(kill.share).uniform(0, RECOVERY_S))
            else:
                seconds = kill.share * self.calm.times[-1]
                rows = bisect_left(self.calm.times, seconds)
                while driver.poll() is None and (
                    self._rows() < rows or (rows == 0 and time.monotonic() - began < seconds)
                ):
                    time.sleep(0.1)
            if kill.moment == "checkpoint":
                self._await_checkpoint_write(driver)
            at = f"{self._rows()} rows of {len(self.calm.times)}, after {time.monotonic() - self.began:.0f} s"
            if not self._kill(kill, driver):
                return False
            kill.note = f"{kill.note} at {at}"
            self.left.pop(0)
            if kill.kind in FATAL:
                return True
        return False

    def _rows(self) -> int:
        self.most_rows = max(self.most_rows, count_rows(self.runs))
        return self.most_rows

    def _await_checkpoint_write(self, driver: subprocess.Popen[str]) -> None:
        while driver.poll() is None and not self._is_writing_a_checkpoint():
            time.sleep(0.001)

    def _is_writing_a_checkpoint(self) -> bool:
        """Whether a checkpoint is being written, in the run's directory or on a node."""
        for folder in self.folder.rglob("checkpoints"):
            with suppress(FileNotFoundError):
                if any(name.endswith(".partial") for name in os.listdir(folder)):
                    return True
        return False

    def _kill(self, kill: Kill, driver: subprocess.Popen[str]) -> bool:
        """Kills a process of a kind as soon as there is one, and records which; returns whether there was one."""
        chance = random.Random(kill.share)
        deadline = time.monotonic() + PATIENCE_S
        while driver.poll() is None:
            if pids := self._pids(kill.kind):
                pid = chance.choice(sorted(pids))
                kill.is_in_write = self._is_writing_a_checkpoint()
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    kill.note = f"process {pid}"
                    if kill.kind == "raylet":
                        self._replace(pid)
                    return True
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {kill.kind} to kill")
            time.sleep(0.02)
        return False

    def _replace(self, raylet: int) -> None:
        """Adds a node to replace one that has lost its raylet."""
        number = next(number for number in self.alive if self.nodes.raylet(number) == raylet)
        self.nodes.kill(number)
        self.alive.remove(number)
        self.alive.append(patiently(self.nodes.add))

    def _pids(self, kind: str) -> list[int]:
        if kind == "driver":
            return [driver.pid for run in self.runs.glob("*") for driver in drivers_of(run)][:1]
        if kind == "GCS":
            return [self.nodes.gcs]
        if kind in ("head raylet", "raylet"):
            raylets = map(self.nodes.raylet, [0] if kind == "head raylet" else self.alive)
            return [pid for pid in raylets if pid is not None]
        if kind == "trial":
            records = []
            for run in self.runs.glob(f"*/{RUN_FILE}"):
                opened = RunDirectory.open(run.parent)
                records += [opened.record(name) for name in opened.table.trials]
            pids = [record.pid for record in records if record.status == "RUNNING" and record.pid]
            return [pid for pid in pids if self.nodes.of_process(pid) is not None]
        return self.nodes.pids("ActorShell")


def table(attempts: Sequence[Attempt]) -> str:
    """Returns the table for the docs: kind, kills, kills by moment, and kills in runs whose rows differ."""
    lines = [
        "| process | kills | during a checkpoint write | during a recovery | in runs with differing rows |",
        "|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(kind for kinds in KINDS.values() for kind in kinds):
        kills = [(kill, attempt) for attempt in attempts for kill in attempt.kills if kill.kind == kind and kill.note]
        writes = sum(kill.is_in_write for kill, _ in kills)
        recoveries = sum(kill.moment == "recovery" for kill, _ in kills)
        wrong = sum(not attempt.is_equal for _, attempt in kills)
        lines.append(f"| {kind} | {len(kills)} | {writes} | {recoveries} | {wrong} |")
    return "\n".join(lines)


def outcomes(folder: Path) -> list[Attempt]:
    """Returns the runs that have been made in a folder."""
    found = [json.loads(file.read_text()) for file in sorted(folder.glob(f"run-*/{OUTCOME}"))]
    return [Attempt(**{**values, "kills": [Kill(**kill) for kill in values["kills"]]}) for values in found]


def make(attempt: Attempt, calm: Calm, place: Path) -> None:
    """Makes one run with its kills, prints the outcome, and writes it into the run's folder."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        Disturbance(attempt, calm, place).run()
    except Exception as error:  # report a run that fails, and go on with the others
        attempt.problem = f"{type(error).__name__}: {error}"
    (place / OUTCOME).write_text(json.dumps(asdict(attempt)))
    print(f"{place.name} of {attempt.spec}, {attempt.seconds:.0f} s:")
    for kill in attempt.kills:
        moment = f"{kill.moment}, in a write" if kill.is_in_write else kill.moment
        print(f"  {kill.kind} ({moment}): {kill.note or 'not done'}")
    print(*attempt.log, "equal" if attempt.is_equal else f"WRONG: {attempt.problem}", sep="\n  ", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all kills, prints each run, and writes the table; returns the number of runs that ended differently."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--folder", type=Path, help="Keep runs there; those that are there are not repeated.")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="Make every Nth run only, the Kth first.")
    options = parser.parse_args(arguments)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64, "RAY_USAGE_STATS_ENABLED": "0"}
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kills-"))
    folder.mkdir(exist_ok=True)
    part, parts = map(int, options.part.split("/"))
    for number, attempt in list(enumerate(plan(options.kills, options.seed)))[part::parts]:
        place = folder / f"run-{number:03}"
        if not (place / OUTCOME).exists():
            make(attempt, undisturbed(attempt.spec, folder / f"calm-{attempt.spec}"), place)
        if options.table is not None:
            options.table.write_text(table(outcomes(folder)) + "\n")
    return sum(not attempt.is_equal for attempt in outcomes(folder))


if __name__ == "__main__":
    sys.exit(main())
