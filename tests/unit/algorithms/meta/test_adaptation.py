"""Meta-gradients equal closed forms, and an adapted policy is one gradient step away."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from rlrun.algorithms.meta.adaptation import AdaptablePolicy, Views, adapted, adapted_flat, surrogate
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import plain_policy

STEP_SIZE = 0.3


def meta_gradients(*, first_order: bool, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradient of |theta' - b|^2 / 2, the Hessian of the inner loss, and theta' - b.

    The inner loss is (theta - a)^T H (theta - a) / 2, a quadratic.
    """
    generator = torch.Generator().manual_seed(1)
    root, start, near, far = (torch.randn(shape, generator=generator) for shape in ((3, 3), (3,), (3,), (3,)))
    hessian = root @ root.t()

    def inner(views: Views) -> Tensor:
        way = views["theta"] - near
        return way @ hessian @ way / 2

    leaf = start.clone().requires_grad_()
    views: Views = {"theta": leaf, "unused": torch.zeros(1, requires_grad=True)}
    for _ in range(steps):
        views = adapted(inner, views, STEP_SIZE, first_order=first_order)
    distance = views["theta"] - far
    (gradient,) = torch.autograd.grad(distance.square().sum() / 2, leaf)
    return gradient, hessian, distance.detach()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_full_meta_gradient_of_a_quadratic_equals_the_analytic_gradient(steps: int) -> None:
    gradient, hessian, distance = meta_gradients(first_order=False, steps=steps)
    jacobian = torch.linalg.matrix_power(torch.eye(3) - STEP_SIZE * hessian, steps)
    torch.testing.assert_close(gradient, jacobian @ distance)


@pytest.mark.parametrize("steps", [1, 2])
def test_the_first_order_meta_gradient_is_the_gradient_at_the_adapted_parameters(steps: int) -> None:
    gradient, _, distance = meta_gradients(first_order=True, steps=steps)
    torch.testing.assert_close(gradient, distance)
    full, _, _ = meta_gradients(first_order=False, steps=steps)
    assert not torch.allclose(gradient, full, atol=1e-2)


def policy_and_rows() -> tuple[AdaptablePolicy, Tensor, SampleBatch]:
    policy = plain_policy(AdaptablePolicy, Box(-1, 1, (2,)), Discrete(3), ModelConfig(hiddens=(4,)), seed=1)
    flat = policy.parameters.gather(policy.module)
    generator = torch.Generator().manual_seed(0)
    rows = SampleBatch(
        obs=torch.randn(12, 1, 2, generator=generator),
        actions=torch.randint(3, (12, 1), generator=generator),
        advantages=torch.randn(12, 1, generator=generator),
        valid=torch.arange(12).view(12, 1) < 9,
    )
    outputs = policy.outputs(policy.parameters.views(flat), rows)
    rows["logp"] = outputs.run(outputs.views, rows).distribution.log_prob(rows["actions"])
    return policy, flat, rows


def test_the_inner_gradient_is_that_of_reinforce_over_the_valid_steps() -> None:
    policy, flat, rows = policy_and_rows()
    leaf = flat.clone().requires_grad_()
    plain = ActorCriticPolicy.outputs(policy, policy.parameters.views(leaf), rows)
    logp = plain.distribution.log_prob(rows["actions"])[:9]
    (expected,) = torch.autograd.grad(-(logp * rows["advantages"][:9]).mean(), leaf)
    views = policy.parameters.views(leaf)
    (gradient,) = torch.autograd.grad(surrogate(policy.outputs(views, rows), rows)(views), leaf)
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(adapted_flat(policy, flat, rows, STEP_SIZE), flat - STEP_SIZE * expected)


def test_adaptation_does_not_modify_the_initial_parameters() -> None:
    policy, flat, rows = policy_and_rows()
    before = flat.clone()
    assert not torch.equal(adapted_flat(policy, flat, rows, STEP_SIZE), before)
    np.testing.assert_array_equal(flat.numpy(), before.numpy())
