"""Measures worlds of many agents: beside RLlib, beside single agents, and beside PettingZoo's own steps.

    python scripts/bench_multiagent.py [--only crowd,array,pettingzoo] [--repeats N] [--window S] [--json FILE]

crowd       PPO, one policy for 64 agents in each of 8 worlds of dicts, with RLlib and with rlrun on the same world
array       sampling in 512 columns: an array world of 256 x 2 CartPoles beside 512 CartPoles of one agent
pettingzoo  sampling in simple_spread beside stepping the world alone, without any policy

Rates are agents' steps a second in a window behind the warm-up; imports and compilation do not count. One thread each.
On a machine that is busy otherwise look at the ratio by CPU time. In `crowd` both sides have the same world, network,
batch, minibatch and passes; RLlib's venv is made under `.bench/` at the first call.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_impala import RLLIB, RLLIB_VENV, Side
from bench_peers import BENCH, machine, make_venv, same_version, spread

PARTS = ("crowd", "array", "pettingzoo")
AGENTS = 64
PPO: Mapping[str, Any] = {
    "num_envs_per_worker": 8,
    "train_batch_size": 16_384,
    "minibatch_size": 512,
    "num_epochs": 2,
    "lr": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "model": {"hiddens": [64, 64]},
}
CROWD = {
    "does": "train",
    "algorithm": "ppo",
    "world": {"world": "bench_multiagent_rlrun:LineWorld", "kwargs": {"num_agents": AGENTS}},
    "num_agents": AGENTS,
    "config": PPO,
}
COLUMNS = {"algorithm": "ppo", "does": "sample"}
ALONE = {
    **COLUMNS,
    "env": "CartPole-v1",
    "config": {**PPO, "num_envs_per_worker": 512, "rollout_fragment_length": 32},
}
IN_WORLDS = {
    **COLUMNS,
    "world": {"world": "rlrun.toys.cartpoles:CartPoleArrays", "kwargs": {"num_agents": 2, "reborn": True}},
    "config": {**PPO, "num_envs_per_worker": 256, "rollout_fragment_length": 32},
}
SPREAD = {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"N": 3}}


def rlrun(name: str, aim: float | None, changes: Mapping[str, Any]) -> Side:
    return Side(name, sys.executable, "bench_multiagent_rlrun.py", dict(changes), aim)


def sides_of(part: str) -> list[Side]:
    """Returns who is compared in a part; ratios are to the first."""
    if part == "crowd":
        rllib = Side("RLlib", str(BENCH / RLLIB_VENV / "bin" / "python"), "bench_multiagent_rllib.py", CROWD)
        return [rllib, rlrun("rlrun", 10.0, CROWD)]
    if part == "array":
        return [rlrun("512 CartPoles", None, ALONE), rlrun("256 x 2 in array worlds", 0.9, IN_WORLDS)]
    sampling = {**COLUMNS, "world": SPREAD, "config": {**PPO, "rollout_fragment_length": 32}}
    return [rlrun("the world alone", None, {"does": "step", "world": SPREAD}), rlrun("rlrun samples", None, sampling)]


TITLES = {
    "crowd": f"PPO, one policy for {AGENTS} agents in each of 8 worlds",
    "array": "sampling in 512 columns",
    "pettingzoo": "simple_spread of PettingZoo, 3 agents in each of 8 worlds",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"comma-separated parts of {','.join(PARTS)}")
    parser.add_argument("--repeats", type=int, default=2, help="repetitions of each side")
    parser.add_argument("--warm-up", type=float, default=3.0, metavar="S", help="seconds of work before the window")
    parser.add_argument("--window", type=float, default=15.0, metavar="S", help="seconds that are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    if "crowd" in parts:
        make_venv(RLLIB_VENV, [f"ray[rllib,tune]=={RLLIB}", same_version("numpy"), same_version("torch")])
    about = {
        "machine": machine(),
        "versions": f"rlrun {version('rlrun')}, RLlib {RLLIB}, PettingZoo {version('pettingzoo')}, "
        f"torch {version('torch')}, Python {platform.python_version()}",
        "how": f"one thread each, in turn, {options.repeats} repetitions, seeds 0 to {options.repeats - 1}",
    }
    print("\n".join(f"{name}: {value}" for name, value in about.items()), flush=True)
    clocks = {"warm_up_s": options.warm_up, "window_s": options.window}
    found: dict[str, Any] = {"about": about}
    for part in parts:
        found[part] = compared(TITLES[part], clocks, sides_of(part), options.repeats)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def compared(title: str, clocks: Mapping[str, Any], sides: Sequence[Side], repeats: int) -> dict[str, list[Any]]:
    """Measures all sides in alternation, prints a row for each with ratios to the first, and returns the numbers."""
    found: dict[str, list[Any]] = {side.name: [] for side in sides}
    for seed in range(repeats):
        for side in sides:
            found[side.name].append(side.measured({**clocks, "seed": seed}))
    print(f"\n{title}")
    print(f"{'':26}{'agent steps/s':>14}  {'(range)':22}{'ratio':>8}{'by CPU time':>13}{'aim':>8}")
    for side in sides:
        runs = found[side.name]
        rates = [run["agent_steps"] / run["seconds"] for run in runs]
        ratio, by_cpu = (
            median_rate(runs, clock) / median_rate(found[sides[0].name], clock) for clock in ("seconds", "cpu_seconds")
        )
        aim = "" if side.aim is None else f">= {side.aim:g}"
        row = f"{side.name:26}{statistics.median(rates):>14,.0f}  {spread(rates, 0):22}"
        print(f"{row}{ratio:>8.2f}{by_cpu:>13.2f}{aim:>8}", flush=True)
    return found


def median_rate(runs: Sequence[Mapping[str, float]], clock: str) -> float:
    return statistics.median(run["agent_steps"] / run[clock] for run in runs)


if __name__ == "__main__":
    main()
