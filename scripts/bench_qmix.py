"""Measures QMIX beside a plain one (`plain_qmix.py`), in turn, on the same worlds, one thread each.

    python scripts/bench_qmix.py [--only two_step,simple_spread] [--repeats N] [--window S] [--json FILE]

two_step       the two-step game of QMIX's paper: 2 agents, a world that costs next to nothing
simple_spread  PettingZoo's simple_spread: 3 agents, a state of 54 numbers, a world that takes most of rlrun's time

All sides have the same networks (64 x 64, a mixer of 32), double Q-learning, Adam, a minibatch of 128 transitions and
an update for every 4 env steps, which are counted on each. That is 32 transitions learned from for each env step, as in
PyMARL, which learns from 32 episodes behind each episode. The plain one has one copy of the world, as PyMARL has; rlrun
is measured with one and with eight. Rates are steps of the world a second, in a window behind the warm-up; imports and
compilation do not count. On a machine that is busy otherwise look at the ratio by CPU time. rlrun's updates are
compiled, as by default in any long run; the plain one's are not.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_impala import Measurement, Side, told
from bench_offpolicy import compared
from bench_peers import machine
from plain_qmix import DEFAULTS

WORK: Measurement = {
    **DEFAULTS,
    "algorithm": "qmix",
    "epsilon": 0.05,
    "training_intensity": 1 / DEFAULTS["update_every"],
    "fragment": 4,
    "min_env_steps": 1000,
}
INDICATOR = [{"id": "rlrun.worlds.wrappers:AgentIndicator"}]
SPREAD = {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"N": 3, "max_cycles": 25}, "wrappers": INDICATOR}
WORKS: dict[str, tuple[str, Measurement]] = {
    "two_step": (
        "QMIX, the two-step game, minibatch 128, an update every 4 steps",
        {**WORK, "world": {"world": "rlrun.toys.matrix_games:TwoStepGame", "wrappers": INDICATOR}},
    ),
    "simple_spread": (
        "QMIX, simple_spread with 3 agents, minibatch 128, an update every 4 steps",
        {**WORK, "world": SPREAD},
    ),
}


def sides_of(part: str) -> list[Side]:
    """Returns who is compared in a part; ratios are to the first."""
    plain = Side("plain PyTorch", sys.executable, "bench_qmix_plain.py", {"plain_world": part})
    config = {
        "optimizer": "adam",
        "team_reward": "once",
        "mixer_hidden": WORK["mixer_hidden"],
        "target_update_interval": WORK["target_interval"],
        "epsilon": WORK["epsilon"],
    }
    changes = {"config": config}
    return [
        plain,
        Side("rlrun", sys.executable, "bench_offpolicy_rlrun.py", {**changes, "num_envs": 8}, 3.0),
        Side("rlrun, one copy", sys.executable, "bench_offpolicy_rlrun.py", {**changes, "num_envs": 1}),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--only", default=",".join(WORKS), help=f"comma-separated parts of {','.join(WORKS)}")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each side")
    parser.add_argument("--warm-up", type=float, default=2.0, metavar="S", help="seconds of learning before the window")
    parser.add_argument("--window", type=float, default=10.0, metavar="S", help="seconds that are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(WORKS):
        parser.error(f"--only knows {', '.join(WORKS)}, not {', '.join(sorted(unknown))}")
    about = {
        "machine": machine(),
        "versions": f"rlrun {version('rlrun')}, Python {platform.python_version()}, "
        f"{told({name: version(name) for name in ('torch', 'mpe2', 'pettingzoo', 'numpy')})}",
        "how": f"one thread each, in turn, {options.repeats} repetitions, seeds 0 to {options.repeats - 1}",
    }
    print("\n".join(f"{name}: {value}" for name, value in about.items()), flush=True)
    found: dict[str, Any] = {"about": about}
    for part in parts:
        title, work = WORKS[part]
        clocks = {"warm_up_s": options.warm_up, "window_s": options.window}
        found[part] = compared(title, {**work, **clocks}, sides_of(part), options.repeats)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
