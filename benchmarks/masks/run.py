"""Compares the returns of PPO with action masks, in rlrun and in sb3-contrib (MaskablePPO), on the same work.

    python -m benchmarks.masks.run [--first-seed N] [--seeds N] [--marks N ...] [--json FILE]

The env is `rlrun.toys:MaskedMatch`: 100 actions, 25 of which are allowed at each step. Random allowed actions reach a
return of 0.4, the right ones 10. Both sides have the same network, learning rate, minibatches and epochs, the same
number of env steps per batch, and the same budget. At each mark of the budget, the most likely actions are evaluated in
100 episodes. A line shows the interquartile mean over seeds and its 95% bootstrap interval.

MaskablePPO gets its own venv under `.bench/`. Two differences remain: MaskablePPO standardizes advantages per
minibatch, rlrun per batch; and in rlrun, each episode starts with a row that contains no step, so its fragments are a
tenth longer.
"""

from __future__ import annotations

from benchmarks.peers import SB3, Measurement, Side, parser_of, surroundings, write_json
from rlrun.report.statistics import bootstrapped, iqm

SIDES = (Side("sb3-contrib MaskablePPO", "masks.sb3", peer=SB3), Side("rlrun PPO", "masks.rlrun"))
WORK: Measurement = {
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
    "episodes": 100,
}


def main() -> None:
    """Trains all seeds of both sides in turn, and prints their returns at each mark."""
    parser = parser_of(str(__doc__))
    parser.add_argument("--first-seed", type=int, default=0, help="the first seed; settings were fixed on 100 and 101")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--marks", type=int, nargs="+", default=[5_000, 10_000, 20_000], help="env steps")
    options = parser.parse_args()
    surroundings(("torch", "gymnasium", "numpy"), [SB3])
    work = {**WORK, "marks": options.marks}
    returns: dict[str, list[list[float]]] = {side.name: [] for side in SIDES}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for side in SIDES:
            returns[side.name].append(side.measured({**work, "seed": seed})["returns"])
            print(f"seed {seed}: {side.name} {returns[side.name][-1]}", flush=True)
    for index, mark in enumerate(options.marks):
        for name, of_seeds in returns.items():
            found = bootstrapped(iqm, [[reached[index] for reached in of_seeds]])
            print(f"{mark:,} env steps, {name}: {found.value:.2f} ({found.low:.2f} to {found.high:.2f})")
    write_json(options.json, {"work": work, "returns": returns})


if __name__ == "__main__":
    main()
