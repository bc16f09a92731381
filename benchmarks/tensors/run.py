"""Measures PPO in an env of tensors with rsl_rl, skrl and rlrun, in turn, on the same work, one thread each.

    python -m benchmarks.tensors.run [--only narrow,wide] [--repeats N] [--set device='"cuda"'] [--json FILE]
    python -m benchmarks.tensors.run --only narrow --set activation='"relu"'

narrow  CartPole in torch with the 32 x 32 network that Isaac Lab has for CartPole
wide    the same with 512 x 256 x 128, as for robots

All step the same env with rsl_rl's settings in Isaac Lab: 4,096 envs x 24 steps, 5 epochs of 4 minibatches, ELU, a
network each for policy and value, a learning rate by the KL divergence, clipped values, and V(s_t) for episodes that
time out. Next to rates, ratios of each pair and their geometric mean by CPU time, the table has the shares of stepping,
acting and updating, and the mean return of the last episodes. `bare` is the env alone, and the env with a network that
acts. What is not the same: skrl adapts the learning rate after each epoch and takes one norm of gradients; rlrun
writes results and checkpoints.

Where torch's ELU is slow (9 ns a number on an AMD EPYC, 0.4 ns in rlrun's kernel), ratios with ELU are far from those
with ReLU: measure both.

The others get a venv of their own each under `.bench/`, made at the first call.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.peers import RSL_RL, SKRL, Measurement, Side, Work, benchmark

ORDER = {
    "num_envs": 4096,
    "fragment": 24,
    "epochs": 5,
    "minibatches": 4,
    "lr": 1e-3,
    "adaptive_kl": 0.01,
    "activation": "elu",
    "device": "cpu",
}
AIMS = {RSL_RL: 1.1, SKRL: 1.1}
SIDES = (
    Side(RSL_RL, "tensors.rsl_rl_side", peer=RSL_RL),
    Side(SKRL, "tensors.skrl_side", peer=SKRL),
    Side("rlrun", "tensors.rlrun_side", aims=AIMS),
    Side("bare: env", "tensors.bare", {"acts": False}),
    Side("bare: env, acting", "tensors.bare", {"acts": True}),
)

WORKS = (
    Work("narrow", "CartPole, 32 x 32", {**ORDER, "hiddens": [32, 32], "warm_up": 2, "iterations": 8}, SIDES),
    Work(
        "wide", "CartPole, 512 x 256 x 128", {**ORDER, "hiddens": [512, 256, 128], "warm_up": 1, "iterations": 2}, SIDES
    ),
)


def print_returns(measured: Mapping[str, Sequence[Measurement]]) -> None:
    """Prints the ratio by CPU time of each pair, as a geometric mean, and the returns of the last episodes."""
    ours = measured["rlrun"]
    for peer in AIMS:
        pairs = [their["cpu_seconds"] / own["cpu_seconds"] for own, their in zip(ours, measured[peer], strict=True)]
        returns = statistics.median(run["episode_return"] for run in measured[peer])
        print(
            f"rlrun by {peer}: {statistics.geometric_mean(pairs):.2f} by CPU time, {min(pairs):.2f} to "
            f"{max(pairs):.2f}; return {statistics.median(run['episode_return'] for run in ours):.0f} against "
            f"{returns:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    benchmark(str(__doc__), WORKS, ("torch", "gymnasium", "numpy"), repeats=9, told=print_returns)
