"""Measures what one step of acting costs a rollout worker, in microseconds, and compares revisions.

    python -m benchmarks.acting.run                     # the files as they are
    python -m benchmarks.acting.run --against main      # and those of another revision, by turns

A figure is the CPU time of the fastest of many fragments of 256 steps, over several rounds. Each round is a process
that acts on fixed observations; noise, recording and what comes at a fragment's end are included. Rounds of both
revisions take turns, so that whatever else the machine does concerns both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import ROOT, answer_of, parser_of, print_row, write_json

LENGTH = 256
ROUND_S = 0.25
"""CPU seconds that a policy acts in a round, at least."""


def main() -> None:
    """Prints a table: policies and env slots downwards, revisions across."""
    parser = parser_of(str(__doc__))
    parser.add_argument("--against", metavar="REVISION")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.once:
        print(json.dumps(measured()))
        return
    with tempfile.TemporaryDirectory() as folder:
        trees = {"here": ROOT}
        if asked.against:
            archive = subprocess.run(["git", "archive", asked.against], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
            trees = {asked.against: Path(folder), **trees}
        best: dict[str, dict[str, float]] = {name: {} for name in trees}
        for _ in range(asked.rounds):
            for name, tree in trees.items():
                words = [sys.executable, str(Path(__file__).resolve()), "--once"]
                for case, microseconds in answer_of(words, tree).items():
                    best[name][case] = min(microseconds, best[name].get(case, np.inf))
    print_row("us per step", *(name[:12] for name in trees))
    for case in best["here"]:
        print_row(case, *(f"{found[case]:.1f}" for found in best.values()))
    write_json(asked.json, best)


def measured() -> dict[str, float]:
    """Returns microseconds per step by policy and number of env slots."""
    return {
        f"{name} B={slots}": microseconds_per_step(policy, slots)
        for name, policy in policies().items()
        for slots in (1, 8, 64)
    }


def policies() -> dict[str, Any]:
    """Returns policies by name, with the networks that their algorithms have by default."""
    from gymnasium.spaces import Box, Discrete

    from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
    from rlrun.algorithms.dqn.policy import QPolicy
    from rlrun.algorithms.recurrent_q.policy import RecurrentQPolicy
    from rlrun.algorithms.recurrent_q.recurrent_model import RecurrentModelConfig
    from rlrun.nn.model_config import ModelConfig
    from rlrun.policy.actor_critic import ActorCriticPolicy

    observations, choices, bounded = Box(-1, 1, (17,)), Discrete(6), Box(-1, 1, (6,))
    small, wide = ModelConfig(), ModelConfig(hiddens=(256, 256), activation="relu")
    recurrent = RecurrentModelConfig(hiddens=(64,), activation="relu")
    shared: dict[str, Any] = {"normalize_observations": False, "seed": 0}
    return {
        "ppo 64x64 discrete": ActorCriticPolicy(observations, choices, small, **shared),
        "ppo 64x64 box": ActorCriticPolicy(observations, bounded, small, **shared),
        "dqn 64x64": QPolicy(observations, choices, small, **shared),
        "sac 256x256": SoftPolicy(observations, bounded, wide, **shared, uniform_steps=0, initial_alpha=1.0),
        "r2d2 64 + lstm 64": RecurrentQPolicy(observations, choices, recurrent, **shared),
    }


def microseconds_per_step(policy: Any, slots: int) -> float:
    """Returns what a step costs in the fragment that took least."""
    behavior = policy.behavior()
    behavior.load(acting_weights(policy))
    # An earlier revision calls it otherwise.
    allocate = getattr(behavior, "allocate_fragment", None) or behavior.new_columns
    postprocess = getattr(behavior, "postprocess", None) or behavior.complete
    generator = np.random.default_rng(0)
    observations = generator.normal(size=(LENGTH + 1, slots, 17)).astype(np.float32)
    starts = np.zeros(slots, np.bool_)
    least, end = np.inf, time.process_time() + ROUND_S
    while (began := time.process_time()) < end:
        noise, batch = behavior.noise(generator, LENGTH, slots), allocate(LENGTH, slots)
        for t in range(LENGTH):
            behavior.act(observations[t], noise[t], batch, t, starts)
        batch["obs"] = observations
        postprocess(batch)
        least = min(least, time.process_time() - began)
    return float(least) / LENGTH * 1e6


def acting_weights(policy: Any) -> Any:
    """Returns a policy's first parameters as a broadcast."""
    from rlrun.policy.weights import Weights

    start, size = getattr(policy, "acting_range", (0, policy.parameters.size))
    acting = policy.parameters.gather(policy.module).numpy()[start : start + size]
    return Weights(0, acting, env_steps=1, schedules={"epsilon": 0.05})


if __name__ == "__main__":
    main()
