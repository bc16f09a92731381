"""Measures rlrun's own overhead: the startup of the command, the trial loop, and the flow of operators.

    python -m benchmarks.overhead.run [--json FILE]

The baselines, measured in the same run, are a Python process that does nothing, the iteration without the loop, and the
same operators called by hand, one after another. For the last one, many short stretches with and without the flow
alternate, and their medians are compared.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import parser_of, print_row, write_json
from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.value_estimates import MeasureValues
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.trial_loop import TrialLoop

REPEATS = 7
ITERATIONS = 200
SPEC = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "stop": {"iteration": ITERATIONS},
    "config": {"train_batch_size": 256, "min_env_steps_per_iteration": 0, "minibatch_size": 256, "num_epochs": 1},
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
    """Returns the median seconds of an iteration, and the seconds that the trial loop adds to it."""
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


FLOWS: dict[str, tuple[type[PPO | A2C], dict[str, Any]]] = {
    "PPO, 8 envs x 256 steps, minibatch 64, 10 epochs": (
        PPO,
        {"train_batch_size": 2048, "minibatch_size": 64, "compile": True},
    ),
    "PPO, 8 envs x 32 steps, one minibatch": (
        PPO,
        {"train_batch_size": 256, "minibatch_size": 256, "num_epochs": 1, "compile": True},
    ),
    "A2C, 8 envs x 5 steps, compiled": (A2C, {"min_env_steps_per_iteration": 0, "compile": True}),
}
STRETCHES = 30
STRETCH_S = 0.1


def flow_overhead(kind: type[PPO | A2C], config: dict[str, Any]) -> tuple[float, float]:
    """Returns the median seconds of an iteration through the flow, and with the same operators called by hand."""
    with Training("CartPole-v1", kind(**config)) as trained:
        trained.step()
        flow, by_hand = trained.running.flow, hand_written(trained)
        turns: list[Callable[[], object]] = [lambda: next(flow), by_hand]
        for turn in turns:
            turn()
        stretches = [[stretch_s(turn) for turn in turns] for _ in range(STRETCHES)]
    flow_s, hand_s = map(statistics.median, zip(*stretches, strict=True))
    return flow_s, hand_s


def stretch_s(turn: Callable[[], object]) -> float:
    """Returns the mean seconds per call over a short stretch."""
    began, calls = time.perf_counter(), 0
    while time.perf_counter() - began < STRETCH_S:
        turn()
        calls += 1
    return (time.perf_counter() - began) / calls


def hand_written(trained: Training) -> Callable[[], object]:
    """Returns a function for an iteration of PPO or A2C, written without flows."""
    algorithm, trainee, workers = trained.description.algorithm, trained.running.trainee, trained.running.workers
    config, is_ppo = algorithm.config, isinstance(algorithm, PPO)
    passes = {"num_epochs": config.num_epochs, "minibatch_size": config.minibatch_size} if is_ppo else {}
    advantages, standardize = ComputeAdvantages(config.gamma, config.gae_lambda), Standardize("advantages")
    train = TrainOnBatch(trainee, **passes)
    measure, merge, broadcast = MeasureValues(), MergeFilters(trainee), BroadcastWeights(trainee)

    def step() -> None:
        workers.started.request(0)
        (rollout,) = workers.started.arrived()
        workers.counts.count(rollout)
        fragment = rollout.batches[DEFAULT_POLICY]
        versions = np.broadcast_to(np.int32(rollout.weights_versions[DEFAULT_POLICY]), fragment["valid"].shape)
        batch = measure(advantages(SampleBatch(fragment, weights_version=versions)))
        broadcast(merge(train(standardize(batch) if is_ppo else batch)))

    return step


def main() -> None:
    """Prints the table."""
    options = parser_of(str(__doc__)).parse_args()
    floor, start = seconds_of(["-c", "pass"]), seconds_of(["-m", "rlrun", "--help"])
    iteration, added = loop_overhead_s()
    found = {"python -c pass": floor, "rlrun --help": start, "an iteration": iteration, "what the loop adds": added}
    for name, (kind, config) in FLOWS.items():
        found[f"{name}, flow"], found[f"{name}, by hand"] = flow_overhead(kind, config)
    for name, seconds in found.items():
        print_row(name, f"{1000 * seconds:.3f} ms", name_width=60)
    write_json(options.json, found)


if __name__ == "__main__":
    main()
