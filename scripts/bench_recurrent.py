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

from dataclasses import dataclass

from bench_contrib import measure_beside_contrib
from bench_ppo import CARTPOLE, Work


@dataclass(frozen=True)
class RecurrentWork(Work):
    """One piece of recurrent PPO for both sides.

    Attributes:
        core_width: H of the LSTMs.
        sequence: Steps that gradients flow back over in rlrun.
    """

    core_width: int
    sequence: int


ENV_AND_NET = (CARTPOLE, (64,), 64)
WORKS = (
    RecurrentWork(
        "zoo", "LSTM: 8 envs x 32, minibatch 256, 20 epochs", "train", 8, 32, 256, 20, 3, 40, 3.0, *ENV_AND_NET, 32
    ),
    RecurrentWork(
        "longer", "LSTM: 8 envs x 128, minibatch 256, 10 epochs", "train", 8, 128, 256, 10, 3, 20, 3.0, *ENV_AND_NET, 16
    ),
)


if __name__ == "__main__":
    measure_beside_contrib(str(__doc__), WORKS, "bench_recurrent")
