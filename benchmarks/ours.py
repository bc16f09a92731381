"""rlrun's side of the benchmarks: runs `rlrun.run`, as `rlrun train` does, or a `Training` in a time window."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers import Measurement, cpu_seconds_of_tree, in_window
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.training import Training
from rlrun.experiments.launch.run import run
from rlrun.experiments.runs.events import RunEvent, TrialEvent

LONG_RUN = 100_000_000
"""Env steps that a measured run seems to have ahead, so that it compiles its updates as a long run does."""


@dataclass
class Clock:
    """Watches a run, and records the clock and the CPU time at every result.

    Attributes:
        marks: The time of each result, and the CPU time until then.
        results: The results.
    """

    marks: list[tuple[float, float]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, event: RunEvent) -> None:
        """Records a result."""
        if isinstance(event, TrialEvent) and event.result is not None:
            self.marks.append((time.perf_counter(), time.process_time()))
            self.results.append(dict(event.result))


def run_iterations(entry: Mapping[str, Any], work: Measurement, counted: Sequence[str] = ("env_steps",)) -> Measurement:
    """Runs the warm-up and the measured iterations, and returns the time, env steps and shares of the latter.

    Args:
        entry: The entry of a spec file to train.
        work: The env, the seed, and the numbers of iterations `warm_up` and `iterations`.
        counted: The results to sum up, such as the `agent_steps` of several policies.
    """
    iterations = work["warm_up"] + work["iterations"] + 1  # one more, so that the costs of a run's end do not count
    stop = {"env_steps": LONG_RUN, **entry.get("stop", {}), "iteration": iterations}
    clock = Clock()
    with tempfile.TemporaryDirectory() as directory:
        spec = {"env": work["env"], **entry, "seeds": [work["seed"]], "stop": stop}
        run({"bench": spec}, runs_dir=directory, executor="local", watch=clock)
    first, last = work["warm_up"] - 1, work["warm_up"] + work["iterations"] - 1
    seconds, cpu_seconds = (after - before for before, after in zip(clock.marks[first], clock.marks[last], strict=True))
    phases = seconds_by_phase(clock.results, first, last)
    phases["everything else"] = seconds - sum(phases.values())
    return {
        "env_steps": sum(clock.results[last][name] - clock.results[first][name] for name in counted),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "shares": {name: spent / seconds for name, spent in phases.items()},
    }


def seconds_by_phase(results: Sequence[Mapping[str, Any]], first: int, last: int) -> dict[str, float]:
    """Sums the phases of the iterations after `first` up to `last`.

    The time of a checkpoint, which follows its iteration's result, is in the next result.
    """
    phases = {}
    for name in results[first]:
        if name.startswith("time/") and name.endswith("_s"):
            shift = "checkpoint" in name
            span = results[first + 1 + shift : last + 1 + shift]
            phases[name.removeprefix("time/").removesuffix("_s")] = sum(result[name] or 0.0 for result in span)
    return phases


def train_in_window(work: Measurement, config: Mapping[str, Any], counted: str = "env_steps") -> Measurement:
    """Trains without result files, as a user's own loop does, and returns the measurements of the window.

    Args:
        work: Its `algorithm`, `env` or `world`, `seed`, `warm_up_s` and `window_s`.
        config: Settings of the algorithm.
        counted: The result to count: `env_steps` or `agent_steps`.
    """
    with training_of(work, config) as training:
        while training.step()["sgd_steps"] == 0:
            pass
        (before, *results), clocks = in_window(work, training.step, cpu_seconds_of_tree)
    spent = clocks["seconds"]
    phases = [name for name in before if name.startswith("time/") and name.endswith("_s")]
    shares = {name[len("time/") : -len("_s")]: sum(result[name] for result in results) / spent for name in phases}
    waits = sum(result.get("time/learner_wait_share", 0.0) * result["time_this_iter_s"] for result in results)
    found = {
        **clocks,
        "env_steps": results[-1][counted] - before[counted],
        "updates": results[-1]["sgd_steps"] - before["sgd_steps"],
        "update_executor": training.update_executor,
        "shares": {**shares, "learner waits": waits / spent},
    }
    if before.get("policy_lag_mean") is not None:
        found["policy_lag"] = sum(result["policy_lag_mean"] for result in results) / len(results)
        found["policy_lag_max"] = max(result["policy_lag_max"] for result in results)
    return found


def training_of(work: Measurement, config: Mapping[str, Any]) -> Training:
    """Returns a `Training` for the given work."""
    kind = algorithm_class(work["algorithm"])
    env = EnvConfig.parse(work["world"] if "world" in work else work["env"])
    return Training(env, kind(kind.Config.parse(config)), seed=work["seed"], total_env_steps=LONG_RUN)
