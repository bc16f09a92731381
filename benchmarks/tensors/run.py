"""Compares PPO in rlrun, rsl_rl and skrl in an env that returns tensors: they take turns, each with one thread.

    python -m benchmarks.tensors.run [--only narrow,wide] [--repeats N] [--set device='"cuda"'] [--json FILE]
    python -m benchmarks.tensors.run --only narrow --set activation='"relu"'

narrow  CartPole in torch with a 32 x 32 network, as in Isaac Lab's CartPole
wide    the same with 512 x 256 x 128, as for robots

All sides step the same env with Isaac Lab's settings for rsl_rl: 4,096 envs x 24 steps, 5 epochs of 4 minibatches, ELU,
separate networks for policy and value, a learning rate that adapts to the KL divergence, clipped values, and V(s_t) for
episodes that time out. In addition to the rates, the benchmark prints the ratios of each pair and their geometric mean
by CPU time; the shares of stepping, acting and updating; and the mean return of the last episodes. `bare` is the env
alone, and the env with a network that acts. The sides differ in these points: skrl adapts the learning rate after each
epoch, and clips one gradient norm of both networks; rlrun writes results and checkpoints.

On processors where torch's ELU is slow (9 ns per number on an AMD EPYC, 0.4 ns in rlrun's kernel), ratios with ELU
differ greatly from ratios with ReLU, so measure both.

Each of the other frameworks gets its own venv under `.bench/`, created on the first run.
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
    """Prints each pair's geometric mean ratio by CPU time, and the returns of the last episodes."""
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
