"""Kills processes of runs on a cluster of three nodes, at moments drawn from a seed, and compares the rows.

Each run of a spec in `killed/` takes a share of the kills. Moments are drawn uniformly over the time of the undisturbed
run, and translated into its number of rows at that time, since a disturbed run takes longer. One kill of each kind
comes while a checkpoint is being written, and one while the run recovers from another kill.

    PYTHONPATH=.:tests/integration python tests/chaos/kill_lab.py --kills 100 --seed 0 --table kills.md
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster_nodes import Nodes, driving

from rlrun.experiments.runs.run_directory import RUN_FILE, RunDirectory
from rlrun.experiments.runs.run_lock import drivers_of
from rlrun.experiments.search.lineage import read_generations
from rlrun.experiments.trial.results import RESULT_FILE, read_results
from tests.results import all_numbers

ROOT = Path(__file__).resolve().parents[2]
SPECS = Path(__file__).with_name("killed")
SHELLS = {"chain": "rollout worker", "learners": "learner"}
"""Kind of the processes besides trials, by spec."""

KINDS = {
    "population": ("driver", "raylet", "trial", "GCS"),
    "chain": ("driver", "raylet", "trial", "rollout worker", "GCS"),
    "learners": ("trial", "learner", "raylet"),
}
FATAL = ("GCS",)
"""Kinds of processes without which a cluster has ended: the command that the run prints continues it elsewhere."""

KILLS_PER_RUN = 4
PATIENCE_S = 900.0
RECOVERY_S = 4.0
"""Seconds after one kill in which the next comes, while the run recovers."""


@dataclass
class Kill:
    """One kill.

    Attributes:
        kind: Kind of the process.
        moment: "uniform", "checkpoint" or "recovery".
        share: Share of the undisturbed run's time after which it comes.
        note: Words on what happened.
    """

    kind: str
    moment: str
    share: float
    note: str = ""

    @property
    def has_happened(self) -> bool:
        """Whether there was a process to kill; not if the run had ended, or its cluster did not start."""
        return bool(self.note) and "too late" not in self.note


@dataclass
class Attempt:
    """A run of a spec with some kills, and its end.

    Attributes:
        spec: Name of the spec.
        kills: The kills, in order.
        is_equal: Whether it ended with the rows of the undisturbed run.
        seconds: How long it took.
        problem: Why it did not, "" if it did.
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
    """Draws kills, equally many of each kind, and distributes them among runs."""
    chance = random.Random(seed)
    kinds = list(dict.fromkeys(kind for kinds in KINDS.values() for kind in kinds))
    left = {kind: ["checkpoint", "recovery", *["uniform"] * number][: len(range(place, number, len(kinds)))]
            for place, kind in enumerate(kinds)}  # fmt: skip
    attempts: list[Attempt] = []
    while any(left.values()):
        spec = chance.choice([spec for spec, kinds in KINDS.items() if any(left[kind] for kind in kinds)])
        kills: list[Kill] = []
        while len(kills) < KILLS_PER_RUN and (open_kinds := [kind for kind in KINDS[spec] if left[kind]]):
            kind = max(open_kinds, key=lambda kind: (len(left[kind]), chance.random()))
            moments = left[kind]
            is_too_early = not kills and moments[0] == "recovery" and len(moments) > 1
            kills.append(Kill(kind, moments.pop(1 if is_too_early else 0), chance.random()))
            if kind in FATAL:
                break
        first = sorted((kill for kill in kills if kill.moment != "recovery"), key=lambda kill: kill.share)
        later = [kill for kill in kills if kill.moment == "recovery"]
        ordered = [*first[:1], *later, *first[1:]]
        attempts.append(Attempt(spec, sorted(ordered, key=lambda kill: kill.kind in FATAL)))
    return attempts


