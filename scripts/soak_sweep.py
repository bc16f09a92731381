"""Runs a long sweep of many short trials, and measures whether the memory of its processes grows.

    python -m scripts.soak_sweep [--minutes 120] [--warm-up 15] [--trial-s 60] [--json FILE]

Every ten seconds, it reads the resident memory (without shared memory) of the driver, and of the actors in which trials
run one after another. After the warm-up, it computes a robust slope (Theil-Sen: the median of the slopes between all
pairs of points), and prints it in MB per hour and in kB per trial. It also lists Ray's own processes. When the time is
up, it interrupts the sweep as Ctrl-C would.

The driver keeps about 6 kB per finished trial, so 60 MB for ten thousand (`--minutes 12 --trial-s 2`).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import ROOT, environment, machine

EVERY_S = 10.0
AIM_MB_PER_H, AIM_TRIALS_PER_H = 1.0, 120
INTERRUPTED = 130
DRIVER, TRIAL = "driver", "trial actor"


@dataclass(frozen=True)
class Sample:
    """The memory of a run's processes at one moment.

    Attributes:
        hours: Hours since the start.
        trials: Number of trials that had ended.
        rss: Process -> its unshared resident memory in MB; a process is named by its kind and its pid.
    """

    hours: float
    trials: int
    rss: dict[str, float]


def main() -> None:
    """Runs the sweep, and prints how much its processes grew."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=120, help="duration in minutes")
    parser.add_argument(
        "--warm-up",
        type=float,
        metavar="MINUTES",
        help="initial part that is ignored; an eighth of the duration by default",
    )
    parser.add_argument("--trial-s", type=float, default=60, help="approximate duration of a trial")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to this file")
    options = parser.parse_args()
    warm_up = options.minutes / 8 if options.warm_up is None else options.warm_up
    print(f"machine: {machine()}\nhow: {options.minutes:g} minutes, the first {warm_up:g} do not count", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        samples = soak(Path(directory), options.minutes, options.trial_s)
    counted = [sample for sample in samples if sample.hours >= warm_up / 60]
    found = report(counted)
    if options.json:
        data = {"slopes_mb_per_h": found, "samples": [vars(sample) for sample in samples]}
        options.json.write_text(json.dumps(data, indent=1) + "\n")


def soak(directory: Path, minutes: float, trial_s: float) -> list[Sample]:
    """Runs the sweep for the given time, and returns samples of its memory.

    Raises:
        SystemExit: The sweep ended in any other way than by the final interrupt.
    """
    spec, runs = directory / "spec.yaml", directory / "runs"
    trials = int(2 * minutes * 60 / trial_s * (os.cpu_count() or 1)) + 8  # twice as many as needed
    spec.write_text(json.dumps({"soak": spec_of(min(trials, 10_000), trial_s)}))
    command = [sys.executable, "-m", "rlrun", "train", "-f", str(spec), "--runs-dir", str(runs), "--executor", "ray"]
    began, samples = time.monotonic(), []
    with (directory / "output").open("w+") as output:
        process = subprocess.Popen(command, env=environment(), cwd=ROOT, stdout=output, stderr=output)
        try:
            while process.poll() is None and time.monotonic() - began < 60 * minutes:
                time.sleep(EVERY_S)
                rss = resident(process.pid)
                samples.append(Sample((time.monotonic() - began) / 3600, ended(runs), rss))
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=120)
        finally:
            process.kill()
        if code != INTERRUPTED:
            output.seek(0)
            raise SystemExit(f"the sweep ended with exit code {code} before its time:\n{output.read()[-5000:]}")
    return samples


def spec_of(trials: int, trial_s: float) -> dict[str, Any]:
    """Returns a sweep of short trials that write as many results and checkpoints as long trials do."""
    return {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seeds": trials,
        "stop": {"time_total_s": trial_s, "env_steps": 100_000_000},
        "config": {
            "lr": 1e-3,
            "num_envs_per_worker": 8,
            "train_batch_size": 1024,
            "minibatch_size": 256,
            "num_epochs": 4,
            "normalize_observations": True,
            "compile": False,
        },
        "checkpoint": {"every": 10, "keep": 1},
        "evaluation": {"every": 20, "episodes": 5},
    }


