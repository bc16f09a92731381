"""Measures DQN, SAC and TD3 with Stable-Baselines3, RLlib and rlrun, in turn, on the same work, one thread each.

    python scripts/bench_offpolicy.py [--only dqn,dqn8,sac,td3,apex] [--repeats N] [--window S] [--json FILE]

dqn   DQN on CartPole-v1, 1 env, an update of a minibatch of 64 for every 4 env steps, 64 x 64
dqn8  the same with 8 envs and the same ratio of updates to env steps
sac   SAC on Pendulum-v1, 256 x 256, a minibatch of 256 and an update for every env step
td3   TD3 likewise
apex  Ape-X DQN on CartPole-v1 with 2 workers: how long the learner waits for data (rlrun alone)

All sides have the same networks, minibatches, capacities and ratios of updates to env steps, which are counted on each.
Rates are env steps per second in a window that begins when a side has learned for the warm-up; imports and compilation
do not count. On a machine that is busy otherwise look at the ratio by CPU time.

What is not the same: rlrun's DQN is double, as RLlib's, with one more pass over each minibatch than the one of
Stable-Baselines3. RLlib's replay is prioritized ("rlrun, prioritized" has the same). In rlrun the row in which an
episode begins anew does not count as an env step. rlrun's updates are compiled, as by default in any long run; the
others' are not, as by default. The venvs of the others are made under `.bench/` at the first call, with the torch that
rlrun runs with.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_impala import RLLIB, RLLIB_VENV, Measurement, Side, median_rate, rate, told
from bench_peers import BENCH, machine, make_venv, same_version, spread
from bench_ppo import SB3, make_sb3_venv, sb3_python

PARTS = ("dqn", "dqn8", "sac", "td3", "apex")
DQN: Measurement = {
    "algorithm": "dqn",
    "env": "CartPole-v1",
    "num_envs": 1,
    "fragment": 4,
    "batch": 64,
    "training_intensity": 0.25,
    "hiddens": [64, 64],
    "capacity": 50_000,
    "learning_starts": 1000,
    "lr": 5e-4,
    "gamma": 0.99,
    "target_interval_steps": 500,
    "min_env_steps": 1000,
}
SAC: Measurement = {
    **DQN,
    "algorithm": "sac",
    "env": "Pendulum-v1",
    "fragment": 1,
    "batch": 256,
    "training_intensity": 1.0,
    "hiddens": [256, 256],
    "learning_starts": 100,
    "lr": 3e-4,
    "tau": 0.005,
    "min_env_steps": 50,
}
WORKS: dict[str, tuple[str, Measurement]] = {
    "dqn": ("DQN, CartPole-v1, 1 env, minibatch 64, an update every 4 steps", DQN),
    "dqn8": (
        "DQN, CartPole-v1, 8 envs, minibatch 64, two updates every 8 steps",
        {**DQN, "num_envs": 8, "fragment": 1},
    ),
    "sac": ("SAC, Pendulum-v1, 256 x 256, minibatch 256, an update every step", SAC),
    "td3": (
        "TD3, Pendulum-v1, 256 x 256, minibatch 256, an update every step",
        {**SAC, "algorithm": "td3", "lr": 1e-3},
    ),
    "apex": ("Ape-X, CartPole-v1, 2 workers", {**DQN, "algorithm": "apex", "fragment": 50, "num_envs": 8}),
}


def rllib() -> Side:
    return Side("RLlib", str(BENCH / RLLIB_VENV / "bin" / "python"), "bench_offpolicy_rllib.py", {})


def sb3() -> Side:
    return Side(SB3, sb3_python(), "bench_offpolicy_sb3.py", {})


def rlrun(name: str, aim: float | None, **config: Any) -> Side:
    return Side(name, sys.executable, "bench_offpolicy_rlrun.py", {"config": config}, aim)


def sides_of(part: str) -> list[Side]:
    """Returns who is compared in a part; ratios are to the first."""
    prioritized = rlrun("rlrun, prioritized", None, replay={"capacity": DQN["capacity"], "prioritized": True})
    return {
        "dqn": [sb3(), rlrun("rlrun", 5.0), prioritized, rllib()],
        "dqn8": [sb3(), rlrun("rlrun", 5.0), prioritized],
        "sac": [sb3(), rlrun("rlrun", 2.0), rllib()],
        "td3": [sb3(), rlrun("rlrun", 2.0)],
        "apex": [rlrun("rlrun", None, num_workers=2)],
    }[part]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"comma-separated parts of {','.join(PARTS)}")
    parser.add_argument("--repeats", type=int, default=2, help="repetitions of each side")
    parser.add_argument("--warm-up", type=float, default=3.0, metavar="S", help="seconds of learning before the window")
    parser.add_argument("--window", type=float, default=15.0, metavar="S", help="seconds that are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    make_sb3_venv()
    make_venv(RLLIB_VENV, [f"ray[rllib,tune]=={RLLIB}", same_version("numpy"), same_version("torch")])
    ours = {name: version(name) for name in ("torch", "gymnasium", "numpy")}
    about = {
        "machine": machine(),
        "versions": f"rlrun {version('rlrun')}, Stable-Baselines3 2.9, RLlib {RLLIB}, "
        f"Python {platform.python_version()}, {told(ours)}",
        "how": f"one thread each, in turn, {options.repeats} repetitions, seeds 0 to {options.repeats - 1}",
    }
    print("\n".join(f"{name}: {value}" for name, value in about.items()), flush=True)
    clocks = {"warm_up_s": options.warm_up, "window_s": options.window}
    found: dict[str, Any] = {"about": about}
    for part in parts:
        title, work = WORKS[part]
        found[part] = compared(title, {**work, **clocks}, sides_of(part), options.repeats)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def compared(title: str, work: Measurement, sides: Sequence[Side], repeats: int) -> dict[str, list[Measurement]]:
    """Measures all sides in alternation, prints a row for each with ratios to the first, and returns the numbers."""
    found: dict[str, list[Measurement]] = {side.name: [] for side in sides}
    for seed in range(repeats):
        for side in sides:
            found[side.name].append(side.measured({**work, "seed": seed}))
    print(f"\n{title}")
    print(f"{'':24}{'env steps/s':>12}  {'(range)':20}{'updates/s':>10}{'ratio':>8}{'by CPU time':>13}{'aim':>8}")
    first = found[sides[0].name]
    for side in sides:
        runs = found[side.name]
        rates = [rate(run, "seconds") for run in runs]
        updates = statistics.median(run["updates"] / run["seconds"] for run in runs)
        ratio, by_cpu = (median_rate(runs, clock) / median_rate(first, clock) for clock in ("seconds", "cpu_seconds"))
        aim = "" if side.aim is None else f">= {side.aim:g}"
        row = f"{side.name:24}{statistics.median(rates):>12,.0f}  {spread(rates, 0):20}{updates:>10,.0f}"
        print(f"{row}{ratio:>8.2f}{by_cpu:>13.2f}{aim:>8}", flush=True)
    for side in sides:
        if "shares" in found[side.name][0]:
            print_shares(side.name, found[side.name])
    return found


def print_shares(name: str, runs: Sequence[Measurement]) -> None:
    """Prints where the time of rlrun's learning process goes, the largest shares first, and how long it waits."""
    shares = {part: statistics.median(run["shares"][part] for run in runs) for part in runs[0]["shares"]}
    largest = sorted(shares.items(), key=lambda item: -item[1])
    said = ", ".join(f"{part} {share:.1%}" for part, share in largest if share >= 0.005)
    print(f"{name}: learner waits {statistics.median(run['waits'] for run in runs):.1%}; {said}")


if __name__ == "__main__":
    main()
