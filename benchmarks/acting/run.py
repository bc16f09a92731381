"""Measures how long a rollout worker takes to act for one step, in microseconds, and compares revisions.

    python -m benchmarks.acting.run                     # the working tree
    python -m benchmarks.acting.run --against main      # compared with another revision

A figure is the CPU time per step in the fastest of many fragments of 256 steps, over several rounds. Each round is a
process that acts on fixed observations; the time includes noise, recording and the work at the end of a fragment. The
rounds of both revisions alternate, so that other work on the machine affects both.
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
"""Minimum CPU seconds for which a policy acts in a round."""


def main() -> None:
    """Prints a table with a row for each policy and number of env slots, and a column for each revision."""
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
    """Returns policies by name, with the default networks of their algorithms."""
    from gymnasium.spaces import Box, Discrete

    from rlrun.algorithms.actor_q.sac import SAC
    from rlrun.algorithms.dqn.dqn import DQN
    from rlrun.algorithms.ppo import PPO
    from rlrun.algorithms.recurrent_q.r2d2 import R2D2
    from rlrun.engine.envs.spaces import Spaces

    observations = Box(-1, 1, (17,))
    choices, bounded = Spaces(observations, Discrete(6)), Spaces(observations, Box(-1, 1, (6,)))
    return {
        "ppo 64x64 discrete": PPO(PPO.Config()).policy(choices, 0),
        "ppo 64x64 box": PPO(PPO.Config()).policy(bounded, 0),
        "dqn 64x64": DQN(DQN.Config()).policy(choices, 0),
        "sac 256x256": SAC(SAC.Config(learning_starts=0)).policy(bounded, 0),
        "r2d2 64 + lstm 64": R2D2(R2D2.Config()).policy(choices, 0),
    }


def microseconds_per_step(policy: Any, slots: int) -> float:
    """Returns the microseconds per step in the fastest fragment."""
    behavior = policy.behavior()
    behavior.load(acting_weights(policy))
    # In earlier revisions, these methods have other names.
    allocate = getattr(behavior, "allocate_fragment", None) or behavior.new_columns
    postprocess = getattr(behavior, "postprocess", None) or behavior.complete
    generator = np.random.default_rng(0)
    observations = generator.normal(size=(LENGTH + 1, slots, 17)).astype(np.float32)
    starts = np.zeros(slots, np.bool_)
    least, end = np.inf, time.process_time() + ROUND_S
    while (began := time.process_time()) < end:
        noise, batch = behavior.noise_source.noise(generator, LENGTH, slots), allocate(LENGTH, slots)
        for t in range(LENGTH):
            behavior.act(observations[t], noise[t], batch, t, starts)
        batch["obs"] = observations
        postprocess(batch)
        least = min(least, time.process_time() - began)
    return float(least) / LENGTH * 1e6


def acting_weights(policy: Any) -> Any:
    """Returns a policy's initial parameters as a worker receives them."""
    from rlrun.engine.policy.weights import Weights

    start, size = getattr(policy, "acting_range", (0, policy.parameters.size))
    acting = policy.parameters.gather(policy.module).numpy()[start : start + size]
    return Weights(0, acting, env_steps=1, schedules={"epsilon": 0.05})


if __name__ == "__main__":
    main()
