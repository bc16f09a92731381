"""Compares what DQN learns on slippery FrozenLake, with Stable-Baselines3 and with rlrun, under the same settings.

    python scripts/bench_frozen_lake.py [--map 4x4|8x8] [--first-seed N] [--seeds N] [--json FILE]

States are one-hot vectors on both sides; network, rates and budget are CleanRL's for DQN. The likeliest actions of the
last policy are evaluated on 1,000 episodes, and the figure is the part of them that reach the goal. A line gives the
interquartile mean over seeds and its 95 % bootstrap interval, and how often a seed of rlrun is above one of the peer.
With --json, seeds that the file has are not run again.

Stable-Baselines3 gets a venv of its own under `.bench/`. One difference is left: it takes the target network over after
500 env steps, rlrun after 50 minibatches, which are as many env steps once learning has begun.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from bench_peers import BENCH, ROOT, machine, make_venv, one_thread, same_version

from rlrun.report.statistics import bootstrapped, iqm, probability_of_improvement

SCRIPTS = Path(__file__).resolve().parent
VENV = "sb3-venv"
PACKAGES = ("stable-baselines3==2.9.*",)
PEER, OURS = "Stable-Baselines3", "rlrun"
TIMEOUT_S = 1800.0

WORK: dict[str, Any] = {
    "env_steps": 150_000,
    "hiddens": [120, 84],
    "lr": 2.5e-4,
    "gamma": 0.99,
    "capacity": 10_000,
    "learning_starts": 10_000,
    "minibatch": 128,
    "train_every": 10,
    "target_every": 500,
    "epsilon_end": 0.05,
    "exploration_fraction": 0.5,
    "max_grad_norm": 10.0,
    "episodes": 1_000,
}
"""The rates of CleanRL's dqn.py."""


def ours(work: dict[str, Any]) -> float:
    """Trains rlrun's DQN and returns the part of evaluated episodes that reach the goal."""
    from rlrun.python_api import DQN

    explored = int(work["exploration_fraction"] * work["env_steps"])
    config = {
        "num_envs_per_worker": 1,
        "rollout_fragment_length": work["train_every"],
        "training_intensity": 1 / work["train_every"],
        "min_env_steps_per_iteration": 5_000,
        "minibatch_size": work["minibatch"],
        "lr": work["lr"],
        "gamma": work["gamma"],
        "learning_starts": work["learning_starts"],
        "target_update_interval": work["target_every"] // work["train_every"],
        "epsilon": [[0, 1.0], [explored, work["epsilon_end"]]],
        "max_grad_norm": work["max_grad_norm"],
        "double": False,
        "model": {"hiddens": work["hiddens"], "activation": "relu"},
        "replay": {"capacity": work["capacity"]},
        "compile": False,
    }
    env = {"id": "FrozenLake-v1", "kwargs": {"map_name": work["map"], "is_slippery": True}}
    with DQN(env, config, seed=work["seed"]) as learning:
        while learning.train()["env_steps"] < work["env_steps"]:
            pass
        return learning.evaluate(work["episodes"], seed=work["seed"]).mean


def run(python: str, arguments: list[str]) -> float:
    """Runs one side in a process of its own."""
    surroundings = {**one_thread(BENCH / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=surroundings
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments[:1])} failed:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--map", choices=["4x4", "8x8"], default="4x4")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every figure in this file")
    parser.add_argument("--ours", metavar="WORK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours is not None:
        print(json.dumps(ours(json.loads(options.ours))))
        return
    python = make_venv(VENV, [*PACKAGES, *(same_version(name) for name in ("torch", "gymnasium", "numpy"))])
    print(
        f"{machine()}; rlrun {version('rlrun')}, {PACKAGES[0]}, torch {version('torch')}, "
        f"Python {platform.python_version()}",
        flush=True,
    )
    found: dict[str, dict[str, float]] = {PEER: {}, OURS: {}}
    if options.json and options.json.exists():
        found = json.loads(options.json.read_text())
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        work, key = json.dumps({**WORK, "map": options.map, "seed": seed}), f"{options.map}/{seed}"
        for name, words in (
            (PEER, [python, str(SCRIPTS / "bench_frozen_lake_sb3.py"), work]),
            (OURS, [sys.executable, str(Path(__file__).resolve()), "--ours", work]),
        ):
            if key not in found[name]:
                found[name][key] = run(words[0], words[1:])
                if options.json:
                    options.json.write_text(json.dumps(found, indent=1))
        print(f"{key}: {PEER} {found[PEER][key]:.3f}, {OURS} {found[OURS][key]:.3f}", flush=True)
    scores = {name: np.array([v for key, v in of.items() if key.startswith(options.map)]) for name, of in found.items()}
    for name, values in scores.items():
        estimate = bootstrapped(iqm, [values])
        print(
            f"FrozenLake {options.map}, {name}: {estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f}), "
            f"worst {values.min():.3f}, {len(values)} seeds"
        )
    better = probability_of_improvement([scores[OURS]], [scores[PEER]])
    print(f"P({OURS} above {PEER}) = {better.value:.2f} ({better.low:.2f} to {better.high:.2f})")


if __name__ == "__main__":
    main()
