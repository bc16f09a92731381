"""Measures IMPALA and APPO with RLlib, Sample Factory and rlrun, in turn, on the same work and the same 2 CPUs.

    python scripts/bench_impala.py [--only cartpole,pong,variants] [--repeats N] [--warm-up S] [--window S] [--json F]

cartpole  IMPALA on CartPole-v1, 2 workers x 32 envs: RLlib and rlrun
pong      IMPALA and APPO on ALE/Pong-v5, 2 workers x 4 envs: RLlib's IMPALA, rlrun's both, Sample Factory's APPO
variants  only if asked for: every way of running RLlib once, to see which one is the fastest

All sides have the same fragments, batches, networks and one pass over each batch, two worker processes with one thread
each, a learner with one thread, and the same two CPUs for everything. Rates are steps that an env was given an action
for (of four frames in Pong), per second, in a window that begins when a side has learned for the warm-up. On a machine
that is busy otherwise look at the ratio by CPU time: that of all processes of a side. Neither side writes result files.

RLlib and Sample Factory get venvs of their own under `.bench/`, made at the first call, with the torch and ale-py that
rlrun runs with. What is not the same:

- RLlib's batches are of the fragments that fill them, as rlrun's are, and what it calls an env step is one too. It is
  the new API stack, with the learner in a thread of the process that hands out the work, where rlrun has it too; the
  old stack, and a learner in a process of its own, are among the variants.
- Games, frames and stacking: RLlib has ALE's vector env, as rlrun has, which is faster than the single games and the
  stacking by connectors of RLlib's examples ("connectors" among the variants); Sample Factory has single games, because
  it wants a Gymnasium that ALE's vector env does not know. Frames are uint8 on every way between processes.
- rlrun seeds each episode, for which ALE reads the ROM again; the others go on with the generator of a game.
- CartPole is Gymnasium's vector env in RLlib, and rlrun's own, equal to it, in rlrun.
- Sample Factory acts in a process of its own for both workers, counts the steps that it has learned from, and takes GAE
  in place of V-trace, which fails in the version that is out.
- rlrun's updates of CartPole's network are compiled, as by default in any long run; the others' are not, as by default.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_peers import BENCH, ROOT, machine, make_venv, one_thread, same_version, spread

SCRIPTS = Path(__file__).resolve().parent
RLLIB = "2.60.0"
SAMPLE_FACTORY = "2.1.1"
RLLIB_VENV = "rllib-venv"
SAMPLE_FACTORY_VENV = "sample-factory-venv"
PARTS = ("cartpole", "pong", "variants")
CPUS = 2
TIMEOUT_S = 600.0

Measurement = dict[str, Any]

SETTINGS: Measurement = {"kind": "train", "workers": 2, "lr": 5e-4, "gamma": 0.99}
CARTPOLE: Measurement = {**SETTINGS, "env": "CartPole-v1", "num_envs": 32, "fragment": 50, "batch": 1600}
PONG: Measurement = {**SETTINGS, "env": "ALE/Pong-v5", "num_envs": 4, "fragment": 25, "batch": 500}
VARIANTS = {
    "cartpole": ("new", "vector", "vector, learner apart", "old"),
    "pong": ("connectors", "vector", "vector, learner apart", "old"),
}
FASTEST = {"cartpole": "vector", "pong": "vector"}


@dataclass(frozen=True)
class Side:
    """One framework's way of doing a piece of work.

    Attributes:
        name: What the table calls it.
        python: Path of the Python that runs it.
        script: Its script beside this one.
        changes: What its order says beyond the work.
        aim: The ratio to the first side that it is to reach, None for none.
    """

    name: str
    python: str
    script: str
    changes: Measurement
    aim: float | None = None

    def measured(self, work: Measurement) -> Measurement:
        """Runs it once and returns what it measured."""
        command = [self.python, str(SCRIPTS / self.script), json.dumps({**work, **self.changes})]
        return last_line(command)


def rllib(variant: str) -> Side:
    python = str(BENCH / RLLIB_VENV / "bin" / "python")
    return Side(f"RLlib IMPALA ({variant})", python, "bench_impala_rllib.py", {"variant": variant})


def rlrun(algorithm: str, aim: float | None, **config: Any) -> Side:
    changes = {"algorithm": algorithm, "config": config}
    name = f"rlrun {algorithm.upper()}{', bfloat16' if config.get('precision') == 'bfloat16' else ''}"
    return Side(name, sys.executable, "bench_impala_rlrun.py", changes, aim)


def sample_factory() -> Side:
    python = str(BENCH / SAMPLE_FACTORY_VENV / "bin" / "python")
    return Side("Sample Factory APPO", python, "bench_impala_sample_factory.py", {})


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--only", default="cartpole,pong", help=f"comma-separated parts of {','.join(PARTS)}")
    parser.add_argument("--repeats", type=int, default=2, help="repetitions of each side")
    parser.add_argument(
        "--warm-up", type=float, default=10.0, metavar="S", help="seconds of learning before the window"
    )
    parser.add_argument("--window", type=float, default=30.0, metavar="S", help="seconds that are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])  # and so for all that is started here
    make_venvs()
    about = surroundings(options.repeats)
    print("\n".join(f"{name}: {value}" for name, value in about.items()), flush=True)
    clocks = {"warm_up_s": options.warm_up, "window_s": options.window}
    cartpole, pong = {**CARTPOLE, **clocks}, {**PONG, **clocks}
    found: dict[str, Any] = {"about": about, "cartpole_work": cartpole, "pong_work": pong}
    if "variants" in parts:
        for part, work in (("cartpole", cartpole), ("pong", pong)):
            sides = [rllib(variant) for variant in VARIANTS[part]]
            found[f"variants of {part}"] = compared(f"RLlib's variants on {work['env']}", work, sides, 1)
    if "cartpole" in parts:
        title = "CartPole-v1, 2 workers x 32 envs"
        found["cartpole"] = compared(
            title, cartpole, [rllib(FASTEST["cartpole"]), rlrun("impala", 8.0)], options.repeats
        )
    if "pong" in parts:
        eager = {"compile": False}  # oneDNN's convolutions are as fast without
        half = {**eager, "precision": "bfloat16"}
        ours = [rlrun(algorithm, 2.5, **config) for config in (eager, half) for algorithm in ("impala", "appo")]
        sides = [rllib(FASTEST["pong"]), *ours, sample_factory()]
        found["pong"] = compared("ALE/Pong-v5, 2 workers x 4 envs", pong, sides, options.repeats)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def make_venvs() -> None:
    """Makes the venvs of the other frameworks, unless they are there."""
    shared = [same_version("torch"), same_version("ale-py")]
    make_venv(RLLIB_VENV, [f"ray[rllib,tune]=={RLLIB}", same_version("numpy"), *shared, "opencv-python-headless==5.*"])
    make_venv(SAMPLE_FACTORY_VENV, [f"sample-factory=={SAMPLE_FACTORY}", *shared])


def surroundings(repeats: int) -> dict[str, str]:
    """Returns where and with what this is measured."""
    ours = {name: version(name) for name in ("torch", "ray", "gymnasium", "ale-py", "numpy")}
    return {
        "machine": machine(),
        "rlrun": f"{version('rlrun')}, Python {platform.python_version()}, " + told(ours),
        "RLlib": told(last_line([*command_of(rllib("vector")), json.dumps({"kind": "versions"})])),
        "Sample Factory": told(last_line([*command_of(sample_factory()), json.dumps({"kind": "versions"})])),
        "how": f"on CPUs {', '.join(map(str, sorted(os.sched_getaffinity(0))))}, one thread per process, in turn, "
        f"{repeats} repetitions, seeds 0 to {repeats - 1}",
    }


def command_of(side: Side) -> list[str]:
    return [side.python, str(SCRIPTS / side.script)]


def told(versions: Measurement) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def compared(title: str, work: Measurement, sides: Sequence[Side], repeats: int) -> dict[str, list[Measurement]]:
    """Measures all sides in alternation, prints a row for each with ratios to the first, and returns the numbers."""
    found: dict[str, list[Measurement]] = {side.name: [] for side in sides}
    for seed in range(repeats):
        for side in sides:
            found[side.name].append({**side.measured({**work, "seed": seed}), "load": os.getloadavg()[0]})
    print(f"\n{title}, fragments of {work['fragment']} steps, batches of {work['batch']}")
    columns = (
        f"{'env steps/s':>12}  {'(range)':20}{'per CPU s':>10}{'ratio':>8}{'by CPU time':>13}{'aim':>8}{'load':>7}"
    )
    print(f"{'':28}{columns}")
    first = found[sides[0].name]
    for side in sides:
        runs = found[side.name]
        rates = [rate(run, "seconds") for run in runs]
        ratio, by_cpu = (median_rate(runs, clock) / median_rate(first, clock) for clock in ("seconds", "cpu_seconds"))
        aim = "" if side.aim is None else f">= {side.aim:g}"
        load = statistics.median(run["load"] for run in runs)
        row = f"{side.name:28}{statistics.median(rates):>12,.0f}  {spread(rates, 0):20}"
        print(
            f"{row}{median_rate(runs, 'cpu_seconds'):>10,.0f}{ratio:>8.2f}{by_cpu:>13.2f}{aim:>8}{load:>7.1f}",
            flush=True,
        )
    for side in sides:
        print_shares(side.name, found[side.name])
    return found


def print_shares(name: str, runs: Sequence[Measurement]) -> None:
    """Prints where the time of rlrun's learning process goes, the largest shares first, and how old its data is."""
    if "shares" not in runs[0]:
        return
    shares = {part: statistics.median(run["shares"][part] for run in runs) for part in runs[0]["shares"]}
    largest = sorted(shares.items(), key=lambda item: -item[1])
    said = ", ".join(f"{part} {share:.1%}" for part, share in largest if share >= 0.001)
    lag = statistics.median(run["policy_lag"] for run in runs)
    longest = max(run["policy_lag_max"] for run in runs)
    print(f"{name}: policy lag {lag:.2f}, at most {longest:g}; learner waits {shares.get('waiting', 0.0):.1%}; {said}")


def rate(run: Measurement, clock: str) -> float:
    return float(run["env_steps"] / run[clock])


def median_rate(runs: Sequence[Measurement], clock: str) -> float:
    return float(statistics.median(rate(run, clock) for run in runs))


def last_line(command: Sequence[str]) -> Measurement:
    """Runs a command and returns what its last line of JSON says."""
    environment = one_thread(BENCH / "rlrun-cache")
    try:
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(command)}\ntook longer than {TIMEOUT_S:g} s") from None
    said = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not said:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    measurement: Measurement = json.loads(said[-1])
    return measurement


if __name__ == "__main__":
    main()
