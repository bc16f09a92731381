"""rlrun's side of the benchmark of action masks; `run.py` starts it in a separate process."""

from __future__ import annotations

from benchmarks.peers import Measurement, answer
from rlrun import PPO, Training


def trained(work: Measurement) -> Measurement:
    """Trains, and returns the mean return at each mark."""
    config = {
        "num_envs_per_worker": work["num_envs"],
        "train_batch_size": work["num_envs"]
        * (11 * work["fragment"] // 10),  # of an env slot's 11 rows, 10 contain a step
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
    env = {"id": "rlrun.toys:MaskedMatch", "kwargs": kwargs}
    returns: list[float] = []
    with Training(env, PPO(**config), seed=work["seed"]) as learning:
        for mark in work["marks"]:
            while learning.step()["env_steps"] < mark:
                pass
            returns.append(learning.evaluate(work["episodes"]).mean)
    return {"returns": returns}


if __name__ == "__main__":
    answer(trained)
