"""Measures rlrun's sweeps by their events; `run.py` starts it in a separate process."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.peers import Measurement, answer
from rlrun.experiments.launch.run import run
from rlrun.experiments.runs.events import RunEvent, RunStarted, TrialEvent
from rlrun.toys.known_optimum import ConstantReward, Step

STEPS = 8
"""Env steps in an iteration of the sleeping env."""


class Sleeping(ConstantReward):
    """A `ConstantReward` whose steps take time but no CPU."""

    def __init__(self, seconds: float, **kwargs: Any) -> None:
        """Creates the env; each step takes the given number of seconds."""
        super().__init__(**kwargs)
        self._seconds = seconds

    def step(self, action: int) -> Step:
        """Sleeps, and pays 1."""
        time.sleep(self._seconds)
        return super().step(action)


@dataclass
class Diary:
    """Watches a run and records when its events happen.

    Attributes:
        began: When the run began.
        started: Trials with the times at which they were placed, in that order.
        ended: Times at which trials ended, in that order.
        results: Trial -> the times of its results, and the iteration seconds that they report.
    """

    began: float = 0.0
    started: dict[str, float] = field(default_factory=dict)
    ended: list[float] = field(default_factory=list)
    results: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def __call__(self, event: RunEvent) -> None:
        """Records an event."""
        now = time.perf_counter()
        if isinstance(event, RunStarted):
            self.began = now
        elif isinstance(event, TrialEvent) and event.result is not None:
            self.results.setdefault(event.trial, []).append((now, event.result["time_this_iter_s"]))
        elif isinstance(event, TrialEvent) and event.status == "RUNNING":
            self.started[event.trial] = now
        elif isinstance(event, TrialEvent):
            self.ended.append(now)

    def overheads(self) -> list[float]:
        """Returns each trial's overhead relative to the time of its iterations, without its first iteration."""
        shares = []
        for results in self.results.values():
            own = sum(seconds for _, seconds in results[1:])
            shares.append((results[-1][0] - results[0][0] - own) / own)
        return shares


def watched(spec: dict[str, Any], executor: Literal["local", "ray"]) -> Diary:
    """Runs a spec, and returns the times of its events."""
    diary = Diary()
    with tempfile.TemporaryDirectory() as directory:
        run({"bench": spec}, runs_dir=directory, executor=executor, watch=diary)
    return diary


def controller(order: Measurement) -> Measurement:
    """Measures the overhead of iterations that only sleep."""
    spec = {
        "algorithm": "ppo",
        "env": {"id": "benchmarks.sweep.inside:Sleeping", "kwargs": {"seconds": order["iteration_s"] / STEPS}},
        "seeds": order["trials"],
        "stop": {"iteration": order["iterations"]},
        "config": {
            "num_envs_per_worker": 1,
            "train_batch_size": STEPS,
            "minibatch_size": STEPS,
            "num_epochs": 1,
            "min_env_steps_per_iteration": 0,
        },
        "resources": {"cpus": order["cpus"]},
    }
    alone = {**spec, "seeds": 1, "stop": {"iteration": order["iterations"] // 2}}
    return {"overheads": watched(spec, "ray").overheads(), "loop_overhead": watched(alone, "local").overheads()[0]}


def start(order: Measurement) -> Measurement:
    """Measures the times from a trial's end to the start and the first result of the next trial.

    The n-th trial to end makes room for the n-th trial in the queue.
    """
    places = order["places"]
    spec = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seeds": order["trials"],
        "stop": {"iteration": 10},
        "config": {"train_batch_size": 2048, "minibatch_size": 64, "num_epochs": 4, "lr": 1e-3},
        "resources": {"cpus": order["cores"] / places},
    }
    diary = watched(spec, "ray")
    waited = list(diary.started.items())[places:]
    pairs = list(zip(diary.ended, waited, strict=False))
    return {
        "very_first_s": min(results[0][0] for results in diary.results.values()) - diary.began,
        "to_start_s": [placed - ended for ended, (_, placed) in pairs],
        "to_first_result_s": [diary.results[name][0][0] - ended for ended, (name, _) in pairs],
        "first_iteration_s": [diary.results[name][0][1] for _, (name, _) in pairs],
    }


def measured(order: Measurement) -> Measurement:
    """Measures what the order names."""
    return controller(order) if order["kind"] == "controller" else start(order)


if __name__ == "__main__":
    answer(measured)
