"""Measures IMPALA and APPO with RLlib, Sample Factory and rlrun, in turn, on the same work and the same 2 CPUs.

    python -m benchmarks.impala.run [--only cartpole,pong,variants] [--repeats N] [--set window_s=S] [--json FILE]

cartpole  IMPALA on CartPole-v1, 2 workers x 32 envs: RLlib and rlrun
pong      IMPALA and APPO on ALE/Pong-v5, 2 workers x 4 envs: RLlib's IMPALA, rlrun's both, Sample Factory's APPO
variants  only if asked for: every way of running RLlib once, to see which one is the fastest

All sides have the same fragments, batches, networks and one pass over each batch, two worker processes with one thread
each, a learner with one thread, and the same two CPUs for everything. Rates are steps that an env was given an action
for (of four frames in Pong), per second, in a window that begins when a side has learned for the warm-up. On a machine
that is busy otherwise look at the ratio by CPU time: that of all processes of a side. Neither side writes result files.

RLlib and Sample Factory get venvs of their own under `.bench/`, made at the first call, with the torch and ale-py that
rlrun runs with. What is not the same:

- RLlib's batches are of the fragments that fill them, as rlrun's are, and what it calls an env step is one too. It is
  the new API stack, with the learner in a thread of the process that hands out the work, where rlrun has it too; the
  old stack, and a learner in a process of its own, are among the variants.
- Games, frames and stacking: RLlib has ALE's vector env, as rlrun has, which is faster than the single games and the
  stacking by connectors of RLlib's examples ("connectors" among the variants); Sample Factory has single games, because
  it wants a Gymnasium that ALE's vector env does not know. Frames are uint8 on every way between processes.
- rlrun seeds each episode, for which ALE reads the ROM again; the others go on with the generator of a game.
- CartPole is Gymnasium's vector env in RLlib, and rlrun's own, equal to it, in rlrun.
- Sample Factory acts in a process of its own for both workers, counts the steps that it has learned from, and takes GAE
  in place of V-trace, which fails in the version that is out.
- rlrun's updates of CartPole's network are compiled, as by default in any long run; the others' are not, as by default.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers import RLLIB, SAMPLE_FACTORY, Measurement, Side, Work, benchmark

CPUS = 2
SETTINGS: Measurement = {"workers": 2, "lr": 5e-4, "gamma": 0.99, "warm_up_s": 10.0, "window_s": 30.0}
CARTPOLE: Measurement = {**SETTINGS, "env": "CartPole-v1", "num_envs": 32, "fragment": 50, "batch": 1600}
PONG: Measurement = {**SETTINGS, "env": "ALE/Pong-v5", "num_envs": 4, "fragment": 25, "batch": 500}
EAGER = {"compile": False}  # oneDNN's convolutions are as fast without
HALF = {**EAGER, "precision": "bfloat16"}


def rllib(variant: str) -> Side:
    """Returns a way of running RLlib."""
    return Side(f"RLlib IMPALA ({variant})", "impala.rllib", {"variant": variant}, peer=RLLIB)


def rlrun(algorithm: str, aim: float, **config: Any) -> Side:
    """Returns an algorithm of rlrun, with some settings of its own."""
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
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])  # and so for all that is started here
    packages = ("torch", "ray", "gymnasium", "ale-py", "numpy")
    benchmark(str(__doc__), WORKS, packages, unasked=["variants"])
