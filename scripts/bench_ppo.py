"""Measures PPO with Stable-Baselines3 and with rlrun, in turn, on the same work, one thread each.

    python scripts/bench_ppo.py [--quick] [--only A1,A2,...] [--repeats N] [--json FILE]

A1            CartPole-v1 with 64 x 64 nets and small minibatches, which cost more calls than products
A2            the same with large minibatches
sampling      the same without any learning
wide          CartPole-v1 with larger nets, where both spend their time in the same products
half_cheetah  MuJoCo's HalfCheetah-v5, with small and with larger nets
pong          Atari Pong as SB3 and rlrun preprocess it, with the convolutional net of DQN's paper
solve         CartPole-v1 from Enter to a mean return of 475

Both run the same env, network, batch, minibatches and epochs, several times in alternation, so that what else the
machine does falls on both. Rates are env steps per second after warm-up: the first iterations, with imports and the
compilation of rlrun's update, do not count. On a machine that is busy otherwise look at the ratio by CPU time. The wall
times at the end count everything from Enter on.

Stable-Baselines3 gets a venv of its own under `.bench/`, made at the first call, with the torch, gymnasium, NumPy,
MuJoCo and ALE that rlrun runs with. Two differences are left between the two: Stable-Baselines3 standardises advantages
per minibatch, rlrun per batch; and the row in which rlrun begins an episode anew does not count as an env step of it.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_peers import BENCH, ROOT, machine, make_venv, one_thread, same_version, spread
from bench_ppo_rlrun import spec_of

SCRIPTS = Path(__file__).resolve().parent
SB3_VENV = "sb3-venv"
SB3 = "Stable-Baselines3"
PART_TIMEOUT_S = 900.0
TIMES = ("first_result_s", "total_s", "cpu_s")
HEADING = f"{'env steps/s, median':42}{'SB3':>9}{'rlrun':>9}{'ratio':>7}  {'(range)':12}{'by CPU time':>12}{'aim':>7}"
FIRST_RESULT = re.compile(r"env steps, return")

Measurement = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """One piece of work for both sides.

    Attributes:
        part: What `--only` calls it.
        title: What the table calls it.
        kind: "train", "sampling" or "solve".
        num_envs: B, parallel envs.
        fragment: T, steps of each env per iteration.
        minibatch: Steps in a minibatch.
        epochs: Passes over a batch.
        warm_up: Iterations that do not count.
        iterations: Iterations that do.
        aim: The ratio that rlrun is to reach.
        env: The env's id.
        hiddens: Widths of the dense layers; for images those behind the encoder.
    """

    part: str
    title: str
    kind: str
    num_envs: int
    fragment: int
    minibatch: int
    epochs: int
    warm_up: int
    iterations: int
    aim: float
    env: str
    hiddens: tuple[int, ...]

    def order(self, seed: int, *, quick: bool = False) -> dict[str, Any]:
        """Returns what a side is told to do."""
        order = {**asdict(self), "seed": seed, "lr": 3e-4, "gamma": 0.99, "gae_lambda": 0.95}
        order["wanted_return"], order["max_env_steps"] = 475.0, 300_000
        if quick:
            order["iterations"] = max(3, self.iterations // 4)
        return order


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        parts: Which parts to measure.
        quick: Whether fewer iterations do.
        repeats: Repetitions of each side.
        json: Where every measurement is written to; None for nowhere.
    """

    parts: Sequence[str]
    quick: bool
    repeats: int
    json: Path | None


CARTPOLE, CHEETAH, SMALL = "CartPole-v1", "HalfCheetah-v5", (64, 64)
A1 = Work("A1", "A1: 8 envs x 256, minibatch 64, 10 epochs", "train", 8, 256, 64, 10, 2, 20, 10.0, CARTPOLE, SMALL)
RATES = (
    A1,
    Work("A2", "A2: 32 envs x 128, minibatch 1024, 4 epochs", "train", 32, 128, 1024, 4, 3, 40, 7.0, CARTPOLE, SMALL),
    Work("sampling", "sampling and advantages only, 8 envs", "sampling", 8, 256, 64, 1, 2, 20, 10.0, CARTPOLE, SMALL),
    Work("sampling", "sampling and advantages only, 64 envs", "sampling", 64, 256, 64, 1, 2, 12, 10.0, CARTPOLE, SMALL),
    Work("wide", "CartPole, A1 with 256 x 256", "train", 8, 256, 64, 10, 2, 8, 5.0, CARTPOLE, (256, 256)),
    Work("wide", "CartPole, 1024 x 1024, minibatch 256", "train", 8, 256, 256, 4, 1, 4, 1.5, CARTPOLE, (1024, 1024)),
    Work("half_cheetah", "HalfCheetah, A1's batches, 64 x 64", "train", 8, 256, 64, 10, 2, 10, 6.0, CHEETAH, SMALL),
    Work("half_cheetah", "HalfCheetah, 256 x 256", "train", 8, 256, 64, 10, 2, 6, 4.0, CHEETAH, (256, 256)),
    Work("pong", "Pong, minibatch 256, 4 epochs", "train", 8, 128, 256, 4, 1, 4, 1.5, "ALE/Pong-v5", ()),
)
PARTS = ("A1", "A2", "sampling", "wide", "half_cheetah", "pong", "solve")


