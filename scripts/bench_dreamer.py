"""How many updates a second DreamerV3 makes, by size of its networks, on one core; of those that it has, SheepRL too.

    python scripts/bench_dreamer.py
    python scripts/bench_dreamer.py --sizes nano xs --sequences 16 --length 64

An update is that of the world model, the actor and the critic on a minibatch of random sequences of CartPole's form. A
line gives the CPU time of the fastest of several, which other work on the machine changes least. SheepRL's smallest
networks that have the widths of rlrun's are those of `xs`. It gets a venv of its own under `.bench/`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import gymnasium
import numpy as np
import torch
from bench_impala import last_line
from bench_peers import make_venv, same_version

from rlrun.algorithms.dreamer.dreamer import Dreamer, DreamerConfig
from rlrun.algorithms.dreamer.model_config import SIZES
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.learner.local_learner import LocalLearner

SPACES = Spaces(gymnasium.spaces.Box(-np.inf, np.inf, (4,)), gymnasium.spaces.Discrete(2))
SHEEPRL_SIZES = ("xs", "s", "m", "l", "xl")
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
    parser.add_argument("--sizes", nargs="+", default=["nano", "micro", "mini", "xs"], choices=list(SIZES))
    parser.add_argument("--sequences", type=int, default=16, help="sequences in a minibatch")
    parser.add_argument("--length", type=int, default=64, help="steps of each")
    parser.add_argument("--updates", type=int, default=10)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    work = {"updates": chosen.updates, "sequences": chosen.sequences, "length": chosen.length}
    for size in chosen.sizes:
        tell(f"rlrun {size}", *measured(size, **work))
        if size in SHEEPRL_SIZES:
            script = Path(__file__).with_name("bench_dreamer_sheeprl.py")
            python = make_venv("sheeprl-venv", ["sheeprl==0.8.*", same_version("torch")])
            theirs = last_line([python, str(script), json.dumps({"size": size, **work})])
            tell(f"SheepRL {size}", theirs["parameters"], min(theirs["seconds"]))


def measured(size: str, *, updates: int, sequences: int, length: int) -> tuple[int, float]:
    """Returns the number of parameters and the CPU seconds of the fastest update."""
    learner = learner_of(size)
    batch, seconds = random_sequences(learner.policy.behavior().network.state_size, sequences, length), []
    for _ in range(updates + 1):
        began = time.process_time()
        learner.step(batch, scheduled=SCHEDULED)
        seconds.append(time.process_time() - began)
    return learner.policy.parameters.size, min(seconds[1:])


def tell(name: str, parameters: int, fastest_s: float) -> None:
    print(
        f"{name:<14}{parameters:>12,} parameters{1000 * fastest_s:>8,.0f} ms{1 / fastest_s:>8.2f} updates/s", flush=True
    )


if __name__ == "__main__":
    main()
