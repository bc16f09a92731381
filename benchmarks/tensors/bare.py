"""Floor of the tensors benchmark: the env alone, or the env with a network in torch that acts."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from benchmarks.peers import Measurement, answer, between, mark
from benchmarks.tensors.env import ACTIVATIONS, started


def measured(work: Measurement) -> Measurement:
    """Steps the env as often as training does; if `acts` is set, also runs both networks and samples actions."""
    env, observations = started(work)
    widths = [4, *work["hiddens"]]
    dense = [module for pair in pairwise(widths) for module in (nn.Linear(*pair), ACTIVATIONS[work["activation"]]())]
    actor, critic = (nn.Sequential(*dense, nn.Linear(widths[-1], 1)).to(env.device) for _ in range(2))
    actions = torch.randn(env.num_envs, 1, device=env.device)
    steps = (work["warm_up"] + work["iterations"]) * work["fragment"]
    began = mark()
    with torch.no_grad():
        for number in range(steps):
            if number == work["warm_up"] * work["fragment"]:
                began = mark()
            if work["acts"]:
                mean = actor(observations)
                actions = torch.normal(mean, 1.0)
                torch.distributions.Normal(mean, 1.0).log_prob(actions)  # type: ignore[no-untyped-call]
                critic(observations)
            observations = env.step(actions).observations
    return {"env_steps": work["iterations"] * work["fragment"] * env.num_envs, **between(began, mark())}


if __name__ == "__main__":
    answer(measured)
