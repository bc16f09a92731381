"""Compares the time that rlrun and Stable-Baselines3 add to each step of a custom env, in turn, with one thread each.

    python -m benchmarks.own_env.run [--only 1,8,32] [--repeats N] [--json FILE]

The env is the README's: it is written in Python, and the envs step one after another. Both sides collect fragments for
PPO with 64 x 64 networks and compute their advantages, without learning. The bare env, stepped in a loop, is the floor.
The overhead is the CPU time of an env step beyond that of the bare env. The target for rlrun is at most a fifth of
Stable-Baselines3's overhead.
"""

from __future__ import annotations

import statistics

from benchmarks.peers import SB3, Measurement, Side, Work, compared, parser_of, rates, surroundings, write_json
from benchmarks.ppo.run import order

SHARE = 0.2
"""Target for rlrun's overhead, as a share of Stable-Baselines3's."""

BARE = "bare env"
SIDES = (
    Side(SB3, "ppo.sb3", {"library": "stable_baselines3"}, peer=SB3),
    Side("rlrun", "ppo.rlrun"),
    Side(BARE, "own_env.tank"),
)
ENV_STEPS = 40_960
"""Number of env steps to measure."""


def work(num_envs: int) -> Work:
    """Returns the work with the given number of env slots."""
    env, fragment = "benchmarks.own_env.tank:Tank-v0", 4096 // num_envs
    told = order(num_envs, fragment, 64, 1, 1, ENV_STEPS // (fragment * num_envs), env, kind="sampling")
    return Work(str(num_envs), f"the README's env in {num_envs} slots, no learning", told, SIDES)


WORKS = tuple(work(num_envs) for num_envs in (1, 8, 32))


def main() -> None:
    """Prints speeds and overheads."""
    parser = parser_of(str(__doc__), [each.part for each in WORKS])
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each side")
    options = parser.parse_args()
    about = surroundings(("gymnasium", "numpy"), [SB3], f"one thread each, in turn, {options.repeats} repetitions")
    found = []
    for each in WORKS:
        if each.part in options.only:
            comparison = compared(each, dict(each.order), options.repeats)
            overheads = overheads_us(comparison["measured"])
            share = overheads["rlrun"] / overheads[SB3]
            print(
                f"microseconds above the bare env: {SB3} {overheads[SB3]:.1f}, rlrun {overheads['rlrun']:.1f}: "
                f"{share:.2f} of it, to reach {SHARE:g}",
                flush=True,
            )
            found.append({**comparison, "overheads_us": overheads})
    write_json(options.json, {"about": about, "comparisons": found})


def overheads_us(measured: Measurement) -> dict[str, float]:
    """Returns each side's median CPU time of an env step beyond that of the bare env, in microseconds."""
    step_us = {name: 1e6 / statistics.median(rates(runs, "cpu_seconds")) for name, runs in measured.items()}
    return {name: us - step_us[BARE] for name, us in step_us.items() if name != BARE}


if __name__ == "__main__":
    main()
