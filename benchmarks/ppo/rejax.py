"""Runs one piece of the benchmark's work with rejax; `run.py` starts it in a venv of its own.

rejax compiles the env, which is gymnax's in JAX, and the learning to one program. It is called through its own training
iteration, as its `train` does between two evaluations, of which there are none here. It knows nothing of rlrun, so that
it can run where rlrun is not installed.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.peers import Measurement, answer, between, mark, on_one_cpu

LEAST_S = 5.0
"""Seconds that a program of so many iterations is called again and again."""


def program_of(work: Measurement) -> tuple[Any, Any]:
    """Returns a program that runs the iterations of a piece of work, and the state that it begins with."""
    import jax
    from rejax import PPO

    batch = work["num_envs"] * work["fragment"]
    ppo = PPO.create(
        env=work["env"],
        num_envs=work["num_envs"],
        num_steps=work["fragment"],
        num_epochs=work["epochs"],
        num_minibatches=batch // work["minibatch"],
        learning_rate=work["lr"],
        gamma=work["gamma"],
        gae_lambda=work["gae_lambda"],
        max_grad_norm=0.5,
        ent_coef=0.0,
        agent_kwargs={"hidden_layer_sizes": tuple(work["hiddens"]), "activation": "tanh"},
    )

    def run(state: Any) -> Any:
        return jax.lax.scan(lambda before, _: (ppo.train_iteration(before), None), state, None, work["iterations"])[0]

    return jax.jit(run), ppo.init_state(jax.random.PRNGKey(work["seed"]))


def measured(work: Measurement) -> Measurement:
    """Compiles, warms up, and measures calls of the program."""
    on_one_cpu()
    program, state = program_of(work)
    state = program(state)
    first = mark(env_steps=int(state.global_step))
    while time.perf_counter() - first["seconds"] < LEAST_S:
        state = program(state)
        steps = int(state.global_step)  # waits for it
    return between(first, mark(env_steps=steps))


if __name__ == "__main__":
    answer(measured)