def ended(runs: Path) -> int:
    """Returns how many trials are done."""
    return sum('"TERMINATED"' in path.read_text() for path in runs.glob("*/*/trial.json"))


def resident(root: int) -> dict[str, float]:
    """Returns the unshared resident memory in MB of a process and all of its descendants.

    Shared memory includes libraries and Ray's object store. The store's pages count for every process that has touched
    them, so these numbers would grow until the processes have touched the whole store, whose size is limited.
    """
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):  # the process has just ended
            continue
    family = [root]
    for one in family:
        family += [pid for pid, parent in parents.items() if parent == one]
    found = {}
    for pid in family:
        try:
            resident_pages, shared_pages = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue
        what = DRIVER if pid == root else kind(names.get(pid, ""))
        found[f"{what} {pid}"] = (resident_pages - shared_pages) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return found


def kind(command: str) -> str:
    """Returns the kind of a Ray process, from its command line."""
    if command.startswith("ray::"):
        return TRIAL if "AlgorithmTrainable" in command else command.split()[0].strip()
    words = [Path(word).name for word in command.split() if not word.startswith("-")]
    script = next((word for word in words if word.endswith(".py")), None)
    return script or (words[0] if words else "gone")


def report(samples: Sequence[Sample]) -> dict[str, float]:
    """Prints the growth of the processes that ran all the time, and returns their slopes in MB per hour."""
    if len(samples) < 3:
        raise SystemExit("too short: there are not three samples after the warm-up")
    hours = np.array([sample.hours for sample in samples])
    trials = np.array([sample.trials for sample in samples])
    lasting = [name for name in samples[0].rss if all(name in sample.rss for sample in samples)]
    pace = theil_sen(hours, trials)
    print(f"{trials[-1] - trials[0]} trials ended in the {60 * (hours[-1] - hours[0]):.0f} minutes that count\n")
    print(f"{'process':36}{'first MB':>10}{'last MB':>10}{'MB/h':>9}{'kB/trial':>10}")
    slopes = {}
    for name in sorted(lasting, key=lambda name: (not name.startswith((DRIVER, TRIAL)), name)):
        memory = series(samples, name)
        slopes[name] = theil_sen(hours, memory)
        per_trial = f"{1000 * slopes[name] / pace:>10.2f}" if pace else ""
        print(f"{name:36}{memory[0]:>10.1f}{memory[-1]:>10.1f}{slopes[name]:>9.2f}{per_trial}")
    passing = {name for sample in samples for name in sample.rss} - set(lasting)
    replaced = sum(name.startswith(TRIAL) for name in passing)
    print(f"{len(passing)} processes came or went, {replaced} of them trial actors")
    ours = {name: slope for name, slope in slopes.items() if name.startswith((DRIVER, TRIAL))}
    worst = max(ours, key=lambda name: ours[name])
    print(f"steepest of rlrun's own: {worst}, {ours[worst]:.2f} MB/h", flush=True)
    if pace:  # short trials show in minutes the growth that long trials would show in hours
        scaled = ours[worst] / pace * AIM_TRIALS_PER_H
        print(f"with {AIM_TRIALS_PER_H} trials an hour: {scaled:.2f} MB/h, aim < {AIM_MB_PER_H:g}", flush=True)
    return slopes


def series(samples: Sequence[Sample], name: str) -> Any:
    """Returns the memory of a process over the samples."""
    return np.array([sample.rss[name] for sample in samples])


def theil_sen(x: Any, y: Any) -> float:
    """Returns the median of the slopes between all pairs of points."""
    first, second = np.triu_indices(len(x), k=1)
    return float(np.median((y[second] - y[first]) / (x[second] - x[first])))


if __name__ == "__main__":
    main()
