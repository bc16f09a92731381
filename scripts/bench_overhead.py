"""Measures what rlrun itself costs beside the work: the command's start, and the trial loop around an iteration.

    python scripts/bench_overhead.py

The floors in the same run are a Python that does nothing, and the iteration without the loop.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rlrun.spec.load import parse_experiments
from rlrun.trial.trial_loop import TrialLoop

REPEATS = 7
ITERATIONS = 200
SPEC = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "stop": {"iteration": ITERATIONS},
    "config": {"train_batch_size": 256, "minibatch_size": 256, "num_epochs": 1},
    "checkpoint": {"every": None},
}


def seconds_of(command: Sequence[str]) -> float:
    """Returns the median wall time of a command."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def loop_overhead_s() -> tuple[float, float]:
    """Returns the median seconds of an iteration, and of what the trial loop adds to it."""
    (experiment,) = parse_experiments({"overhead": SPEC})
    (trial,) = experiment.trials()
    iterations, added = [], []
    with tempfile.TemporaryDirectory() as directory, TrialLoop(trial, Path(directory)) as loop:
        while not loop.done:
            began = time.perf_counter()
            result = loop.step()
            iterations.append(result["time_this_iter_s"])
            added.append(time.perf_counter() - began - result["time_this_iter_s"])
    return statistics.median(iterations), statistics.median(added)


def main() -> None:
    """Prints the table."""
    floor, start = seconds_of(["-c", "pass"]), seconds_of(["-m", "rlrun", "--help"])
    iteration, added = loop_overhead_s()
    print(f"python -c pass           {1000 * floor:8.1f} ms")
    print(f"rlrun --help             {1000 * start:8.1f} ms")
    print(f"an iteration             {1000 * iteration:8.2f} ms")
    print(f"what the loop adds to it {1000 * added:8.2f} ms, results written in three formats")


if __name__ == "__main__":
    main()
