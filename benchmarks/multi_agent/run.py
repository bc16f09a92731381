"""Measures worlds with many agents, compared with RLlib, with single agents, and with PettingZoo's own steps.

    python -m benchmarks.multi_agent.run [--only crowd,tribes] [--repeats N] [--set window_s=S] [--json FILE]

crowd       PPO, one policy for 64 agents in each of 8 worlds with dicts, in RLlib and in rlrun, on the same world
array       sampling in 512 slots: an array world of 256 x 2 CartPoles, compared with 512 single-agent CartPoles
pettingzoo  sampling in simple_spread, compared with stepping the world without a policy
tribes      PPO with two policies for 128 agents in each of 4 worlds of the toy `Tribes`, compared with its own steps

Rates are agent steps per second in a window after the warm-up, without imports and compilation. Each side has one
thread. On a busy machine, compare the ratios by CPU time. In `crowd`, both sides have the same world, network, batch,
minibatch and epochs; RLlib's venv is created under `.bench/` on the first run.
"""

from __future__ import annotations

from benchmarks.peers import RLLIB, Measurement, Side, Work, benchmark

AGENTS, FRAGMENT = 64, {"rollout_fragment_length": 32}
PPO: Measurement = {
    "num_envs_per_worker": 8,
    "train_batch_size": 16_384,
    "minibatch_size": 512,
    "num_epochs": 2,
    "lr": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "model": {"hiddens": [64, 64]},
}
ORDER: Measurement = {"algorithm": "ppo", "config": PPO, "warm_up_s": 3.0, "window_s": 15.0}
CROWD: Measurement = {
    **ORDER,
    "does": "train",
    "world": {"world": "benchmarks.multi_agent.rlrun:LineWorld", "kwargs": {"num_agents": AGENTS}},
    "num_agents": AGENTS,
}
SAMPLE: Measurement = {**ORDER, "does": "sample"}
ALONE = {"env": "CartPole-v1", "config": {**PPO, **FRAGMENT, "num_envs_per_worker": 512}}
IN_WORLDS = {
    "world": {"world": "rlrun.toys:CartPoleArrays", "kwargs": {"num_agents": 2, "reborn": True}},
    "config": {**PPO, **FRAGMENT, "num_envs_per_worker": 256},
}
SPREAD: Measurement = {
    **SAMPLE,
    "world": {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"N": 3}},
    "config": {**PPO, **FRAGMENT},
}
TRIBES = {"world": "rlrun.toys:Tribes"}
OURS = "multi_agent.rlrun"
WORKS = (
    Work(
        "crowd",
        f"PPO, one policy for {AGENTS} agents in each of 8 worlds",
        CROWD,
        (Side(RLLIB, "multi_agent.rllib", peer=RLLIB), Side("rlrun", OURS, aims={RLLIB: 10})),
    ),
    Work(
        "array",
        "sampling in 512 slots",
        SAMPLE,
        (Side("512 CartPoles", OURS, ALONE), Side("256 x 2 in array worlds", OURS, IN_WORLDS, {"512 CartPoles": 0.9})),
    ),
    Work(
        "pettingzoo",
        "simple_spread of PettingZoo, 3 agents in each of 8 worlds",
        SPREAD,
        (Side("the world alone", OURS, {"does": "step"}), Side("rlrun samples", OURS)),
    ),
    Work(
        "tribes",
        "Tribes, 2 policies of 64 agents each in each of 4 worlds",
        {**ORDER, "env": TRIBES, "warm_up": 2, "iterations": 4},
        (Side("the world alone", OURS, {"does": "step_arrays"}), Side("rlrun learns", OURS, {"does": "learn"})),
    ),
)

if __name__ == "__main__":
    benchmark(str(__doc__), WORKS, ("torch", "pettingzoo", "gymnasium", "numpy"), repeats=2)
