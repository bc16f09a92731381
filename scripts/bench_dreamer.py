"""How many updates a second DreamerV3 makes, by size of its networks, on one core.

    python scripts/bench_dreamer.py
    python scripts/bench_dreamer.py --sizes nano xs --sequences 16 --length 64

An update is that of the world model, the actor and the critic on a minibatch of random sequences of CartPole's form. A
line gives the CPU time of the fastest of several, which other work on the machine changes least.
"""

from __future__ import annotations

import argparse
import time

import gymnasium
import numpy as np
import torch

from rlrun.algorithms.dreamer import Dreamer, DreamerConfig
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.learner.local_learner import LocalLearner
from rlrun.nn.dreamer_model import SIZES

SPACES = Spaces(gymnasium.spaces.Box(-np.inf, np.inf, (4,)), gymnasium.spaces.Discrete(2))
SCHEDULED = {"lr": 1e-4, "actor_lr": 3e-5, "critic_lr": 3e-5, "entropy_coeff": 3e-4}


def learner_of(size: str) -> LocalLearner:
    """Returns a learner with networks of a size."""
    algorithm = Dreamer(DreamerConfig.parse({"model": {"size": size}}))
    policy = algorithm.policy(SPACES, 0)
    return LocalLearner(
        policy,
        algorithm.objectives(policy),
        device="cpu",
        update_executor="eager",
        identity=None,
        seed=0,
        has_target=True,
    )


def random_sequences(state_size: int, rows: int, length: int) -> SampleBatch:
    """Returns a minibatch whose numbers mean nothing."""
    drawn = np.random.default_rng(0)
    return SampleBatch(
        obs=drawn.normal(size=(rows, length + 1, 4)).astype(np.float32),
        episode_starts=drawn.random((rows, length + 1)) < 0.05,
        state=np.zeros((rows, state_size), np.float32),
        actions=drawn.integers(2, size=(rows, length)),
        rewards=drawn.random((rows, length), np.float32),
        discounts=np.full((rows, length), 0.997, np.float32),
        valid=np.ones((rows, length), np.bool_),
    )


def main() -> None:
    """Prints parameters, CPU time of an update, and updates a second for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["nano", "micro", "mini"], choices=list(SIZES))
    parser.add_argument("--sequences", type=int, default=16, help="sequences in a minibatch")
    parser.add_argument("--length", type=int, default=64, help="steps of each")
    parser.add_argument("--updates", type=int, default=10)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for size in chosen.sizes:
        learner = learner_of(size)
        state_size = learner.policy.behavior().network.state_size
        batch, seconds = random_sequences(state_size, chosen.sequences, chosen.length), []
        for _ in range(chosen.updates + 1):
            began = time.process_time()
            learner.step(batch, scheduled=SCHEDULED)
            seconds.append(time.process_time() - began)
        fastest = min(seconds[1:])
        print(f"{size:<8}{learner.policy.parameters.size:>12,} parameters{1000 * fastest:>8,.0f} ms", end="")
        print(f"{1 / fastest:>8.1f} updates/s")


if __name__ == "__main__":
    main()
