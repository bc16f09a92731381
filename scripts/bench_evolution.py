"""Measures augmented random search with sb3-contrib's ARS and with rlrun, in turn, on the same work, one thread each.

    python scripts/bench_evolution.py [--quick] [--only linear,dense] [--repeats N] [--json FILE]

CartPole-v1, 8 perturbations in a generation, each tried as it is and mirrored, all of them followed; rates are env
steps per second of whole generations, from the third on, while both learn. sb3-contrib evaluates its candidates one
after the other, rlrun all 16 side by side: the longest episode of a generation decides how long that takes, so that
rlrun gains little where episodes are of very different length, as they are before anything is learned.

linear  a linear policy
dense   a policy with two layers of 64
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_peers import make_venv
from bench_ppo import HEADING, SB3_VENV, Work, compared, make_sb3_venv, print_shares, surroundings


@dataclass(frozen=True)
class EvolutionWork(Work):
    """One piece of augmented random search for both sides.

    Attributes:
        num_pairs: Perturbations in a generation.
        hiddens: Widths of the policy's layers.
    """

    num_pairs: int
    hiddens: tuple[int, ...]


WORKS = (
    EvolutionWork("linear", "ARS: 8 pairs, linear", "train", 16, 0, 0, 0, 2, 40, 10.0, 8, ()),
    EvolutionWork("dense", "ARS: 8 pairs, 64 x 64", "train", 16, 0, 0, 0, 2, 40, 10.0, 8, (64, 64)),
)
PARTS = tuple(work.part for work in WORKS)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer repetitions")
    parser.add_argument("--only", default=",".join(PARTS), help=f"comma-separated parts of {','.join(PARTS)}")
    parser.add_argument("--repeats", type=int, help="repetitions of each side; 3, with --quick 2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    repeats = options.repeats or (2 if options.quick else 3)
    make_sb3_venv()
    make_venv(SB3_VENV, ["sb3-contrib==2.9.*"])
    about = surroundings(repeats)
    print("\n".join(f"{name}: {value}" for name, value in about.items()), flush=True)
    print(f"\n{HEADING}", flush=True)
    works = [work for work in WORKS if work.part in parts]
    rates = [compared(work, repeats, quick=options.quick, name="bench_evolution") for work in works]
    print_shares(rates)
    if options.json:
        found: dict[str, Any] = {"about": about, "rates": rates}
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
