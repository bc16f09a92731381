"""Measures a sweep with RLlib under Ray Tune and with rlrun, in turn, on the same work; and rlrun's sweeps from inside.

    python scripts/bench_sweep.py [--only sweep,controller,start,variants] [--repeats N] [--json FILE]

sweep       8 PPO trials on CartPole-v1 (4 learning rates x 2 seeds, 50,000 env steps each) on 2 cores, from Enter to
            the end of the process
controller  what Tune and rlrun's records add to trials whose iterations take one second
start       from a trial's end to the first result of the next in its place
variants    only if asked for: every way of running RLlib once, to see which one is the fastest

Both sides have the same envs, nets, batches, minibatches, epochs and stop, two trials at a time, each with one thread.
RLlib gets a venv of its own under `.bench/`, made at the first call, with the torch and NumPy that rlrun runs with, and
the Gymnasium that it pins. What is not the same:

- RLlib starts a process for each trial, since it has no `reset_config`. The rows "with actors reused" are RLlib with
  one that the benchmark adds; see `bench_sweep_rllib.py`.
- rlrun saves a checkpoint at a trial's end, as by default; RLlib saves none, as by default.
- The row in which an episode begins anew does not count as an env step of rlrun; it does not stop at exactly the same
  one as RLlib, but within an iteration of it.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_peers import BENCH, ROOT, machine, make_venv, one_thread, same_version, spread

SCRIPTS = Path(__file__).resolve().parent
RLLIB = "2.60.0"
RLLIB_VENV = "rllib-venv"
PARTS = ("sweep", "controller", "start", "variants")
AIM = 3.0
CPUS = 2
TIMEOUT_S = 1800.0
FIRST_RESULT = "first result:"
LOOK_EVERY_S = 0.05

Measurement = dict[str, Any]

# One shape of work, that of `bench_ppo.py`'s A1, for both sides.
WORK: Measurement = {
    "kind": "sweep",
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
# Ways of running RLlib: which of its two stacks, how envs are batched, and whether a trial's process is reused.
VARIANTS: dict[str, Measurement] = {
    "new stack": {"stack": "new", "vectorize": "sync", "reuse": False},
    "new stack, Gymnasium's vector CartPole": {"stack": "new", "vectorize": "vector_entry_point", "reuse": False},
    "old stack": {"stack": "old", "vectorize": "sync", "reuse": False},
    "new stack, with actors reused": {"stack": "new", "vectorize": "sync", "reuse": True},
    "new stack, Gymnasium's vector CartPole, with actors reused": {
        "stack": "new",
        "vectorize": "vector_entry_point",
        "reuse": True,
    },
    "old stack, with actors reused": {"stack": "old", "vectorize": "sync", "reuse": True},
}
FASTEST = "old stack"
FASTEST_REUSED = "new stack, with actors reused"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--only", default="sweep,controller,start", help=f"comma-separated parts of {','.join(PARTS)}")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each side of the sweep")
    parser.add_argument("--env-steps", type=int, default=WORK["env_steps"], help="env steps of a trial; for a try-out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    work = {**WORK, "env_steps": options.env_steps}
    found: dict[str, Any] = {"about": surroundings(peers="sweep" in parts or "variants" in parts), "work": work}
    print("\n".join(f"{name}: {value}" for name, value in found["about"].items()), flush=True)
    if "variants" in parts:
        sides = {f"RLlib, {name}": rllib_side(work, name) for name in VARIANTS}
        found["variants"] = compared(sides, 1)
    if "sweep" in parts:
        found["sweep"] = sweep(work, options.repeats)
    if "controller" in parts:
        found["controller"] = controller()
    if "start" in parts:
        found["start"] = start()
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def surroundings(*, peers: bool) -> dict[str, str]:
    """Returns where and with what this is measured; makes RLlib's venv if it takes part."""
    ours = {name: version(name) for name in ("torch", "ray", "gymnasium", "numpy")}
    about = {
        "machine": machine(),
        "rlrun": f"{version('rlrun')}, Python {platform.python_version()}, "
        + ", ".join(f"{name} {number}" for name, number in ours.items()),
    }
    if peers:
        python = make_venv(RLLIB_VENV, [f"ray[rllib,tune]=={RLLIB}", same_version("torch"), same_version("numpy")])
        theirs = last_line([python, str(SCRIPTS / "bench_sweep_rllib.py"), json.dumps({"kind": "versions"})])
        about["RLlib"] = ", ".join(f"{name} {number}" for name, number in theirs.items())
    return about


# The sweep, against RLlib.

Side = Callable[[], Measurement]


def sweep(work: Measurement, repeats: int) -> dict[str, Any]:
    """Measures both frameworks in alternation; rlrun compiles the update that its trials share, or has it already."""
    with tempfile.TemporaryDirectory() as cache:
        rlrun_side(work, Path(cache))()  # compiles for the last side
        sides = {
            f"RLlib, {FASTEST}": rllib_side(work, FASTEST),
            "rlrun": rlrun_side(work, None),
            f"RLlib, {FASTEST_REUSED}": rllib_side(work, FASTEST_REUSED),
            "rlrun, compiled before": rlrun_side(work, Path(cache)),
        }
        found = compared(sides, repeats)
    ours = found["rlrun"]
    for name in (FASTEST, FASTEST_REUSED):
        theirs = found[f"RLlib, {name}"]
        ratios = [other["total_s"] / one["total_s"] for one, other in zip(ours, theirs, strict=True)]
        ratio = median(theirs, "total_s") / median(ours, "total_s")
        aim = f", aim >= {AIM:g}" if name == FASTEST else ""
        print(f"RLlib ({name}) takes {ratio:.2f} {spread(ratios, 2)} times as long as rlrun{aim}", flush=True)
    return found


