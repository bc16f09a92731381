"""Measures what PPO with action masks learns, with sb3-contrib's MaskablePPO and with rlrun, on the same work.

    python scripts/bench_masks.py [--first-seed N] [--seeds N] [--json FILE]

The env is `rlrun.envs.masked_worlds:MaskedMatch`: 100 actions, of which 25 are allowed at each step. Any allowed
actions return 0.4, the right ones 10. Both sides have the same network, learning rate, minibatches and epochs, as many
env steps per batch, and the same budget. At each mark of the budget the likeliest actions of 100 episodes are
evaluated. A line gives the interquartile mean over seeds and its 95 % bootstrap interval.

MaskablePPO gets a venv of its own under `.bench/`. Two differences are left: it standardises advantages per minibatch,
rlrun per batch; and in rlrun a row begins each episode anew and holds no step, which is why its fragments are a tenth
longer.
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

from rlrun.report.statistics import bootstrapped, iqm

SCRIPTS = Path(__file__).resolve().parent
VENV = "sb3-masks-venv"
PACKAGES = ("sb3-contrib==2.9.2", "stable-baselines3==2.9.2")
PEER, OURS = "sb3-contrib MaskablePPO", "rlrun PPO"
TIMEOUT_S = 600.0

WORK: dict[str, Any] = {
    "num_actions": 100,
    "num_allowed": 25,
    "num_envs": 8,
    "fragment": 128,
    "minibatch": 64,
    "epochs": 10,
    "lr": 1e-3,
    "gamma": 0.9,
    "gae_lambda": 0.95,
    "clip": 0.2,
    "entropy_coeff": 0.0,
    "vf_coeff": 0.5,
    "max_grad_norm": 0.5,
    "hiddens": [64, 64],
    "marks": [5_000, 10_000, 20_000],
    "episodes": 100,
}


def ours(work: dict[str, Any]) -> list[float]:
    """Trains rlrun's PPO and returns the mean return at each mark."""
    from rlrun.algorithms.ppo import PPO
    from rlrun.training.training import Training

    rows = 11 * work["fragment"] // 10  # of 11 rows of an env slot 10 hold a step
    config = {
        "num_envs_per_worker": work["num_envs"],
        "train_batch_size": work["num_envs"] * rows,
        "min_env_steps_per_iteration": 1,
        "minibatch_size": 11 * work["minibatch"] // 10,
        "num_epochs": work["epochs"],
        "lr": work["lr"],
        "gamma": work["gamma"],
        "gae_lambda": work["gae_lambda"],
        "clip_param": work["clip"],
        "entropy_coeff": work["entropy_coeff"],
        "vf_loss_coeff": work["vf_coeff"],
        "vf_clip_param": None,
        "max_grad_norm": work["max_grad_norm"],
        "model": {"hiddens": work["hiddens"]},
        "compile": False,
    }
    kwargs = {"num_actions": work["num_actions"], "num_allowed": work["num_allowed"]}
    returns: list[float] = []
    env = {"id": "rlrun.envs.masked_worlds:MaskedMatch", "kwargs": kwargs}
    with Training(env, PPO(**config), seed=work["seed"]) as training:
        for mark in work["marks"]:
            training.train(env_steps=mark)
            returns.append(training.evaluate(work["episodes"]).mean)
    return returns


def run(python: str, arguments: list[str]) -> list[float]:
    """Runs one side in a process of its own."""
    surroundings = {**one_thread(BENCH / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=surroundings
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments[:1])} failed:\n{done.stderr}")
    returns: list[float] = json.loads(done.stdout.splitlines()[-1])
    return returns


def told(returns: list[float]) -> str:
    """Returns the interquartile mean of several seeds' returns with its interval."""
    found = bootstrapped(iqm, [np.array(returns)])
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--first-seed", type=int, default=0, help="the first seed; settings were fixed on 100 and 101")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every return to this file")
    parser.add_argument("--ours", metavar="WORK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours is not None:
        print(json.dumps(ours(json.loads(options.ours))))
        return
    python = make_venv(VENV, [*PACKAGES, *(same_version(name) for name in ("torch", "gymnasium", "numpy"))])
    print(
        f"{machine()}; rlrun {version('rlrun')}, {', '.join(PACKAGES)}, torch {version('torch')}, "
        f"Python {platform.python_version()}",
        flush=True,
    )
    returns: dict[str, list[list[float]]] = {PEER: [], OURS: []}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        work = json.dumps({**WORK, "seed": seed})
        returns[PEER].append(run(python, [str(SCRIPTS / "bench_masks_sb3.py"), work]))
        returns[OURS].append(run(sys.executable, [str(Path(__file__).resolve()), "--ours", work]))
        print(f"seed {seed}: {returns[PEER][-1]}, {returns[OURS][-1]}", flush=True)
    for index, mark in enumerate(WORK["marks"]):
        for name, found in returns.items():
            print(f"{mark:,} env steps, {name}: {told([of_seed[index] for of_seed in found])}")
    if options.json:
        options.json.write_text(json.dumps({"work": WORK, "returns": returns}, indent=1))


if __name__ == "__main__":
    main()
