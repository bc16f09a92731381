"""Compares QMIX in rlrun with a plain implementation (`plain_qmix.py`): they take turns, each with one thread.

    python -m benchmarks.qmix.run [--only two_step,simple_spread] [--repeats N] [--set window_s=S] [--json FILE]

two_step       the two-step game of QMIX's paper: 2 agents, and a world that takes almost no time
simple_spread  PettingZoo's simple_spread: 3 agents, a state of 54 numbers, and a world that takes most of rlrun's time

Both sides have the same networks (64 x 64, a mixer of 32), double Q-learning, Adam, minibatches of 128 transitions and
one update for every 4 env steps; the benchmark counts the updates of each side. Each env step is thus used for 32
transitions, as in PyMARL, which learns from 32 episodes after each episode. The plain implementation has one copy of
the world, as PyMARL has; rlrun is measured with one and with eight. Rates are world steps per second in a window after
the warm-up, without imports and compilation. On a busy machine, compare the ratios by CPU time. rlrun compiles its
updates, which is the default in long runs; the plain implementation does not.
"""

from __future__ import annotations

from benchmarks.peers import Measurement, Side, Work, benchmark
from benchmarks.qmix.plain_qmix import DEFAULTS

ORDER: Measurement = {
    **DEFAULTS,
    "algorithm": "qmix",
    "training_intensity": 1 / DEFAULTS["update_every"],
    "fragment": 4,
    "min_env_steps": 1000,
    "warm_up_s": 2.0,
    "window_s": 10.0,
    "config": {
        "optimizer": "adam",
        "team_reward": "once",
        "mixer_hidden": DEFAULTS["mixer_hidden"],
        "target_update_interval": DEFAULTS["target_interval"],
        "epsilon": 0.05,
    },
}
INDICATOR = [{"id": "rlrun.plugin:AgentIndicator"}]
SPREAD = {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"N": 3, "max_cycles": 25}, "wrappers": INDICATOR}
TWO_STEP = {"world": "rlrun.toys:TwoStepGame", "wrappers": INDICATOR}
PLAIN = "plain PyTorch"
SIDES = (
    Side(PLAIN, "qmix.plain", {"epsilon": 0.05}),
    Side("rlrun", "off_policy.rlrun", {"num_envs": 8}, {PLAIN: 3}),
    Side("rlrun, one copy", "off_policy.rlrun", {"num_envs": 1}),
)
WORKS = tuple(
    Work(part, f"QMIX, {title}, minibatch 128, an update every 4 steps", {**ORDER, "part": part, "world": world}, SIDES)
    for part, title, world in (
        ("two_step", "the two-step game", TWO_STEP),
        ("simple_spread", "simple_spread with 3 agents", SPREAD),
    )
)

if __name__ == "__main__":
    benchmark(str(__doc__), WORKS, ("torch", "mpe2", "pettingzoo", "numpy"))
