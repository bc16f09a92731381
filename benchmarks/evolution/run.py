"""Compares augmented random search in rlrun with sb3-contrib's ARS: the sides take turns, each with one thread.

    python -m benchmarks.evolution.run [--only linear,dense] [--repeats N] [--set iterations=N] [--json FILE]

CartPole-v1 with 8 perturbations per generation, each tried in both directions, and all of them used in the update.
Rates are env steps per second of whole generations, starting with the third, while both sides learn. sb3-contrib
evaluates its candidates one after another; rlrun evaluates all 16 side by side, so the longest episode determines the
time of a generation. Therefore, rlrun gains little if episode lengths vary widely, as they do early in training.

linear  a linear policy
dense   a policy with two layers of 64
"""

from __future__ import annotations

from benchmarks.peers import SB3, Measurement, benchmark
from benchmarks.ppo.run import CARTPOLE, work

ARS: Measurement = {"env": CARTPOLE, "num_pairs": 8, "num_envs": 16, "warm_up": 2, "iterations": 40}
WORKS = (
    work("linear", "ARS: 8 pairs, linear", {SB3: 10}, {**ARS, "hiddens": ()}, topic="evolution", floor=False),
    work("dense", "ARS: 8 pairs, 64 x 64", {SB3: 10}, {**ARS, "hiddens": (64, 64)}, topic="evolution", floor=False),
)

if __name__ == "__main__":
    benchmark(str(__doc__), WORKS, ("torch", "gymnasium", "numpy"))
