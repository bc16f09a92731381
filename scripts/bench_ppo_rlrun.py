"""Runs one piece of the benchmark's work with rlrun; `bench_ppo.py` starts it in a process of its own.

Training goes through `rlrun.run`, as `rlrun train` does: with result files, checkpoints and everything else that is on
by default.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from rlrun.algorithms.ppo import PPO
from rlrun.flow.operators.advantages import ComputeAdvantages
from rlrun.flow.policy_workers import PolicyWorkers
from rlrun.launch.run import run
from rlrun.rollout.rollout import DEFAULT_POLICY
from rlrun.runs.events import RunEvent, TrialEvent
from rlrun.training.training import Training

LONG_RUN = 10_000_000
"""Env steps that a measured run is said to have ahead: its rate is that of a long run, whose updates are compiled."""


@dataclass
class Clock:
    """Watches a run and notes the clock and the CPU time at every result.

    Attributes:
        marks: When a result came, and the CPU time spent until then.
        results: The results.
    """

    marks: list[tuple[float, float]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, event: RunEvent) -> None:
        """Takes note of a result."""
        if isinstance(event, TrialEvent) and event.result is not None:
            self.marks.append((time.perf_counter(), time.process_time()))
            self.results.append(dict(event.result))


def spec_of(work: dict[str, Any]) -> dict[str, Any]:
    """Returns the spec that stands for a piece of work."""
    stop: dict[str, float] = {"env_steps": LONG_RUN}
    if work["kind"] == "solve":
        stop = {"env_steps": work["max_env_steps"], "episode_return_mean": work["wanted_return"]}
    elif work["kind"] == "train":
        stop["iteration"] = work["warm_up"] + work["iterations"] + 1  # what a run's end costs does not count
    return {
        "algorithm": "ppo",
        "env": {"id": work["env"], **({"preset": "atari"} if work["env"].startswith("ALE/") else {})},
        "seeds": [work["seed"]],
        "stop": stop,
        "config": config_of(work),
    }


def config_of(work: dict[str, Any]) -> dict[str, Any]:
    return {
        "lr": work["lr"],
        "num_envs_per_worker": work["num_envs"],
        "train_batch_size": work["num_envs"] * work["fragment"],
        "minibatch_size": work["minibatch"],
        "num_epochs": work["epochs"],
        "gamma": work["gamma"],
        "gae_lambda": work["gae_lambda"],
        "model": {"hiddens": list(work["hiddens"]), "activation": "tanh"} if work["hiddens"] else {},
    }


def trained(spec: dict[str, Any], work: dict[str, Any]) -> dict[str, Any]:
    """Runs warm-up and measured iterations, and returns the time, env steps and shares of the measured ones.

    Args:
        spec: What is trained.
        work: How many iterations there are, `warm_up` and `iterations`.
    """
    clock = Clock()
    with tempfile.TemporaryDirectory() as directory:
        run({"bench": spec}, runs_dir=directory, executor="local", watch=clock)
    first, last = work["warm_up"] - 1, work["warm_up"] + work["iterations"] - 1
    seconds, cpu_seconds = (after - before for before, after in zip(clock.marks[first], clock.marks[last], strict=True))
    phases = seconds_by_phase(clock.results, first, last)
    phases["everything else"] = seconds - sum(phases.values())
    return {
        "env_steps": clock.results[last]["env_steps"] - clock.results[first]["env_steps"],
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "shares": {name: spent / seconds for name, spent in phases.items()},
    }


def seconds_by_phase(results: list[dict[str, Any]], first: int, last: int) -> dict[str, float]:
    """Sums the phases of the iterations behind `first` up to `last`.

    A checkpoint follows its iteration's result, so the next result tells what it took.
    """
    names = [name for name in results[first] if name.startswith("time/")]
    spans = {
        name: results[first + 2 : last + 2] if "checkpoint" in name else results[first + 1 : last + 1] for name in names
    }
    return {
        name.removeprefix("time/").removesuffix("_s"): sum(result[name] or 0.0 for result in span)
        for name, span in spans.items()
    }


def sampled(work: dict[str, Any]) -> dict[str, Any]:
    """Collects fragments with their advantages, as one flow that learns nothing."""
    algorithm = PPO(**{**config_of(work), "num_epochs": 1, "compile": False})
    with Training(work["env"], algorithm, seed=work["seed"]) as training:
        training.step()  # starts everything
        workers = training.running.workers
        # A view of its own: the one of the training delivers its fragments to the dataflow that learns.
        fragments = PolicyWorkers(workers, DEFAULT_POLICY).rollouts()
        rollouts = fragments.for_each(ComputeAdvantages(work["gamma"], work["gae_lambda"]))
        for _ in range(work["warm_up"]):
            next(rollouts)
        began, began_cpu, steps_before = time.perf_counter(), time.process_time(), workers.counts.env_steps
        for _ in range(work["iterations"]):
            next(rollouts)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
        env_steps = workers.counts.env_steps - steps_before
        return {"env_steps": env_steps, "seconds": seconds, "cpu_seconds": cpu_seconds}


def main() -> None:
    work = json.loads(sys.argv[1])
    print(json.dumps(sampled(work) if work["kind"] == "sampling" else trained(spec_of(work), work)))


if __name__ == "__main__":
    main()
