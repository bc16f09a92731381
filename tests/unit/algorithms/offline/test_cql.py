"""CQL: its regularizer compared with closed forms, and its fixed point on a small MDP."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch

from rlrun import CQL
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.finite_mdp import FiniteMDP
from tests.rounding import rounding_error
from tests.unit.algorithms.offline.rows import BOX, CHOICE, ONE_LAYER, critics, layer, made, taken, valid_mean

NEAR = rounding_error(3 + 4 + 6)


def test_the_sampled_soft_maximum_converges_to_the_log_of_the_integral_of_exp_q():
    _, outputs, named, _, batch, row = made(CQL(model=ONE_LAYER, num_sampled_actions=4000), BOX, rows=3)
    for name, view in outputs.networks.views.items():
        if name.startswith("actor."):
            view.mul_(0.1)  # so that the actor's actions spread over the whole Box
    found = outputs.soft_maximum(batch)[..., 0].detach().numpy()
    for c, values in enumerate(found):
        # Q(s, a) is linear in a: the integral over [-1, 1]^2 of exp(Q) is a product of 2 sinh(w) / w.
        slopes = named[f"critics.{c}.head.weight"][0, 3:]
        constants = row["obs"] @ named[f"critics.{c}.head.weight"][0, :3] + named[f"critics.{c}.head.bias"]
        exact = constants + np.log(2 * np.sinh(slopes) / slopes).sum()
        np.testing.assert_allclose(values, exact, atol=0.05)


def test_the_sampled_soft_maximum_matches_a_computation_by_hand():
    _, outputs, named, _, batch, row = made(CQL(model=ONE_LAYER, num_sampled_actions=2), BOX)
    parts = [row["uniform_actions"]]
    logs = [np.full((6, 2), -2 * math.log(2))]
    noises = np.split(row["sample_noise"], 2, 1)
    for observations, noise in zip((row["obs"], row["next_obs"]), noises, strict=True):
        means, log_stds = np.split(layer(named, "actor", observations)[:, None].astype(np.float64), 2, -1)
        log_stds = log_stds.clip(-20, 2)
        drawn = means + np.exp(log_stds) * noise
        parts.append(np.tanh(drawn))
        per_number = -0.5 * noise**2 - log_stds - 0.5 * math.log(2 * math.pi) - np.log(1 - np.tanh(drawn) ** 2)
        logs.append(per_number.sum(-1))
    actions, densities = np.concatenate(parts, 1), np.concatenate(logs, 1)
    values = critics(named, np.repeat(row["obs"][:, None], 6, 1), actions)[..., 0]
    expected = np.log(np.exp(values - densities).mean(-1))
    np.testing.assert_allclose(outputs.soft_maximum(batch)[..., 0].detach(), expected, rtol=1e-4, atol=1e-4)


def test_calibration_raises_values_of_the_actors_actions_to_at_least_the_recorded_returns():
    algorithm = CQL(model=ONE_LAYER, num_sampled_actions=2, calibrated=True, input="data")
    _, outputs, _, _, batch, _ = made(algorithm, BOX)
    plain = outputs.soft_maximum(batch)
    for returns, is_bound in ((-1e6, False), (50.0, True)):
        found = outputs.soft_maximum({**batch, "returns": torch.full((6, 1), returns)})
        assert bool((found > plain).all()) == is_bound
        assert is_bound or torch.equal(found, plain)


def test_targets_for_continuous_actions_have_no_entropy_term():
    algorithm = CQL(model=ONE_LAYER, conservative_weight=0.0)
    _, outputs, named, target, batch, row = made(algorithm, BOX)
    means, log_stds = np.split(layer(named, "actor", row["next_obs"]), 2, -1)
    following = np.tanh(means + np.exp(log_stds.clip(-20, 2)) * row["next_noise"])
    ahead = row["rewards"] + row["discounts"] * critics(target, row["next_obs"], following)[..., 0].min(0)
    errors = critics(named, row["obs"], row["actions"])[..., 0] - ahead
    found = algorithm.critics_loss(outputs, batch, {})
    assert found.total.item() == pytest.approx(valid_mean((0.5 * errors**2).sum(0)), rel=NEAR)


def test_the_loss_for_discrete_actions_is_logsumexp_minus_the_recorded_actions_value():
    algorithm = CQL(model=ONE_LAYER, conservative_weight=0.7, num_critics=2)
    _, outputs, named, target, batch, row = made(algorithm, CHOICE)
    best = critics(named, row["next_obs"])[0].argmax(-1)
    ahead = row["rewards"] + row["discounts"] * taken(critics(target, row["next_obs"]), best).min(0)
    values = critics(named, row["obs"])
    recorded = taken(values, row["actions"])
    gaps = np.log(np.exp(values).sum(-1)) - recorded
    expected = valid_mean((0.5 * (recorded - ahead) ** 2 + 0.7 * gaps).sum(0))
    found = algorithm.critics_loss(outputs, batch, {})
    assert found.total.item() == pytest.approx(expected, rel=NEAR)
    assert found.statistics["gap"].item() == pytest.approx(valid_mean(gaps.mean(0)), rel=NEAR)


GAMMA = 0.8


def small_mdp(rng):
    """Random MDP of 3 states and 2 actions, and a behavior policy."""
    mdp = FiniteMDP(rng.dirichlet(np.ones(3), (3, 2)), rng.normal(size=(3, 2)), np.ones(3) / 3)
    return mdp, rng.dirichlet([2.0, 2.0], 3)


def conservative_fixed_point(mdp, behavior, weight):
    """Values where the expected gradient vanishes: Q = max backup - weight (softmax(Q) / behavior - 1)."""
    q = np.zeros((3, 2))
    for _ in range(20_000):
        soft = np.exp(q) / np.exp(q).sum(-1, keepdims=True)
        q += 0.02 * (mdp.backup(q.max(-1), GAMMA) - weight * (soft / behavior - 1) - q)
    return q


def test_the_gradient_vanishes_at_the_exact_conservative_values_of_a_small_mdp():
    mdp, behavior = small_mdp(np.random.default_rng(3))
    exact = conservative_fixed_point(mdp, behavior, 0.5)
    algorithm = CQL(model=ONE_LAYER, conservative_weight=0.5, num_critics=1)
    policy = algorithm.policy(Spaces(gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)), 0)
    flat = torch.zeros(policy.parameters.size)
    views = policy.parameters.views(flat)
    views["critics.0.head.weight"].copy_(torch.as_tensor(exact.T))
    rows = [
        (state, action, following, behavior[state, action] * mdp.transitions[state, action, following])
        for state, action, following in np.ndindex(3, 2, 3)
    ]
    states, actions, following, shares = (torch.tensor(column)[:, None] for column in zip(*rows, strict=True))
    batch = SampleBatch(
        obs=states,
        actions=actions,
        next_obs=following,
        rewards=torch.as_tensor(mdp.rewards)[states, actions].float(),
        discounts=torch.full((18, 1), GAMMA),
        valid=torch.ones(18, 1, dtype=torch.bool),
        weights=shares.float(),
    )
    flat.requires_grad_()
    trained = policy.parameters.views(flat)
    loss = algorithm.critics_loss(policy.outputs(trained, batch, views), batch, {}).total
    (gradient,) = torch.autograd.grad(loss, flat)
    assert gradient.abs().max() < 1e-5
    with torch.no_grad():  # Q-values of actions that are rarer in the data are lower than in Q-learning
        assert (exact < mdp.optimal_q(GAMMA) - 0.1).any()
