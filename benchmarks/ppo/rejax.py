"""rejax's side of the PPO benchmark; `run.py` starts it in a separate venv.

rejax compiles the learning and the env, which is gymnax's and written in JAX, into one program. The benchmark calls
rejax's own training iteration, as its `train` does between two evaluations, but does not evaluate. It does not import
rlrun, so it can run in a venv without it.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.peers import Measurement, answer, between, mark, on_one_cpu

LEAST_S = 5.0
"""Seconds for which the compiled program is called repeatedly."""


def program_of(work: Measurement) -> tuple[Any, Any]:
    """Returns a program that runs the work's iterations, and its initial state."""
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
    """Compiles and warms up the program, and measures repeated calls."""
    on_one_cpu()
    program, state = program_of(work)
    state = program(state)
    first = mark(env_steps=int(state.global_step))
    while time.perf_counter() - first["seconds"] < LEAST_S:
        state = program(state)
        steps = int(state.global_step)  # waits for the result
    return between(first, mark(env_steps=steps))


if __name__ == "__main__":
    answer(measured)