def main() -> None:
    options = options_of(str(__doc__), PARTS)
    parts, repeats = options.parts, options.repeats
    make_sb3_venv()
    about = surroundings(repeats)
    print("\n".join(f"{name}: {value}" for name, value in about.items()), flush=True)
    found: dict[str, Any] = {"about": about, "rates": [], "solve": {}}
    works = [work for work in RATES if work.part in parts]
    if works:
        print(f"\n{HEADING}", flush=True)
        found["rates"] = [compared(work, repeats, quick=options.quick) for work in works]
        print_shares(found["rates"])
    if "solve" in parts:
        found["solve"] = solve(repeats)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def options_of(description: str, known: Sequence[str]) -> Options:
    """Returns what the command line asks for.

    Args:
        description: The script's docstring, of which the first line is shown.
        known: The parts that there are.
    """
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer repetitions")
    parser.add_argument("--only", default=",".join(known), help=f"comma-separated parts of {','.join(known)}")
    parser.add_argument("--repeats", type=int, help="repetitions of each side; 3, with --quick 2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(known):
        parser.error(f"--only knows {', '.join(known)}, not {', '.join(sorted(unknown))}")
    return Options(parts, options.quick, options.repeats or (2 if options.quick else 3), options.json)


def make_sb3_venv() -> None:
    """Makes the venv of Stable-Baselines3, unless one with the same packages is there."""
    shared = ("torch", "gymnasium", "numpy", "mujoco", "imageio", "packaging", "ale-py")
    make_venv(SB3_VENV, ["stable-baselines3==2.9.*", "opencv-python-headless==5.*", *map(same_version, shared)])


def sb3_python() -> str:
    return str(BENCH / SB3_VENV / "bin" / "python")


def part_of(command: Sequence[str], cache: Path) -> Measurement:
    """Runs one side and returns what it measured."""
    done = subprocess.run(
        command, env=one_thread(cache), cwd=ROOT, capture_output=True, text=True, timeout=PART_TIMEOUT_S
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {done.returncode}:\n{done.stderr}")
    measurement: Measurement = json.loads(done.stdout.splitlines()[-1])
    return measurement


def sb3_side(order: Measurement, name: str = "bench_ppo") -> list[str]:
    return [sb3_python(), str(SCRIPTS / f"{name}_sb3.py"), json.dumps(order)]


def rlrun_side(order: Measurement, name: str = "bench_ppo") -> list[str]:
    return [sys.executable, str(SCRIPTS / f"{name}_rlrun.py"), json.dumps(order)]


def surroundings(repeats: int) -> dict[str, str]:
    """Returns where and with what this is measured."""
    theirs = part_of(sb3_side({"kind": "versions"}), BENCH)
    ours = {name: version(name) for name in ("torch", "gymnasium", "numpy")}
    differing = [f"{name} {theirs[name]}" for name in ours if theirs[name] != ours[name]]
    return {
        "machine": machine(),
        "versions": f"rlrun {version('rlrun')}, Stable-Baselines3 {theirs['stable-baselines3']}, "
        f"Python {platform.python_version()}, " + ", ".join(f"{name} {number}" for name, number in ours.items()),
        **({"differing on the other side": ", ".join(differing)} if differing else {}),
        "how": f"one thread each, in turn, {repeats} repetitions, seeds 0 to {repeats - 1}",
    }


def compared(work: Work, repeats: int, *, quick: bool, name: str = "bench_ppo") -> dict[str, Any]:
    """Measures both sides in alternation, prints the row of the table and returns the numbers.

    Args:
        work: What both do.
        repeats: How often each.
        quick: Whether fewer iterations do.
        name: What the names of both sides' scripts begin with.
    """
    measured: dict[str, list[Measurement]] = {SB3: [], "rlrun": []}
    for seed in range(repeats):
        order = work.order(seed, quick=quick)
        measured[SB3].append(part_of(sb3_side(order, name), BENCH))
        measured["rlrun"].append(part_of(rlrun_side(order, name), BENCH / "rlrun-cache"))
    theirs, ours = (median_rate(measured[side], "seconds") for side in (SB3, "rlrun"))
    pairs = [
        rate(one, "seconds") / rate(other, "seconds")
        for one, other in zip(measured["rlrun"], measured[SB3], strict=True)
    ]
    by_cpu = median_rate(measured["rlrun"], "cpu_seconds") / median_rate(measured[SB3], "cpu_seconds")
    print(
        f"{work.title:42}{theirs:>9,.0f}{ours:>9,.0f}{ours / theirs:>7.2f}  {spread(pairs):12}{by_cpu:>12.2f}"
        f"{f'>= {work.aim:g}':>7}",
        flush=True,
    )
    return {
        "part": work.part,
        "title": work.title,
        "ratio": ours / theirs,
        "ratio_by_cpu_time": by_cpu,
        "aim": work.aim,
        "measured": measured,
    }


def rate(part: Measurement, clock: str) -> float:
    return float(part["env_steps"] / part[clock])


def median_rate(parts: Sequence[Measurement], clock: str) -> float:
    return statistics.median(rate(part, clock) for part in parts)


def print_shares(rows: Sequence[Measurement]) -> None:
    """Prints where rlrun's time goes, the largest shares first."""
    for row in rows:
        parts = [part["shares"] for part in row["measured"]["rlrun"] if "shares" in part]
        if parts:
            shares = {name: statistics.median(part[name] for part in parts) for name in parts[0]}
            largest = sorted(shares.items(), key=lambda item: -item[1])
            told = ", ".join(f"{name} {share:.1%}" for name, share in largest if share >= 0.001)
            print(f"rlrun's time in {row['part']}: {told}")


def solve(repeats: int) -> dict[str, list[Measurement]]:
    """Measures the wall time from Enter to the first result and to a mean return of 475, process start included.

    rlrun starts each spec once with an empty cache of compiled updates, which then serves the repetitions.
    """
    heading = f"{'seconds from Enter to':46}{'first result':>13}{'475 and exit':>13}  {'(range)':16}"
    print(f"\n{heading}{'CPU time':>9}{'env steps':>10}", flush=True)
    shipped = ROOT / "configs" / "cartpole" / "ppo.yaml"
    found: dict[str, list[Measurement]] = {}
    with tempfile.TemporaryDirectory() as directory:
        cache, spec = Path(directory) / "cache", Path(directory) / "spec.yaml"
        spec.write_text(json.dumps({"bench": spec_of({**A1.order(0), "kind": "solve"})}))
        sides: dict[str, Callable[[int], Measurement]] = {
            "SB3, settings of A1": sb3_solved,
            "rlrun, settings of A1": lambda seed: rlrun_solved(spec, seed, cache),
            "rlrun, configs/cartpole/ppo.yaml": lambda seed: rlrun_solved(shipped, seed, cache),
        }
        for name in list(sides)[1:]:
            found[f"{name}, very first run"] = [sides[name](0)]
        for seed in range(repeats):
            for name, side in sides.items():
                found.setdefault(name, []).append(side(seed))
    for name, runs in found.items():
        first, total, cpu, steps = (statistics.median(run[key] for run in runs) for key in (*TIMES, "env_steps"))
        missed = sum(not run["is_reached"] for run in runs)
        row = f"{name:46}{first:>13.1f}{total:>13.1f}  {spread([run['total_s'] for run in runs]):16}{cpu:>9.1f}"
        print(f"{row}{steps:>10,.0f}" + (f"  {missed} of {len(runs)} never reached it" if missed else ""), flush=True)
    return found


def sb3_solved(seed: int) -> Measurement:
    times, lines = timed(sb3_side({**A1.order(seed), "kind": "solve"}), BENCH)
    return {"seed": seed, **times, **json.loads(lines[-1])}


def rlrun_solved(spec: Path, seed: int, cache: Path) -> Measurement:
    """Runs the command that a user types; 475 is one more of the spec's stop criteria."""
    with tempfile.TemporaryDirectory() as runs:
        command = [sys.executable, "-m", "rlrun", "train", "-f", str(spec), "--seed", str(seed), "--runs-dir", runs]
        times, _ = timed([*command, "--set", "stop.episode_return_mean=475"], cache)
        (results,) = Path(runs).glob("*/*/result.json")
        last = json.loads(results.read_text().splitlines()[-1])
    is_reached = (last["episode_return_mean"] or 0.0) >= 475
    return {"seed": seed, **times, "env_steps": last["env_steps"], "is_reached": is_reached}


def timed(command: Sequence[str], cache: Path) -> tuple[Measurement, list[str]]:
    """Runs a command; returns its `TIMES` (first result on the screen, end, CPU seconds) and its lines."""
    began, cpu_before = time.perf_counter(), cpu_of_children()
    first, lines = None, []
    with subprocess.Popen(
        command, env=one_thread(cache), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if first is None and FIRST_RESULT.search(line):
                first = time.perf_counter() - began
    if process.returncode != 0 or first is None:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {process.returncode}:\n{''.join(lines)}")
    measured = (first, time.perf_counter() - began, cpu_of_children() - cpu_before)
    return dict(zip(TIMES, measured, strict=True)), lines


def cpu_of_children() -> float:
    """Returns the CPU seconds of all processes that were started here and have ended, with those they started."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
