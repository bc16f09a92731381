"""Compares IMPALA and APPO in rlrun, RLlib and Sample Factory: they take turns on the same work and the same 2 CPUs.

    python -m benchmarks.impala.run [--only cartpole,pong,variants] [--repeats N] [--set window_s=S] [--json FILE]

cartpole  IMPALA on CartPole-v1, 2 workers x 32 envs: RLlib and rlrun
pong      IMPALA and APPO on ALE/Pong-v5, 2 workers x 4 envs: RLlib's IMPALA, both in rlrun, Sample Factory's APPO
variants  only with --only: all ways to run RLlib, once each, to find the fastest

All sides have the same fragments, batches and networks, one pass over each batch, two worker processes with one thread
each, and a learner with one thread; they share the same two CPUs. Rates are the steps per second for which an env got
an action (each has four frames in Pong), in a window that begins when a side has learned for the warm-up. On a busy
machine, compare the ratios by CPU time, which counts all processes of a side. No side writes result files.

RLlib and Sample Factory get their own venvs under `.bench/`, created on the first run, with rlrun's versions of torch
and ale-py. The sides differ in these points:

- RLlib fills its batches with fragments and counts env steps as rlrun does. It runs the new API stack, with the learner
  in a thread of the process that distributes the work, as in rlrun; the variants include the old stack and a learner in
  a separate process.
- RLlib and rlrun use ALE's vector env, which is faster than the single games with stacking by connectors in RLlib's
  examples ("connectors" among the variants). Sample Factory uses single games, because it needs a version of Gymnasium
  that ALE's vector env does not support. Frames travel between processes as uint8 everywhere.
- rlrun seeds each episode, for which ALE reads the ROM again; the others continue with the game's random generator.
- On CartPole, RLlib uses Gymnasium's vector env, and rlrun uses its own, which is equivalent.
- Sample Factory acts for both workers in a separate process, counts the steps that it has learned from, and uses GAE
  instead of V-trace, which fails in the latest release.
- rlrun compiles the updates of CartPole's network, which is the default in long runs; the others do not compile theirs,
  which is their default.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers import RLLIB, SAMPLE_FACTORY, Measurement, Side, Work, benchmark

CPUS = 2
SETTINGS: Measurement = {"workers": 2, "lr": 5e-4, "gamma": 0.99, "warm_up_s": 10.0, "window_s": 30.0}
CARTPOLE: Measurement = {**SETTINGS, "env": "CartPole-v1", "num_envs": 32, "fragment": 50, "batch": 1600}
PONG: Measurement = {**SETTINGS, "env": "ALE/Pong-v5", "num_envs": 4, "fragment": 25, "batch": 500}
EAGER = {"compile": False}  # oneDNN's convolutions are as fast without compilation
HALF = {**EAGER, "precision": "bfloat16"}


def rllib(variant: str) -> Side:
    """Returns a side that runs RLlib in one of its variants."""
    return Side(f"RLlib IMPALA ({variant})", "impala.rllib", {"variant": variant}, peer=RLLIB)


def rlrun(algorithm: str, aim: float, **config: Any) -> Side:
    """Returns a side that runs one of rlrun's algorithms, with additional settings."""
    name = f"rlrun {algorithm.upper()}{', bfloat16' if 'precision' in config else ''}"
    return Side(name, "impala.rlrun", {"algorithm": algorithm, "config": config}, {rllib("vector").name: aim})


WORKS = (
    Work("cartpole", "CartPole-v1, 2 workers x 32 envs", CARTPOLE, (rllib("vector"), rlrun("impala", 8.0))),
    Work(
        "pong",
        "ALE/Pong-v5, 2 workers x 4 envs",
        PONG,
        (
            rllib("vector"),
            *(rlrun(name, 2.3, **config) for config in (EAGER, HALF) for name in ("impala", "appo")),
            Side("Sample Factory APPO", "impala.sample_factory", peer=SAMPLE_FACTORY),
        ),
    ),
    *(
        Work("variants", f"RLlib's variants on {work['env']}", work, tuple(map(rllib, names)))
        for work, names in (
            (CARTPOLE, ("new", "vector", "vector, learner apart", "old")),
            (PONG, ("connectors", "vector", "vector, learner apart", "old")),
        )
    ),
)

if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])  # applies to all child processes, too
    packages = ("torch", "ray", "gymnasium", "ale-py", "numpy")
    benchmark(str(__doc__), WORKS, packages, unasked=["variants"])
