"""Measures recurrent PPO with sb3-contrib's RecurrentPPO and with rlrun, in turn, on the same work, one thread each.

    python scripts/bench_recurrent.py [--quick] [--only zoo,longer] [--repeats N] [--json FILE]

CartPole-v1 without its velocities, with an LSTM of 64 for the policy and another for the value, and a dense layer of
64 beside each: before the LSTM in rlrun, behind it in sb3-contrib. Both have the same envs, batches, minibatches and
epochs. Rates are env steps per second after warm-up. On a machine that is busy otherwise look at the ratio by CPU time.

zoo     the settings of RL Baselines3 Zoo for this env: 8 envs x 32 steps, all of them one minibatch, 20 epochs
longer  8 envs x 128 steps, minibatches of 256, 10 epochs; rlrun's sequences have 16 steps as by default, those of
        sb3-contrib are as long as episodes and fragments, since they have no setting

rlrun's updates are computed as in a run of 100,000 env steps, which compiles nothing. Stable-Baselines3's venv under
`.bench/` gets sb3-contrib.
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
class RecurrentWork(Work):
    """One piece of recurrent PPO for both sides.

    Attributes:
        core_width: H of the LSTMs.
        sequence: Steps that gradients flow back over in rlrun.
    """

    core_width: int
    sequence: int


WORKS = (
    RecurrentWork("zoo", "LSTM: 8 envs x 32, minibatch 256, 20 epochs", "train", 8, 32, 256, 20, 3, 40, 3.0, 64, 32),
    RecurrentWork(
        "longer", "LSTM: 8 envs x 128, minibatch 256, 10 epochs", "train", 8, 128, 256, 10, 3, 20, 3.0, 64, 16
    ),
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
    rates = [compared(work, repeats, quick=options.quick, name="bench_recurrent") for work in works]
    print_shares(rates)
    if options.json:
        found: dict[str, Any] = {"about": about, "rates": rates}
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
