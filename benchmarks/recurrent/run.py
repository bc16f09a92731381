"""Compares recurrent PPO in rlrun with sb3-contrib's RecurrentPPO: the sides take turns, each with one thread.

    python -m benchmarks.recurrent.run [--only zoo,longer] [--repeats N] [--set iterations=N] [--json FILE]

CartPole-v1 without its velocities, with one LSTM of 64 for the policy and another for the value, each with a dense
layer of 64: before the LSTM in rlrun, after it in sb3-contrib. Both sides have the same envs, batches, minibatches and
epochs. Rates are env steps per second after the warm-up. On a busy machine, compare the ratios by CPU time.

zoo     the settings of RL Baselines3 Zoo for this env: 8 envs x 32 steps, which form one minibatch, and 20 epochs
longer  8 envs x 128 steps, minibatches of 256, 10 epochs. rlrun's sequences have 16 steps, the default. sb3-contrib's
        sequences extend to the end of the episode or fragment; it has no setting for this.

rlrun's updates run in C kernels, which is the default.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers import SB3, benchmark
from benchmarks.ppo.run import order, work

NET: dict[str, Any] = {"hiddens": (64,), "core_width": 64, "observed": 2}
WORKS = (
    work(
        *("zoo", "LSTM: 8 envs x 32, minibatch 256, 20 epochs", {SB3: 8}),
        order(8, 32, 256, 20, 3, 40, **NET, sequence=32),
        topic="recurrent",
    ),
    work(
        *("longer", "LSTM: 8 envs x 128, minibatch 256, 10 epochs", {SB3: 8}),
        order(8, 128, 256, 10, 3, 20, **NET, sequence=16),
        topic="recurrent",
    ),
)

if __name__ == "__main__":
    benchmark(str(__doc__), WORKS, ("torch", "gymnasium", "numpy"))
