"""sb3-contrib's side of the benchmark of action masks, with MaskablePPO; `run.py` starts it in a separate venv.

It uses only the env from rlrun, which needs nothing but Gymnasium and NumPy.
"""

from __future__ import annotations

import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.peers import Measurement, answer
from rlrun.toys.masked_envs import MaskedMatch


def trained(work: Measurement) -> Measurement:
    """Trains, and returns the mean return at each mark."""
    kwargs = {"num_actions": work["num_actions"], "num_allowed": work["num_allowed"]}
    model = MaskablePPO(
        "MlpPolicy",
        make_vec_env(MaskedMatch, n_envs=work["num_envs"], seed=work["seed"], env_kwargs=kwargs),
        learning_rate=work["lr"],
        n_steps=work["fragment"],
        batch_size=work["minibatch"],
        n_epochs=work["epochs"],
        gamma=work["gamma"],
        gae_lambda=work["gae_lambda"],
        clip_range=work["clip"],
        ent_coef=work["entropy_coeff"],
        vf_coef=work["vf_coeff"],
        max_grad_norm=work["max_grad_norm"],
        policy_kwargs={
            "net_arch": {"pi": work["hiddens"], "vf": work["hiddens"]},
            "activation_fn": torch.nn.Tanh,
        },
        seed=work["seed"],
        device="cpu",
        verbose=0,
    )
    returns = []
    for mark in work["marks"]:
        model.learn(mark - model.num_timesteps, reset_num_timesteps=False)
        fresh = make_vec_env(MaskedMatch, n_envs=1, seed=1_000 + work["seed"], env_kwargs=kwargs)
        mean, _ = evaluate_policy(model, fresh, n_eval_episodes=work["episodes"], deterministic=True)
        returns.append(float(mean))
    return {"returns": returns}


if __name__ == "__main__":
    answer(trained)
