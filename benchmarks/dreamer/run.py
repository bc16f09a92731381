"""Measures DreamerV3's updates per second on one core, by network size, in rlrun and (where sizes match) in SheepRL.

    python -m benchmarks.dreamer.run
    python -m benchmarks.dreamer.run --sizes nano xs --sequences 16 --length 64

An update trains the world model, the actor and the critic on a minibatch of random sequences shaped like CartPole's. A
line shows the CPU time of the fastest of several updates, which other work on the machine affects least. `xs` is the
smallest size whose networks have the same widths in SheepRL. SheepRL gets its own venv under `.bench/`.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import torch

from benchmarks.peers import SHEEPRL, Measurement, Side, fastest, parser_of, print_row, write_json
from rlrun.algorithms.dreamer.dreamer import Dreamer, DreamerConfig
from rlrun.algorithms.dreamer.model_config import SIZES
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.learner.local_learner import LocalLearner

SPACES = Spaces(gymnasium.spaces.Box(-np.inf, np.inf, (4,)), gymnasium.spaces.Discrete(2))
SHEEPRL_SIZES = ("xs", "s", "m", "l", "xl")
SCHEDULED = {"lr": 1e-4, "actor_lr": 3e-5, "critic_lr": 3e-5, "entropy_coeff": 3e-4}


def learner_of(size: str, update_executor: UpdateExecutor) -> LocalLearner:
    """Returns a learner with networks of the given size."""
    algorithm = Dreamer(DreamerConfig.parse({"model": {"size": size}}))
    policy = algorithm.policy(SPACES, 0)
    return LocalLearner(
        policy,
        algorithm.objectives(policy),
        device="cpu",
        update_executor=update_executor,
        runs_users_code=False,
        seed=0,
        has_target=True,
    )


def random_sequences(state_size: int, rows: int, length: int) -> SampleBatch:
    """Returns a minibatch of random numbers."""
    drawn = np.random.default_rng(0)
    return SampleBatch(
        obs=drawn.normal(size=(rows, length + 1, 4)).astype(np.float32),
        episode_starts=drawn.random((rows, length + 1)) < 0.05,
        state=np.zeros((rows, state_size), np.float32),
        actions=drawn.integers(2, size=(rows, length)),
        rewards=drawn.random((rows, length), np.float32),
        discounts=np.full((rows, length), 0.997, np.float32),
        valid=np.ones((rows, length), np.bool_),
    )


def main() -> None:
    """Prints the parameters, the CPU time of an update, and the updates per second for each size."""
    parser = parser_of(str(__doc__))
    parser.add_argument("--sizes", nargs="+", default=["nano", "micro", "mini", "xs"], choices=list(SIZES))
    parser.add_argument("--sequences", type=int, default=16, help="sequences in a minibatch")
    parser.add_argument("--length", type=int, default=64, help="steps of each")
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--executor", choices=["c", "eager"], default="c", help="executor of rlrun's updates")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    print_row("", "parameters", "ms", "updates/s")
    for size in chosen.sizes:
        work = {
            "size": size,
            "updates": chosen.updates,
            "sequences": chosen.sequences,
            "length": chosen.length,
            "update_executor": chosen.executor,
        }
        found[f"rlrun {size}"] = measured(work)
        if size in SHEEPRL_SIZES:
            found[f"SheepRL {size}"] = Side(SHEEPRL, "dreamer.sheeprl", peer=SHEEPRL).measured(work)
        for name in [name for name in found if name.endswith(f" {size}")]:
            seconds = found[name]["seconds"]
            print_row(name, f"{found[name]['parameters']:,}", f"{1000 * seconds:,.0f}", f"{1 / seconds:.2f}")
    write_json(chosen.json, found)


def measured(work: Measurement) -> Measurement:
    """Returns the number of parameters and the CPU seconds of the fastest update."""
    learner = learner_of(work["size"], work["update_executor"])
    batch = random_sequences(learner.policy.behavior().network.state_size, work["sequences"], work["length"])
    learner.step(batch, scheduled=SCHEDULED)
    seconds = fastest({"update": lambda: learner.step(batch, scheduled=SCHEDULED)}, work["updates"])
    return {"parameters": learner.policy.parameters.size, "seconds": seconds["update"]}


if __name__ == "__main__":
    main()
