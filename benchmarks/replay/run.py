"""Compares rlrun's prioritized replay buffer with cpprb's, which is written in C++.

    python -m benchmarks.replay.run [--json FILE]

Both buffers hold a million steps like CartPole's, and alternate between drawing a minibatch and updating its
priorities, as they do for a learner. They take turns in short stretches, and the fastest stretch of each counts,
because other work on the machine slows down both. The time covers everything between the buffer and the learner:
rlrun's side also assembles the next observations and returns weights. cpprb (`pip install cpprb`) is part of the `dev`
extra.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import cpprb
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers import fastest, median, parser_of, print_row, spread, surroundings, write_json
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig

CAPACITY = 1_000_000
BATCH_SIZES = (32, 512)
FRAGMENT = 10_000
REPEATS = 7
STRETCHES = 60
CALLS = 20


def steps(first: int, length: int, rng: np.random.Generator) -> SampleBatch:
    """Returns steps with initial priorities; their first observation is the last observation of the preceding steps."""
    shape = (length, 1)
    obs = np.arange(first, first + length + 1, dtype=np.float32)[:, None, None] + np.zeros(4, np.float32)
    return SampleBatch(
        obs=obs,
        actions=rng.integers(0, 2, shape),
        rewards=np.ones(shape, np.float32),
        terminateds=rng.random(shape) < 0.01,
        truncateds=np.zeros(shape, np.bool_),
        valid=np.ones(shape, np.bool_),
        priorities=rng.random(shape),
    )


def rlrun_replay(rng: np.random.Generator) -> ReplayBuffer:
    """Returns a full replay buffer of rlrun."""
    config = ReplayConfig(capacity=CAPACITY, sampling="prioritized")
    replay = ReplayBuffer(config, num_workers=1, n_step=1, gamma=0.99, seed=0)
    for first in range(0, CAPACITY, FRAGMENT):
        replay.add(0, steps(first, FRAGMENT, rng))
    return replay


def cpprb_replay(rng: np.random.Generator) -> Any:
    """Returns a full replay buffer of cpprb."""
    columns = {
        "obs": {"shape": 4},
        "next_obs": {"shape": 4},
        "actions": {"dtype": np.int64},
        "rewards": {},
        "terminateds": {"dtype": np.bool_},
    }
    replay = cpprb.PrioritizedReplayBuffer(CAPACITY, columns, alpha=0.6)
    for first in range(0, CAPACITY, FRAGMENT):
        batch = steps(first, FRAGMENT, rng)
        replay.add(
            obs=batch["obs"][:-1, 0],
            next_obs=batch["obs"][1:, 0],
            actions=batch["actions"],
            rewards=batch["rewards"],
            terminateds=batch["terminateds"],
            priorities=batch["priorities"][:, 0],
        )
    return replay


def turns(ours: ReplayBuffer, theirs: Any, batch_size: int, rng: np.random.Generator) -> dict[str, Callable[[], None]]:
    """Returns functions for both sides that draw a minibatch and update its priorities from errors."""
    errors = itertools.cycle([rng.random(batch_size).astype(np.float32) for _ in range(97)])

    def rlrun_turn() -> None:
        batch = ours.sample(batch_size, 0)
        ours.update_priorities(batch["indices"], next(errors))

    def cpprb_turn() -> None:
        batch = theirs.sample(batch_size, 0.4)
        theirs.update_priorities(batch["indexes"], next(errors))

    return {"rlrun": rlrun_turn, "cpprb": cpprb_turn}


def main() -> None:
    """Prints the rates of both sides for each minibatch size."""
    options = parser_of(str(__doc__)).parse_args()
    about = surroundings(("numpy", "cpprb"))
    rng = np.random.default_rng(0)
    ours, theirs = rlrun_replay(rng), cpprb_replay(rng)
    print(f"{CAPACITY:,} steps, {ours.num_bytes / 1e6:.0f} MB in rlrun; minibatches/s")
    print_row("", "rlrun", "cpprb", "ratio", "(range)")
    found = {}
    for batch_size in BATCH_SIZES:
        sides = turns(ours, theirs, batch_size, rng)
        seconds = found[batch_size] = [fastest(sides, STRETCHES, CALLS, time.perf_counter) for _ in range(REPEATS)]
        ratios = [each["cpprb"] / each["rlrun"] for each in seconds]
        rates = [f"{1 / median(seconds, name):,.0f}" for name in ("rlrun", "cpprb")]
        print_row(f"batch {batch_size}", *rates, f"{statistics.median(ratios):.2f}", spread(ratios, 2))
    write_json(options.json, {"about": about, "seconds": found})


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
