"""What curiosity and a constraint cost: PPO with and without them, in turns, in one process.

    python scripts/bench_curiosity.py
    python scripts/bench_curiosity.py --iterations 40 --kinds none rnd

Each kind is trained in the same env with the same settings, an iteration of 2,048 rows in turn. A line gives the CPU
time of the fastest iteration, which other work on the machine changes least; the first one does not count.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import rlrun

ENV: dict[str, Any] = {"id": "rlrun.envs.two_lanes:TwoLanes", "kwargs": {"episode_len": 200}, "columns": ["cost"]}
"""A fast env with small observations, beside which the networks weigh the most."""

KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "rnd": {"curiosity": {"kind": "rnd"}},
    "icm": {"curiosity": {"kind": "icm"}},
    "re3": {"curiosity": {"kind": "re3"}},
    "constraint": {"constraint": {"column": "cost", "limit": 20.0}},
}


def main() -> None:
    """Prints the CPU time of each kind, and how much more it is than that of PPO alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=20, help="iterations of each kind")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    chosen = parser.parse_args()
    trained = {kind: rlrun.Training(ENV, rlrun.PPO(**KINDS[kind]), seed=100) for kind in chosen.kinds}
    seconds: dict[str, list[float]] = {kind: [] for kind in trained}
    for _ in range(chosen.iterations + 1):
        for kind, training in trained.items():
            began = time.process_time()
            training.step()
            seconds[kind].append(time.process_time() - began)
    fastest = {kind: min(own[1:]) for kind, own in seconds.items()}
    for kind, own in fastest.items():
        more = f"   {own / fastest['none'] - 1:+.0%}" if "none" in fastest else ""
        print(f"{kind:<12}{1000 * own:>8,.0f} ms{more}")


if __name__ == "__main__":
    main()
