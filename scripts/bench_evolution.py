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

from dataclasses import dataclass

from bench_contrib import measure_beside_contrib
from bench_ppo import CARTPOLE, SMALL, Work


@dataclass(frozen=True)
class EvolutionWork(Work):
    """One piece of augmented random search for both sides.

    Attributes:
        num_pairs: Perturbations in a generation.
    """

    num_pairs: int


WORKS = (
    EvolutionWork("linear", "ARS: 8 pairs, linear", "train", 16, 0, 0, 0, 2, 40, 10.0, CARTPOLE, (), 8),
    EvolutionWork("dense", "ARS: 8 pairs, 64 x 64", "train", 16, 0, 0, 0, 2, 40, 10.0, CARTPOLE, SMALL, 8),
)


if __name__ == "__main__":
    measure_beside_contrib(str(__doc__), WORKS, "bench_evolution")
