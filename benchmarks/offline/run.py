"""Compares learning from recorded data in rlrun, d3rlpy and RLlib: in turn, on the same data, with one thread each.

    python -m benchmarks.offline.run [--only bc,iql,cql,recording] [--repeats N] [--set window_s=S] [--json FILE]

bc         behavioral cloning of Discrete actions, 64 x 64, minibatches of 256
iql        IQL, 256 x 256, minibatches of 256, data shaped like HalfCheetah's
cql        the same with CQL, with 10 sampled actions of each kind per row
recording  PPO of A1 in `benchmarks.ppo` with and without `output`: the cost of recording

Rates are minibatches per second, and for `recording` env steps per second. All sides have the same networks,
minibatches and arrays: 100,000 random transitions, because the quality of the result does not matter here. d3rlpy and
RLlib read them from memory; rlrun maps the files of a data set.

The sides differ in these points: RLlib's minibatches pass through Ray Data, because it has no other way; the CPU time
of Ray Data's processes does not count. d3rlpy's losses are not compiled, which is the default.

`floor` is the time of the matrix products of updates; see `benchmarks.floor`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from benchmarks.peers import D3RLPY, FLOOR, RLLIB, Measurement, Side, Work, benchmark
from benchmarks.ppo.run import A1
from rlrun.engine.datasets.writer import SetWriter

EPISODES, EPISODE_LEN = 100, 1000
LEARNING: Measurement = {"num_envs": 0, "batch": 256, "warm_up_s": 3.0, "window_s": 10.0, "lr": 3e-4, "gamma": 0.99}


def write_data(folder: Path, env: str) -> None:
    """Writes random transitions in an env's spaces, as a data set and as arrays in `arrays.npz`."""
    shown, drawn = gymnasium.make(env), np.random.default_rng(0)
    observed, acted = shown.observation_space, shown.action_space
    assert isinstance(observed, Box)
    kept: dict[str, list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]] = {}
    with SetWriter(folder / "set", observed, acted) as writer:
        for _ in range(EPISODES):
            observations = drawn.normal(size=(EPISODE_LEN + 1, *observed.shape)).astype(np.float32)
            if isinstance(acted, Discrete):
                actions = drawn.integers(acted.n, size=EPISODE_LEN)
            else:
                assert isinstance(acted, Box)
                actions = drawn.uniform(-1, 1, (EPISODE_LEN, *acted.shape)).astype(np.float32)
            columns = {"actions": actions, "rewards": drawn.normal(size=EPISODE_LEN)}
            truncateds = np.arange(EPISODE_LEN) == EPISODE_LEN - 1
            writer.add_episode(
                {"obs": observations, "terminateds": np.zeros(EPISODE_LEN, np.bool_), "truncateds": truncateds}
                | columns
            )
            for name, column in {"obs": observations[:-1], "timeouts": truncateds, **columns}.items():
                kept.setdefault(name, []).append(column)
    joined = {name: np.concatenate(columns) for name, columns in kept.items()}
    np.savez(folder / "arrays.npz", allow_pickle=False, **joined)


def works(folder: Path) -> tuple[Work, ...]:
    """Returns the available work, whose data sets are in a folder."""
    for env in ("CartPole-v1", "HalfCheetah-v5"):
        write_data(folder / env, env)
    learned = {env: {**LEARNING, "env": env, "data": str(folder / env)} for env in ("CartPole-v1", "HalfCheetah-v5")}
    ours, theirs = (
        Side(name, f"offline.{name.lower()}", peer=peer) for name, peer in (("rlrun", None), (D3RLPY, D3RLPY))
    )
    slow = Side("rlrun", ours.module, aims={RLLIB: 5})
    cheetah = {**learned["HalfCheetah-v5"], "hiddens": [256, 256]}
    return (
        Work(
            "bc",
            "BC, Discrete actions, 64 x 64, minibatch 256",
            {**learned["CartPole-v1"], "algorithm": "bc", "hiddens": [64, 64]},
            (Side(RLLIB, "offline.rllib", peer=RLLIB), slow, FLOOR),
        ),
        Work(
            "iql",
            "IQL, 17 observed numbers, 6 actions, 256 x 256, minibatch 256",
            {**cheetah, "algorithm": "iql"},
            (theirs, ours, FLOOR),
        ),
        Work(
            "cql",
            "CQL likewise, 10 sampled actions of each kind",
            {**cheetah, "algorithm": "cql", "sampled": 10},
            (theirs, ours, FLOOR),
        ),
        Work(
            "recording",
            "PPO, CartPole-v1, 8 envs, recorded and not",
            {**A1, "algorithm": "ppo"},
            (Side("not recorded", ours.module), Side("recorded", ours.module, {"output": str(folder / "recorded")})),
        ),
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        benchmark(str(__doc__), works(Path(directory)), ("torch", "gymnasium", "numpy"))
