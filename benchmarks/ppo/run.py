"""Compares PPO in rlrun, Stable-Baselines3, SBX and rejax: they take turns on the same work, each with one thread.

    python -m benchmarks.ppo.run [--only A1,A2,...] [--repeats N] [--set iterations=N] [--json FILE]

A1            CartPole-v1 with 64 x 64 networks and small minibatches, where calls take more time than matrix products
A2            the same with large minibatches
sampling      the same without learning
wide          CartPole-v1 with larger networks, where matrix products take most of the time
half_cheetah  MuJoCo's HalfCheetah-v5, with small and with larger networks
pong          Atari Pong, preprocessed as in SB3 and rlrun, with the convolutional network of the DQN paper
solve         CartPole-v1 from Enter to a mean return of 475

All sides have the same env, network, batch, minibatches and epochs. They alternate several times, so that other work on
the machine affects all of them. Rates are env steps per second after the warm-up, which covers imports and the
compilation of rlrun's update. On a busy machine, compare the ratios by CPU time. The wall times of `solve` include
everything from Enter on; rlrun starts each spec once with an empty cache of compiled updates, and then repeats it with
the filled cache.

The others get their own venvs under `.bench/`, created on the first run; Stable-Baselines3 gets rlrun's versions of
torch, gymnasium, NumPy, MuJoCo and ALE. The sides differ in these points: Stable-Baselines3 standardizes advantages per
minibatch, rlrun per batch. In rlrun, the row in which an episode starts does not count as an env step. SBX and rejax
run on one CPU, because XLA starts a thread for each CPU. rejax's env is written in JAX and is part of the same program
as the learning. rejax does not evaluate here, and its compilation does not count.

`floor` is the time of the bare env steps and of the matrix products of updates and acting; see `benchmarks.floor`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import (
    FLOOR,
    REJAX,
    ROOT,
    SB3,
    SBX,
    Measurement,
    Side,
    Work,
    benchmark,
    compared_times,
    python_of,
    timed,
)

CARTPOLE, CHEETAH, SMALL = "CartPole-v1", "HalfCheetah-v5", (64, 64)
FIRST_RESULT = re.compile(r"env steps, return")


def order(
    num_envs: int,
    fragment: int,
    minibatch: int,
    epochs: int,
    warm_up: int,
    iterations: int,
    env: str = CARTPOLE,
    hiddens: tuple[int, ...] = SMALL,
    **more: Any,
) -> Measurement:
    """Returns the order for all sides.

    Args:
        num_envs: B, number of envs.
        fragment: T, steps of each env per iteration.
        minibatch: Steps in a minibatch.
        epochs: Passes over a batch.
        warm_up: Iterations to exclude.
        iterations: Iterations to measure.
        env: Id of the env.
        hiddens: Widths of the dense layers; for images, of those after the encoder.
        more: Additional entries of the order.
    """
    shared = {"kind": "train", "lr": 3e-4, "gamma": 0.99, "gae_lambda": 0.95, "env": env, "hiddens": hiddens}
    batch = {"num_envs": num_envs, "fragment": fragment, "minibatch": minibatch, "epochs": epochs}
    return {**shared, **batch, "warm_up": warm_up, "iterations": iterations, **more}


def work(
    part: str,
    title: str,
    aims: Mapping[str, float],
    told: Measurement,
    topic: str = "ppo",
    *,
    others: Sequence[Side] = (),
    floor: bool = True,
) -> Work:
    """Returns work for the sides `sb3` and `rlrun` of a topic, and for others.

    Args:
        part: See `Work`.
        title: See `Work`.
        aims: Target ratios of rlrun to other sides, by their names.
        told: The order for all sides.
        topic: Folder of the benchmark.
        others: Additional sides.
        floor: Whether to measure the floor.
    """
    sides = (
        Side(SB3, f"{topic}.sb3", {"library": "stable_baselines3"}, peer=SB3),
        *others,
        Side("rlrun", f"{topic}.rlrun", aims=aims),
    )
    return Work(part, title, told, (*sides, FLOOR) if floor else sides)


JAX = Side(SBX, "ppo.sb3", {"library": "sbx"}, peer=SBX)
IN_JAX = (JAX, Side(REJAX, "ppo.rejax", peer=REJAX))
A1 = order(8, 256, 64, 10, 2, 20)
A2 = order(32, 128, 1024, 4, 3, 40)
SAMPLING: Measurement = {"kind": "sampling"}
WORKS = (
    work("A1", "A1: 8 envs x 256, minibatch 64, 10 epochs", {SB3: 18, SBX: 1, REJAX: 1}, A1, others=IN_JAX),
    work("A2", "A2: 32 envs x 128, minibatch 1024, 4 epochs", {SB3: 6, SBX: 1, REJAX: 0.9}, A2, others=IN_JAX),
    work("sampling", "sampling and advantages only, 8 envs", {SB3: 10}, order(8, 256, 64, 1, 2, 20, **SAMPLING)),
    work("sampling", "sampling and advantages only, 64 envs", {SB3: 10}, order(64, 256, 64, 1, 2, 12, **SAMPLING)),
    work(
        *("wide", "CartPole, A1 with 256 x 256", {SB3: 4, SBX: 1}, order(8, 256, 64, 10, 2, 8, hiddens=(256, 256))),
        others=(JAX,),
    ),
    work("wide", "CartPole, 1024 x 1024, minibatch 256", {SB3: 1.5}, order(8, 256, 256, 4, 1, 4, hiddens=(1024, 1024))),
    work(
        *("half_cheetah", "HalfCheetah, A1's batches, 64 x 64", {SB3: 5.5, SBX: 1}),
        order(8, 256, 64, 10, 2, 10, CHEETAH),
        others=(JAX,),
    ),
    work(
        *("half_cheetah", "HalfCheetah, 256 x 256", {SB3: 2.8, SBX: 1}),
        order(8, 256, 64, 10, 2, 6, CHEETAH, (256, 256)),
        others=(JAX,),
    ),
    work(
        *("pong", "Pong, minibatch 256, 4 epochs", {SB3: 1.5}, order(8, 128, 256, 4, 1, 4, "ALE/Pong-v5", ())),
        others=(Side("rlrun, bfloat16", "ppo.rlrun", {"precision": "bfloat16"}),),
    ),
)


def solve(repeats: int) -> Measurement:
    """Measures the wall time from Enter to the first result and to a mean return of 475, including process startup."""
    from benchmarks.ppo.rlrun import entry_of

    shipped = ROOT / "configs" / "cartpole" / "ppo.yaml"
    with tempfile.TemporaryDirectory() as directory:
        cache, spec = Path(directory) / "cache", Path(directory) / "spec.yaml"
        entry = {**entry_of(A1), "env": CARTPOLE, "stop": {"env_steps": 300_000}}
        spec.write_text(json.dumps({"bench": entry}))
        ours: dict[str, Callable[[int], Measurement]] = {
            "rlrun, settings of A1": lambda seed: rlrun_solved(spec, seed, cache),
            "rlrun, configs/cartpole/ppo.yaml": lambda seed: rlrun_solved(shipped, seed, cache),
        }
        before = {f"{name}, very first run": [side(0)] for name, side in ours.items()}
        sides = {f"{SB3}, settings of A1": sb3_solved, **ours}
        return compared_times("solve", "CartPole-v1 until 475", sides, repeats, before=before)


def sb3_solved(seed: int) -> Measurement:
    """Runs Stable-Baselines3 until the return is reached."""
    words = json.dumps({**A1, "kind": "solve", "seed": seed, "wanted_return": 475.0, "max_env_steps": 300_000})
    found = timed([python_of(SB3), "-m", "benchmarks.ppo.sb3", words], is_there)
    return {**found, **json.loads(found["said"])}


def rlrun_solved(spec: Path, seed: int, cache: Path) -> Measurement:
    """Runs the command that a user would type; the return of 475 is added to the spec's stop criteria."""
    with tempfile.TemporaryDirectory() as runs:
        command = [sys.executable, "-m", "rlrun", "train", "-f", str(spec), "--seed", str(seed), "--runs-dir", runs]
        found = timed([*command, "--set", "stop.episode_return_mean=475"], is_there, cache)
        (results,) = Path(runs).glob("*/*/result.json")
        last = json.loads(results.read_text().splitlines()[-1])
    return {**found, "env_steps": last["env_steps"], "episode_return": last["episode_return_mean"] or 0.0}


def is_there(text: str) -> bool:
    """Whether a first result has been printed."""
    return FIRST_RESULT.search(text) is not None


if __name__ == "__main__":
    benchmark(str(__doc__), WORKS, ("torch", "gymnasium", "numpy"), others={"solve": solve})
