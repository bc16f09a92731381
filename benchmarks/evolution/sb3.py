"""sb3-contrib's side of the evolution benchmark; `run.py` starts it in the venv of Stable-Baselines3."""

from __future__ import annotations

from sb3_contrib import ARS
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.peers import Measurement, answer, between, mark


def measured(work: Measurement) -> Measurement:
    """Runs the warm-up and the measured generations, and returns the time and env steps of the latter."""
    hiddens = work["hiddens"]
    model = ARS(
        "MlpPolicy" if hiddens else "LinearPolicy",
        make_vec_env(work["env"], n_envs=1, seed=work["seed"]),
        n_delta=work["num_pairs"],
        delta_std=0.05,
        learning_rate=0.02,
        policy_kwargs={"net_arch": hiddens} if hiddens else None,
        seed=work["seed"],
        device="cpu",
        verbose=0,
    )
    marks = []
    for _ in range(work["warm_up"] + work["iterations"] + 1):
        marks.append(mark(env_steps=model.num_timesteps))
        model.learn(1, reset_num_timesteps=False)  # asks for one step, but always runs a whole generation
    return between(marks[work["warm_up"]], marks[-1])


if __name__ == "__main__":
    answer(measured)
