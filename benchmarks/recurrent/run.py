"""Measures recurrent PPO with sb3-contrib's RecurrentPPO and with rlrun, in turn, on the same work, one thread each.

    python -m benchmarks.recurrent.run [--only zoo,longer] [--repeats N] [--set iterations=N] [--json FILE]

CartPole-v1 without its velocities, with an LSTM of 64 for the policy and another for the value, and a dense layer of
64 next to each: before the LSTM in rlrun, after it in sb3-contrib. Both have the same envs, batches, minibatches and
epochs. Rates are env steps per second after warm-up. On a machine that is busy otherwise look at the ratio by CPU time.

zoo     the settings of RL Baselines3 Zoo for this env: 8 envs x 32 steps, all of them one minibatch, 20 epochs
longer  8 envs x 128 steps, minibatches of 256, 10 epochs; rlrun's sequences have 16 steps as by default, those of
        sb3-contrib are as long as episodes and fragments, since they have no setting

rlrun's updates run by C kernels, as by default.
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
