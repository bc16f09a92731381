"""Compares a sweep in rlrun with one in RLlib under Ray Tune, in turn on the same work, and measures rlrun's overhead.

    python -m benchmarks.sweep.run [--only sweep,controller,start,variants] [--repeats N] [--env-steps N] [--json FILE]

sweep       8 PPO trials on CartPole-v1 (4 learning rates x 2 seeds, 50,000 env steps each) on 2 cores, from Enter to
            the end of the process
controller  the time that Tune and rlrun's records add to trials whose iterations take one second
start       the time from a trial's end to the first result of the next trial in its place
variants    only with --only: all ways to run RLlib, once each, to find the fastest

Both sides have the same envs, networks, batches, minibatches, epochs and stop conditions, and run two trials at a time,
each with one thread. RLlib gets its own venv under `.bench/`, created on the first run, with rlrun's versions of torch
and NumPy, and with the version of Gymnasium that it pins. The sides differ in these points:

- RLlib starts a process for each trial, because it lacks `reset_config`. In the rows "with actors reused", RLlib uses a
  `reset_config` that the benchmark adds; see `rllib.py`.
- rlrun saves a checkpoint at the end of a trial; RLlib saves none. Both are the defaults.
- In rlrun, the row in which an episode starts does not count as an env step, so the two sides do not stop at exactly
  the same env step, but within one iteration.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.peers import (
    RLLIB,
    Measurement,
    Side,
    compared_times,
    parser_of,
    python_of,
    spread,
    surroundings,
    timed,
    write_json,
)

PARTS = ("sweep", "controller", "start", "variants")
CPUS = 2
FIRST_RESULT = "first result:"

# Both sides do this work. The settings are those of A1 in benchmarks/ppo/run.py.
WORK: Measurement = {
    "cpus": CPUS,
    "num_envs": 8,
    "fragment": 256,
    "minibatch": 64,
    "epochs": 10,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "lrs": [1e-4, 3e-4, 1e-3, 3e-3],
    "seeds": [0, 1],
    "env_steps": 50_000,
}
WAYS: Mapping[str, Measurement] = {
    "new stack": {"stack": "new", "vectorize": "sync"},
    "new stack, Gymnasium's vector CartPole": {"stack": "new", "vectorize": "vector_entry_point"},
    "old stack": {"stack": "old", "vectorize": "sync"},
}
VARIANTS: Mapping[str, Measurement] = {
    **{f"RLlib, {name}": {**way, "reuse": False} for name, way in WAYS.items()},
    **{f"RLlib, {name}, with actors reused": {**way, "reuse": True} for name, way in WAYS.items()},
}
"""Ways to run RLlib: which of its stacks, how it batches envs, and whether it reuses a trial's process."""

FASTEST, FASTEST_REUSED = "RLlib, old stack", "RLlib, new stack, with actors reused"

Trials = Callable[[int], Measurement]


def main() -> None:
    """Measures the parts that the command line names."""
    parser = parser_of(str(__doc__), PARTS, unasked=["variants"])
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each side of the sweep")
    parser.add_argument(
        "--env-steps", type=int, default=WORK["env_steps"], help="env steps per trial, to try things out"
    )
    options = parser.parse_args()
    work = {**WORK, "env_steps": options.env_steps}
    peers = [RLLIB] if {"sweep", "variants"} & set(options.only) else []
    about = surroundings(("torch", "ray", "gymnasium", "numpy"), peers)
    found: Measurement = {"about": about, "work": work, "comparisons": []}
    if "variants" in options.only:
        sides = {name: rllib_side(work, name) for name in VARIANTS}
        found["comparisons"].append(compared_times("variants", "ways of running RLlib", sides, 1))
    if "sweep" in options.only:
        found["comparisons"].append(sweep(work, options.repeats))
    if "controller" in options.only:
        found["controller"] = controller()
    if "start" in options.only:
        found["start"] = start()
    write_json(options.json, found)


# --- The sweep, compared with RLlib


def sweep(work: Measurement, repeats: int) -> Measurement:
    """Measures both frameworks in turn; rlrun compiles the update that its trials share, or finds it in the cache."""
    with tempfile.TemporaryDirectory() as cache:
        rlrun_side(work, Path(cache))(0)  # fills the cache for the last side
        sides = {
            FASTEST: rllib_side(work, FASTEST),
            "rlrun": rlrun_side(work, None),
            FASTEST_REUSED: rllib_side(work, FASTEST_REUSED),
            "rlrun, compiled before": rlrun_side(work, Path(cache)),
        }
        return compared_times("sweep", "eight trials of PPO", sides, repeats, aims={"rlrun": {FASTEST: 5}})


