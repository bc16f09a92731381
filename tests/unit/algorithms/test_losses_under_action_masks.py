"""Outputs for actions that are forbidden everywhere do not affect losses, and get no gradient."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.actor_q.sac import SAC
from rlrun.algorithms.dqn.async_dqn import AsyncDQN
from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.impala.appo import APPO
from rlrun.algorithms.impala.impala import Impala
from rlrun.algorithms.pg.pg import PG
from rlrun.algorithms.ppo import PPO
from rlrun.algorithms.recurrent_q.r2d2 import R2D2
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces

ACTIONS, ROWS, LENGTH = 4, 6, 5
MASK = torch.tensor([1, 0, 1, 0], dtype=torch.int8)
ALLOWED, FORBIDDEN = [0, 2], [1, 3]
SPACES = Spaces(Dict({"action_mask": MultiBinary(ACTIONS), "seen": Box(-1, 1, (3,))}), Discrete(ACTIONS))
LINEAR = {"model": {"hiddens": [], "orthogonal_init": False}, "gamma": 0.9}
SCHEDULED = {name: torch.tensor(0.2) for name in ("clip_param", "entropy_coeff", "kl_coeff")}

CASES = {
    "dqn": (DQN, {"double": False}, 1),
    "double": (DQN, {"double": True}, 1),
    "c51": (DQN, {"distribution": "c51", "num_atoms": 5}, 1),
    "quantile, not double": (DQN, {"distribution": "quantile", "num_atoms": 5, "double": False}, 1),
    "async_dqn": (AsyncDQN, {}, LENGTH),
    "r2d2": (
        R2D2,
        {
            "model": {"hiddens": [], "core_width": 4, "dueling": False},
            "replay": {"burn_in": 2, "length": LENGTH, "stride": 5},
            "n_step": 1,
        },
        LENGTH,
    ),
    "ppo": (PPO, {}, 1),
    "a2c": (A2C, {}, 1),
    "pg": (PG, {}, 1),
    "impala": (Impala, {}, LENGTH),
    "appo": (APPO, {}, LENGTH),
    "sac": (SAC, {}, 1),
}


def batch_for_losses(algorithm, policy, length):
    """Rows with random numbers in every column that one of the losses reads."""
    random = torch.Generator().manual_seed(0)

    def numbers(*shape):
        return torch.randn(*shape, generator=random)

    rows = LENGTH + 3 if isinstance(algorithm, R2D2) else length

    def observations():
        return {"action_mask": MASK.expand(ROWS, rows, ACTIONS), "seen": numbers(ROWS, rows, 3)}

    ends = numbers(ROWS, length) > 1
    return SampleBatch(
        obs=observations(),
        next_obs=observations(),
        actions=torch.tensor(ALLOWED)[(numbers(ROWS, length) > 0).long()],
        rewards=numbers(ROWS, length),
        discounts=torch.full((ROWS, length), 0.9),
        weights=torch.ones(ROWS, length),
        valid=torch.arange(ROWS)[:, None].expand(ROWS, length) > 0,
        terminateds=ends,
        logp=-numbers(ROWS, length).abs(),
        advantages=numbers(ROWS, length),
        value_targets=numbers(ROWS, length),
        values=numbers(ROWS, length),
        target_outputs=torch.where(MASK != 0, numbers(ROWS, length, ACTIONS), torch.tensor(-1e9)),
        steps=torch.ones(ROWS, length, dtype=torch.int64),
        episode_starts=torch.zeros(ROWS, rows, dtype=torch.bool),
        state=numbers(ROWS, 8),
        **{"actor/log_probs": numbers(ROWS, length)},
    )


def head_biases(views):
    """The biases of every layer that describes the actions, by name."""
    ends = ("policy_head.bias", "stream.0.bias", "head.bias")
    return {name: view for name, view in views.items() if name.endswith(ends) and len(view) % ACTIONS == 0}


@pytest.mark.parametrize(("kind", "config", "length"), CASES.values(), ids=CASES)
def test_losses_ignore_forbidden_actions_and_give_them_no_gradient(kind, config, length):
    algorithm = kind(kind.Config.parse({**LINEAR, **config}))
    policy = algorithm.policy(SPACES, seed=0)
    flat = torch.randn(policy.parameters.size, generator=torch.Generator().manual_seed(1))
    batch = batch_for_losses(algorithm, policy, length)
    assert head_biases(policy.parameters.views(flat))

    def losses(shift):
        moved = flat.clone()
        for bias in head_biases(policy.parameters.views(moved)).values():
            bias.view(ACTIONS, -1)[FORBIDDEN] += shift
        moved.requires_grad_()
        views = policy.parameters.views(moved)
        outputs = policy.outputs(views, batch, views)
        found = [objective.loss(outputs, batch, SCHEDULED) for objective in algorithm.objectives(policy)]
        gradients = [torch.autograd.grad(loss.total, moved, retain_graph=True)[0] for loss in found]
        return found, [head_biases(policy.parameters.views(gradient)) for gradient in gradients]

    (plain, gradients), (shifted, _) = losses(0.0), losses(1e4)
    for before, after in zip(plain, shifted, strict=True):
        assert torch.equal(before.total, after.total)
        for name, statistic in before.statistics.items():
            assert torch.equal(statistic, after.statistics[name]), name
    largest = 0.0
    for of_objective in gradients:
        for gradient in of_objective.values():
            by_action = gradient.view(ACTIONS, -1)
            np.testing.assert_array_equal(by_action[FORBIDDEN], torch.zeros_like(by_action[FORBIDDEN]))
            largest = max(largest, by_action.abs().max().item())
    assert largest > 1e-3
