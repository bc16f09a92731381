"""Measures augmented random search with sb3-contrib's ARS and with rlrun, in turn, on the same work, one thread each.

    python -m benchmarks.evolution.run [--only linear,dense] [--repeats N] [--set iterations=N] [--json FILE]

CartPole-v1, 8 perturbations in a generation, each tried as it is and mirrored, all of them followed; rates are env
steps per second of whole generations, from the third on, while both learn. sb3-contrib evaluates its candidates one
after the other, rlrun all 16 side by side: the longest episode of a generation decides how long that takes, so that
rlrun gains little where episodes are of very different length, as they are before anything is learned.

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