def rllib_side(work: Measurement, name: str) -> Trials:
    """Returns a function that runs the sweep with RLlib, in one of its variants."""
    command = [python_of(RLLIB), "-m", "benchmarks.sweep.rllib", json.dumps({**work, **VARIANTS[name]})]

    def run(repeat: int) -> Measurement:
        found = timed(command, lambda text: FIRST_RESULT in text)
        return checked(work, {**found, **json.loads(found["said"])})

    return run


def rlrun_side(work: Measurement, cache: Path | None) -> Trials:
    """Returns a function that runs the sweep with rlrun, with the command that a user types.

    Args:
        work: The sweep.
        cache: Folder for compiled updates; None for one that is empty each time.
    """

    def run(repeat: int) -> Measurement:
        with tempfile.TemporaryDirectory() as directory:
            runs, spec = Path(directory) / "runs", Path(directory) / "spec.yaml"
            spec.write_text(json.dumps({"sweep": entry_of(work)}))
            command = [sys.executable, "-m", "rlrun", "train", "-f", str(spec), "--runs-dir", str(runs)]
            times = timed(command, lambda text: any(runs.glob("*/*/result.json")), cache or Path(directory) / "cache")
            last = [json.loads(path.read_text().splitlines()[-1]) for path in sorted(runs.glob("*/*/result.json"))]
        names = {"returns": "episode_return_mean", "steps": "env_steps", "training_s": "time_total_s"}
        return checked(work, {**times, **{name: [row[result] for row in last] for name, result in names.items()}})

    return run


def entry_of(work: Measurement) -> Measurement:
    """Returns the sweep as an entry of a spec file."""
    return {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seeds": work["seeds"],
        "stop": {"env_steps": work["env_steps"]},
        "config": {
            "lr": {"grid_search": work["lrs"]},
            "num_envs_per_worker": work["num_envs"],
            "train_batch_size": work["num_envs"] * work["fragment"],
            "minibatch_size": work["minibatch"],
            "num_epochs": work["epochs"],
            "gamma": work["gamma"],
            "gae_lambda": work["gae_lambda"],
            "model": {"hiddens": [64, 64], "activation": "tanh"},
        },
    }


def checked(work: Measurement, found: Measurement) -> Measurement:
    """Returns a measurement with totals over all trials.

    Raises:
        SystemExit: A trial did not complete its work.
    """
    trials = len(work["lrs"]) * len(work["seeds"])
    if len(found["steps"]) != trials or min(found["steps"]) < work["env_steps"]:
        raise SystemExit(f"{trials} trials of {work['env_steps']} env steps were wanted, and these came: {found}")
    return {**found, "env_steps": sum(found["steps"]), "episode_return": statistics.mean(found["returns"])}


# --- The overhead of rlrun's sweeps


def controller() -> Measurement:
    """Measures the overhead of trials whose iterations take one second."""
    found = inside({"kind": "controller", "trials": 4, "cpus": 0.5, "iterations": 30, "iteration_s": 1.0})
    print("\ntrials whose iterations take 1 s, four at a time: what comes on top, share of the iterations' own time")
    overheads = ", ".join(f"{share:.2%}" for share in found["overheads"])
    print(f"under Tune {overheads}; the trial loop alone {found['loop_overhead']:.2%}; aim < 5%", flush=True)
    return found


def start() -> Sequence[Measurement]:
    """Measures how long a place stays empty between two trials, with one and with two trials at a time."""
    print("\nseconds from the end of a trial")
    found = []
    for places in (1, 2):
        measured = inside({"kind": "start", "places": places, "trials": 10})
        placed, first = statistics.median(measured["to_start_s"]), measured["to_first_result_s"]
        result = f"{statistics.median(first):.2f} {spread(first, 2)}, aim < 2"
        print(f"{places} at a time: the next is placed {placed:.2f}, its first result {result}")
        print(f"  the very first result came after {measured['very_first_s']:.1f} s, Ray's start included", flush=True)
        found.append(measured)
    return found


def inside(order: Measurement) -> Measurement:
    """Runs `inside.py`, which measures rlrun's sweeps by their events, in a separate process."""
    return Side("rlrun", "sweep.inside").measured({**order, "cores": CPUS})


if __name__ == "__main__":
    main()
