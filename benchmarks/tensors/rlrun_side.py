"""rlrun's side of the tensors benchmark: runs `rlrun.run`, as `rlrun train` does."""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.ours import LONG_RUN, Clock
from benchmarks.peers import Measurement, answer
from benchmarks.tensors.marks import Marks
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.policy.tensor_actor import TensorActor
from rlrun.experiments.launch.run import run


def entry_of(work: Measurement) -> dict[str, Any]:
    """Returns an entry of a spec file with the PPO settings that Isaac Lab uses for rsl_rl."""
    rows = work["num_envs"] * work["fragment"]
    config = {
        "num_envs_per_worker": work["num_envs"],
        "train_batch_size": rows,
        "minibatch_size": rows // work["minibatches"],
        "num_epochs": work["epochs"],
        "lr": {"adaptive_kl": work["adaptive_kl"], "initial": work["lr"]},
        "gae_lambda": 0.95,
        "gamma": 0.99,
        "vf_clip_param": 0.2,
        "vf_loss_coeff": 1.0,
        "entropy_coeff": 0.01,
        "max_grad_norm": 1.0,
        "separate_grad_norms": True,
        "num_gpus": int(work["device"] != "cpu"),
        "model": {"hiddens": list(work["hiddens"]), "activation": work["activation"], "shared_value": False},
    }
    return {"algorithm": "ppo", "env": {"tensors": "benchmarks.tensors.env:SteeredCartPole"}, "config": config}


def measured(work: Measurement) -> Measurement:
    """Trains for the warm-up and the measured iterations, and returns the measurements."""
    marks, clock = Marks(), Clock()
    TensorActor.act = marks.timed("acting_s", TensorActor.act)  # type: ignore[method-assign]
    LocalLearner.learn = marks.timed("updates_s", LocalLearner.learn)  # type: ignore[method-assign]
    stop = {"env_steps": LONG_RUN, "iteration": work["warm_up"] + work["iterations"]}
    with tempfile.TemporaryDirectory() as folder:
        entry = {**entry_of(work), "seeds": [work["seed"]], "stop": stop}
        run({"bench": entry}, runs_dir=folder, executor="local", watch=clock)
    return marks.found(work, clock.results[-1]["episode_return_mean"])


if __name__ == "__main__":
    answer(measured)