def rows_of(runs: Path) -> dict[str, Any]:
    """Returns the rows of all runs in a folder, and the lineage of populations.

    What the clock decides is left out, and so is the count of lost workers.
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


def begin(spec: str, nodes: Nodes, folder: Path) -> list[str]:
    command = ["train", str(SPECS / f"{spec}.yaml"), "--address", nodes.address]
    return [*command, "--runs-dir", str(folder / "runs")]


def undisturbed(spec: str, folder: Path) -> Calm:
    """Runs a spec on the cluster without a kill."""
    folder.mkdir(parents=True)
    nodes = Nodes(folder)
    times: list[float] = []
    try:
        with driving(begin(spec, nodes, folder), folder) as driver:
            began = time.monotonic()
            while driver.poll() is None:
                rows = count_rows(folder / "runs")
                times += [time.monotonic() - began] * (rows - len(times))
                time.sleep(0.2)
        assert driver.returncode == 0, (folder / "output").read_text()
    finally:
        nodes.close()
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
        self.nodes = Nodes(folder)
        self.alive = [1, 2]
        self.most_rows = 0

    def run(self) -> None:
        """Does all kills, and compares the rows at the end."""
        began = time.monotonic()
        try:
            with driving(begin(self.attempt.spec, self.nodes, self.folder), self.folder) as driver:
                try:
                    self._kill_all(driver)
                    code = driver.wait(timeout=PATIENCE_S)
                except subprocess.TimeoutExpired:
                    code = None
            output = (self.folder / "output").read_text()
            if any(kill.kind in FATAL and kill.has_happened for kill in self.attempt.kills):
                self._continue_as_told(code, output)
            elif code != 0:
                self.attempt.problem = f"exit code {code}: {output[-600:]}"
            found = rows_of(self.runs)
            differing = [name for name in self.calm.rows if found.get(name) != self.calm.rows[name]]
            if differing and not self.attempt.problem:
                self.attempt.problem = f"rows differ: {differing}"
            self.attempt.is_equal = not differing and not self.attempt.problem
        finally:
            self.attempt.seconds = time.monotonic() - began
            self.nodes.close()

    def _kill_all(self, driver: subprocess.Popen[str]) -> None:
        began = time.monotonic()
        for kill in self.attempt.kills:
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
            if driver.poll() is not None:
                kill.note = "too late: the run had ended"
                continue
            at = f"{self._rows()} rows of {len(self.calm.times)}"
            kill.note = f"{self._kill(kill, driver)} at {at}"

    def _rows(self) -> int:
        self.most_rows = max(self.most_rows, count_rows(self.runs))
        return self.most_rows

    def _await_checkpoint_write(self, driver: subprocess.Popen[str]) -> None:
        """Waits for a checkpoint that is being written, in the run's directory or in one of a node."""
        while driver.poll() is None:
            for folder in self.folder.rglob("checkpoints"):
                with suppress(FileNotFoundError):
                    if any(name.endswith(".partial") for name in os.listdir(folder)):
                        return
            time.sleep(0.001)

    def _kill(self, kill: Kill, driver: subprocess.Popen[str]) -> str:
        """Kills a process of a kind as soon as there is one, and returns which."""
        chance = random.Random(kill.share)
        if kill.kind == "raylet":
            number = self.alive.pop(chance.randrange(len(self.alive)))
            self.nodes.kill(number)
            self.nodes.add()
            self.alive.append(max([number, *self.alive, 2]) + 1)
            return f"node {number}"
        deadline = time.monotonic() + 60
        while driver.poll() is None and time.monotonic() < deadline:
            if pids := self._pids(kill.kind):
                pid = chance.choice(sorted(pids))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return f"process {pid}"
            time.sleep(0.02)
        return "too late: there was no such process"

    def _pids(self, kind: str) -> list[int]:
        if kind == "driver":
            return [driver.pid for run in self.runs.glob("*") for driver in drivers_of(run)][:1]
        if kind == "GCS":
            return [self.nodes.gcs]
        if kind == "trial":
            records = []
            for run in self.runs.glob(f"*/{RUN_FILE}"):
                opened = RunDirectory.open(run.parent)
                records += [opened.record(name) for name in opened.table.trials]
            pids = [record.pid for record in records if record.status == "RUNNING" and record.pid]
            return [pid for pid in pids if self.nodes.of_process(pid) is not None]
        return self.nodes.pids("ActorShell")

    def _continue_as_told(self, code: int | None, output: str) -> None:
        """Types the command that the run has printed, on this machine alone."""
        told = [line for line in output.splitlines() if "rlrun resume" in line]
        if code in (0, None) or not told:
            self.attempt.problem = f"exit code {code} and no command: {output[-600:]}"
            return
        self.attempt.log.append(f"exit code {code}: {told[-1]}")
        for path in told[-1].split("rlrun resume ")[1:]:
            run = path.split(" ")[0].strip("`.;'")
            command = [sys.executable, "-m", "rlrun", "resume", run]
            done = subprocess.run(command, cwd=self.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
                                  capture_output=True, timeout=PATIENCE_S)  # fmt: skip
            if done.returncode:
                self.attempt.problem = f"rlrun resume ended with {done.returncode}: {done.stderr[-600:]}"


def table(attempts: Sequence[Attempt]) -> str:
    """Returns the table for the docs: kind, tries, how many at which moments, and runs with differing rows."""
    lines = [
        "| process | kills | during a checkpoint write | during a recovery | differing rows |",
        "|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(kind for kinds in KINDS.values() for kind in kinds):
        kills = [(kill, attempt) for attempt in attempts for kill in attempt.kills
                 if kill.kind == kind and kill.has_happened]  # fmt: skip
        moments = Counter(kill.moment for kill, _ in kills)
        wrong = sum(not attempt.is_equal for _, attempt in kills)
        lines.append(f"| {kind} | {len(kills)} | {moments['checkpoint']} | {moments['recovery']} | {wrong} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Does the kills, prints each run, and writes the table; returns the number of runs that ended otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--folder", type=Path, help="Keep runs there instead of in a temporary folder.")
    options = parser.parse_args(arguments)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64, "RAY_USAGE_STATS_ENABLED": "0"}
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kills-"))
    folder.mkdir(exist_ok=True)
    attempts = plan(options.kills, options.seed)
    calm: dict[str, Calm] = {}
    done: list[Attempt] = []
    for number, attempt in enumerate(attempts):
        if attempt.spec not in calm:
            calm[attempt.spec] = undisturbed(attempt.spec, folder / f"calm-{attempt.spec}")
            print(f"{attempt.spec}: {calm[attempt.spec].times[-1]:.0f} s undisturbed", flush=True)
        place = folder / f"run-{number:03}"
        place.mkdir()
        try:
            Disturbance(attempt, calm[attempt.spec], place).run()
        except Exception as error:  # one run that goes wrong is reported, and the others follow
            attempt.problem = f"{type(error).__name__}: {error}"
        done.append(attempt)
        words = "; ".join(f"{kill.kind} ({kill.moment}): {kill.note}" for kill in attempt.kills)
        verdict = "equal" if attempt.is_equal else f"WRONG, in {place}: {attempt.problem}"
        print(
            f"run {number} of {attempt.spec}, {attempt.seconds:.0f} s: {words}; {' '.join(attempt.log)} {verdict}",
            flush=True,
        )
        if options.table is not None:
            options.table.write_text(table(done) + "\n")
        if attempt.is_equal and options.folder is None:
            shutil.rmtree(place)
    return sum(not attempt.is_equal for attempt in done)


if __name__ == "__main__":
    sys.exit(main())
