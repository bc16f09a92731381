"""Measures what curiosity and a constraint add to PPO's time: all kinds take turns in one process.

    python -m benchmarks.curiosity.run
    python -m benchmarks.curiosity.run --iterations 40 --kinds none rnd

Each kind trains in the same env with the same settings, and they alternate after each iteration of 2,048 rows. A line
shows the CPU time of the fastest iteration, which other work on the machine affects least, without the first one.
"""

from __future__ import annotations

from typing import Any

import rlrun
from benchmarks.peers import fastest, parser_of, print_row, write_json

ENV: dict[str, Any] = {"id": "rlrun.toys:TwoLanes", "kwargs": {"episode_len": 200}, "columns": ["cost"]}
"""A fast env with small observations, so that the networks take most of the time."""

KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "rnd": {"curiosity": {"kind": "rnd"}},
    "icm": {"curiosity": {"kind": "icm"}},
    "re3": {"curiosity": {"kind": "re3"}},
    "constraint": {"constraint": {"column": "cost", "limit": 20.0}},
}


def main() -> None:
    """Prints the CPU time of each kind, and its ratio to PPO alone."""
    parser = parser_of(str(__doc__))
    parser.add_argument("--iterations", type=int, default=20, help="iterations of each kind")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    chosen = parser.parse_args()
    trained = {kind: rlrun.Training(ENV, rlrun.PPO(**KINDS[kind]), seed=100) for kind in chosen.kinds}
    for training in trained.values():
        training.step()
    found = fastest({kind: training.step for kind, training in trained.items()}, chosen.iterations)
    for kind, own in found.items():
        print_row(kind, f"{1000 * own:,.0f} ms", f"{own / found['none'] - 1:+.0%}" if "none" in found else "")
    write_json(chosen.json, found)


if __name__ == "__main__":
    main()
