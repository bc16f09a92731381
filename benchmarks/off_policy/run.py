"""Compares DQN, SAC and TD3 in rlrun, Stable-Baselines3, SBX and RLlib: they take turns, each with one thread.

    python -m benchmarks.off_policy.run [--only dqn,dqn8,sac,td3,apex] [--repeats N] [--set window_s=S] [--json FILE]

dqn   DQN on CartPole-v1, 1 env, an update with a minibatch of 64 for every 4 env steps, 64 x 64
dqn8  the same with 8 envs and the same ratio of updates to env steps
sac   SAC on Pendulum-v1, 256 x 256, an update with a minibatch of 256 for every env step
td3   the same with TD3
apex  Ape-X DQN on CartPole-v1 with 2 workers: how long the learner waits for data (only rlrun)

All sides have the same networks, minibatches, capacities and ratios of updates to env steps; the benchmark counts the
updates of each side. Rates are env steps per second in a window that begins when a side has learned for the warm-up, so
imports and compilation are excluded. On a busy machine, compare the ratios by CPU time.

The sides differ in these points: rlrun and RLlib use double DQN, which needs one more pass over each minibatch than the
DQN of Stable-Baselines3 and SBX. RLlib's replay is prioritized, and so is that of "rlrun, prioritized". In rlrun, the
row in which an episode starts does not count as an env step. rlrun compiles its updates, which is the default in long
runs, and XLA compiles SBX's updates; the others do not compile theirs, which is their default. SBX runs on one CPU,
because XLA starts a thread for each CPU. The venvs of the others are created under `.bench/` on the first run, with
rlrun's version of torch.

`floor` is the time of the bare env steps and of the matrix products of updates and acting; see `benchmarks.floor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.peers import FLOOR, RLLIB, SB3, SBX, Measurement, Side, Work, benchmark

DQN: Measurement = {
    "algorithm": "dqn",
    "env": "CartPole-v1",
    "num_envs": 1,
    "fragment": 4,
    "batch": 64,
    "training_intensity": 0.25,
    "hiddens": [64, 64],
    "capacity": 50_000,
    "learning_starts": 1000,
    "lr": 5e-4,
    "gamma": 0.99,
    "target_interval_steps": 500,
    "min_env_steps": 1000,
    "warm_up_s": 3.0,
    "window_s": 15.0,
}
SAC: Measurement = {
    **DQN,
    "algorithm": "sac",
    "env": "Pendulum-v1",
    "fragment": 1,
    "batch": 256,
    "training_intensity": 1.0,
    "hiddens": [256, 256],
    "learning_starts": 100,
    "lr": 3e-4,
    "tau": 0.005,
    "min_env_steps": 50,
}


def rlrun(name: str, aims: Mapping[str, float], **config: Any) -> Side:
    """Returns rlrun's side, with additional settings."""
    return Side(name, "off_policy.rlrun", {"config": config}, aims)


STABLE = Side(SB3, "off_policy.sb3", {"library": "stable_baselines3"}, peer=SB3)
JAX = Side(SBX, "off_policy.sb3", {"library": "sbx"}, peer=SBX)
RAY = Side(RLLIB, "off_policy.rllib", peer=RLLIB)
PRIORITIZED = rlrun("rlrun, prioritized", {}, replay={"capacity": DQN["capacity"], "sampling": "prioritized"})
WORKS = (
    Work(
        "dqn",
        "DQN, CartPole-v1, 1 env, minibatch 64, an update every 4 steps",
        DQN,
        (STABLE, JAX, rlrun("rlrun", {SB3: 4.5, SBX: 1}), PRIORITIZED, RAY, FLOOR),
    ),
    Work(
        "dqn8",
        "DQN, CartPole-v1, 8 envs, minibatch 64, an update every 4 steps",
        {**DQN, "num_envs": 8, "fragment": 4},
        (STABLE, JAX, rlrun("rlrun", {SB3: 4.5, SBX: 1}), PRIORITIZED, FLOOR),
    ),
    Work(
        "sac",
        "SAC, Pendulum-v1, 256 x 256, minibatch 256, an update every step",
        SAC,
        (STABLE, JAX, rlrun("rlrun", {SB3: 2.5, SBX: 1}), RAY, FLOOR),
    ),
    Work(
        "td3",
        "TD3, Pendulum-v1, 256 x 256, minibatch 256, an update every step",
        {**SAC, "algorithm": "td3", "lr": 1e-3},
        (STABLE, JAX, rlrun("rlrun", {SB3: 2.1, SBX: 1}), FLOOR),
    ),
    Work(
        "apex",
        "Ape-X, CartPole-v1, 2 workers",
        {**DQN, "algorithm": "apex", "fragment": 50, "num_envs": 8},
        (rlrun("rlrun", {}, num_workers=2),),
    ),
)

if __name__ == "__main__":
    benchmark(str(__doc__), WORKS, ("torch", "gymnasium", "numpy"))
