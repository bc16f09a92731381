"""rlrun's side of the PPO benchmark; `run.py` starts it in a separate process.

It trains with `rlrun.run`, as `rlrun train` does: with result files, checkpoints and everything else that is enabled by
default.
"""

from __future__ import annotations

from typing import Any

from benchmarks.ours import run_iterations
from benchmarks.peers import Measurement, answer, between, mark
from rlrun import PPO, Training
from rlrun.engine.flow.operators.advantages import ComputeAdvantages
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.rollout.rollout import DEFAULT_POLICY


def entry_of(work: Measurement) -> dict[str, Any]:
    """Returns the entry of a spec file for the given work."""
    config = {
        "lr": work["lr"],
        "num_envs_per_worker": work["num_envs"],
        "train_batch_size": work["num_envs"] * work["fragment"],
        "minibatch_size": work["minibatch"],
        "num_epochs": work["epochs"],
        "gamma": work["gamma"],
        "gae_lambda": work["gae_lambda"],
        "precision": work.get("precision", "float32"),
        "model": {"hiddens": list(work["hiddens"]), "activation": "tanh"} if work["hiddens"] else {},
    }
    env = {"id": work["env"], "preset": "atari"} if work["env"].startswith("ALE/") else work["env"]
    return {"algorithm": "ppo", "env": env, "config": config}


def sampled(work: Measurement) -> Measurement:
    """Collects fragments and computes their advantages, without learning."""
    config = {**entry_of(work)["config"], "num_epochs": 1, "compile": False}
    with Training(work["env"], PPO(**config), seed=work["seed"]) as training:
        training.step()  # starts the workers
        workers = training.running.workers
        # A separate view is needed: the training's own view delivers its fragments to the dataflow that learns.
        fragments = PolicyWorkers(workers, DEFAULT_POLICY).rollouts()
        rollouts = fragments.for_each(ComputeAdvantages(work["gamma"], work["gae_lambda"]))
        for _ in range(work["warm_up"]):
            next(rollouts)
        began = mark(env_steps=workers.counts.env_steps)
        for _ in range(work["iterations"]):
            next(rollouts)
        return between(began, mark(env_steps=workers.counts.env_steps))


def measured(work: Measurement) -> Measurement:
    """Runs the given work, and returns the measurements."""
    return sampled(work) if work["kind"] == "sampling" else run_iterations(entry_of(work), work)


if __name__ == "__main__":
    answer(measured)