def compared(sides: dict[str, Side], repeats: int) -> dict[str, list[Measurement]]:
    """Runs each side in turn, so many times, and prints a row for each."""
    found: dict[str, list[Measurement]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            found[name].append(side())
    print(f"\n{'seconds from Enter to':64}{'first result':>13}{'the end':>9}  {'(range)':18}{'mean return':>12}")
    for name, runs in found.items():
        returns = statistics.mean(value for run in runs for value in run["returns"])
        totals = [run["total_s"] for run in runs]
        times = f"{median(runs, 'first_result_s'):>13.1f}{median(runs, 'total_s'):>9.1f}  {spread(totals):18}"
        print(f"{name:64}{times}{returns:>12.1f}", flush=True)
    return found


def rllib_side(work: Measurement, variant: str) -> Side:
    """Returns what runs the sweep with RLlib once."""

    def run() -> Measurement:
        python = str(BENCH / RLLIB_VENV / "bin" / "python")
        command = [python, str(SCRIPTS / "bench_sweep_rllib.py"), json.dumps({**work, **VARIANTS[variant]})]
        times, lines = timed(command, BENCH, lambda text: FIRST_RESULT in text)
        said = next(line for line in reversed(lines) if line.startswith("{"))
        return checked(work, {**times, **json.loads(said)})

    return run


def rlrun_side(work: Measurement, cache: Path | None) -> Side:
    """Returns what runs the sweep with rlrun once: the command that a user types.

    Args:
        work: The sweep.
        cache: Where compiled updates are kept; None for a place in which there are none yet.
    """

    def run() -> Measurement:
        with tempfile.TemporaryDirectory() as directory:
            spec, runs = Path(directory) / "spec.yaml", Path(directory) / "runs"
            spec.write_text(json.dumps({"bench": spec_of(work)}))
            command = [sys.executable, "-m", "rlrun", "train", "-f", str(spec), "--runs-dir", str(runs)]
            times, _ = timed(
                command,
                cache or Path(directory) / "cache",
                lambda text: any(runs.glob("*/*/result.json")),
            )
            last = [json.loads(path.read_text().splitlines()[-1]) for path in sorted(runs.glob("*/*/result.json"))]
        return checked(
            work,
            {
                **times,
                "returns": [row["episode_return_mean"] for row in last],
                "env_steps": [row["env_steps"] for row in last],
                "training_s": [row["time_total_s"] for row in last],
            },
        )

    return run


def spec_of(work: Measurement) -> Measurement:
    """Returns the sweep as a spec."""
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
    """Returns a measurement if every trial has done its work.

    Raises:
        SystemExit: If one has not.
    """
    trials = len(work["lrs"]) * len(work["seeds"])
    if len(found["env_steps"]) != trials or min(found["env_steps"]) < work["env_steps"]:
        raise SystemExit(f"{trials} trials of {work['env_steps']} env steps were wanted, and these came: {found}")
    return found


# What rlrun's sweeps cost, from inside.


def controller() -> Measurement:
    """Measures trials of iterations of one second."""
    found = inside({"kind": "controller", "trials": 4, "cpus": 0.5, "iterations": 30, "iteration_s": 1.0})
    print("\ntrials whose iterations take 1 s, four at a time: what comes on top, share of the iterations' own time")
    told = ", ".join(f"{share:.2%}" for share in found["overheads"])
    print(f"under Tune {told}; the trial loop alone {found['loop_overhead']:.2%}; aim < 5 %", flush=True)
    return found


def start() -> list[Measurement]:
    """Measures how long a place is empty between two trials, with one and with two trials at a time."""
    print(f"\n{'seconds from the end of a trial to':36}{'the next is placed':>19}{'its first result':>17}  (range)")
    found = []
    for places in (1, 2):
        measured = inside({"kind": "start", "places": places, "trials": 10})
        placed, first = measured["to_start_s"], measured["to_first_result_s"]
        row = f"{statistics.median(placed):>19.2f}{statistics.median(first):>17.2f}  {spread(first, 2)}"
        print(f"{f'{places} at a time':36}{row}, aim < 2", flush=True)
        print(f"  the very first result came after {measured['very_first_s']:.1f} s, Ray's start included", flush=True)
        found.append(measured)
    return found


def inside(order: Measurement) -> Measurement:
    return last_line([sys.executable, str(SCRIPTS / "bench_sweep_inside.py"), json.dumps({**order, "cores": CPUS})])


# Processes.


def timed(command: Sequence[str], cache: Path, has_result: Callable[[str], bool]) -> tuple[Measurement, list[str]]:
    """Runs a command; returns the seconds to its first result and to its end, and the lines it printed.

    Args:
        command: What to run.
        cache: Where rlrun keeps compiled updates.
        has_result: Told what was printed so far, says whether there is a result; asked twenty times a second.
    """
    first = None
    with tempfile.NamedTemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=one_thread(cache), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, text=True
        )
        while process.poll() is None:
            if first is None and has_result(Path(output.name).read_text()):
                first = time.perf_counter() - began
            time.sleep(LOOK_EVERY_S)
        total = time.perf_counter() - began
        text = Path(output.name).read_text()
    if process.returncode != 0 or first is None:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {process.returncode}:\n{text}")
    return {"first_result_s": first, "total_s": total}, text.splitlines()


def last_line(command: Sequence[str]) -> Measurement:
    """Runs a command and returns what its last line says."""
    done = subprocess.run(
        command, env=one_thread(BENCH / "rlrun-cache"), cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {done.returncode}:\n{done.stderr}")
    measurement: Measurement = json.loads(done.stdout.splitlines()[-1])
    return measurement


def median(runs: Sequence[Measurement], name: str) -> float:
    return float(statistics.median(run[name] for run in runs))


if __name__ == "__main__":
    main()
