"""IQL, AWAC and CRR: their losses by hand on networks of one layer, and what their values converge to."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch

from rlrun import AWAC, CRR, IQL
from rlrun.algorithms.offline.iql import expectile_loss
from rlrun.engine.messages.errors import UsageError
from tests.rounding import rounding_error
from tests.unit.algorithms.offline.rows import BOX, CHOICE, ONE_LAYER, critics, layer, made, softmax, taken, valid_mean

NEAR = rounding_error(3 + 4 + 6)


def densities(means, log_stds, actions):
    noise = (actions - means) / np.exp(log_stds)
    return (-0.5 * noise**2 - log_stds - 0.5 * math.log(2 * math.pi)).sum(-1)


def gaussian(named, observations):
    return layer(named, "actor", observations), named["actor.log_stds"]


@pytest.mark.parametrize("expectile", [0.1, 0.5, 0.9])
def test_the_expectile_loss_weights_errors_by_sign_and_is_minimal_at_the_expectile(expectile):
    values = torch.tensor([expectile], requires_grad=True)  # the expectile of 0 and 1 with equal probability
    loss = expectile_loss(torch.tensor([0.0, 1.0]) - values, expectile).sum()
    (slope,) = torch.autograd.grad(loss, values)
    assert slope.item() == pytest.approx(0, abs=1e-7)
    assert expectile_loss(torch.tensor([2.0, -2.0]), expectile).tolist() == pytest.approx(
        [4 * expectile, 4 * (1 - expectile)]
    )


@pytest.mark.parametrize("spaces", [BOX, CHOICE])
def test_iql_losses_match_a_computation_by_hand(spaces):
    algorithm = IQL(model=ONE_LAYER, expectile=0.8, beta=2.0, max_weight=0.5)
    _, outputs, named, target, batch, row = made(algorithm, spaces)
    if spaces is BOX:
        recorded = critics(target, row["obs"], row["actions"])[..., 0]
        values = critics(named, row["obs"], row["actions"])[..., 0]
        log_probs = densities(*gaussian(named, row["obs"]), row["actions"])
    else:
        recorded = taken(critics(target, row["obs"]), row["actions"])
        values = taken(critics(named, row["obs"]), row["actions"])
        log_probs = taken(np.log(softmax(layer(named, "actor", row["obs"]))), row["actions"])
    advantages = recorded.min(0) - layer(named, "value", row["obs"])[:, 0]
    value = algorithm.value_loss(outputs, batch, {})
    sided = np.where(advantages > 0, 0.8, 0.2) * advantages**2
    assert value.total.item() == pytest.approx(valid_mean(sided), rel=NEAR)
    ahead = row["rewards"] + row["discounts"] * layer(named, "value", row["next_obs"])[:, 0]
    critic = algorithm.critics_loss(outputs, batch, {})
    assert critic.total.item() == pytest.approx(valid_mean(((values - ahead) ** 2).sum(0)), rel=NEAR)
    carried = {**batch, "value/advantages": value.carry["advantages"]}
    weights = np.minimum(np.exp(2 * advantages), 0.5)
    actor = algorithm.actor_loss(outputs, carried, {})
    assert actor.total.item() == pytest.approx(-valid_mean(weights * log_probs), rel=NEAR)
    assert weights[1:].min() < 0.5  # some weights are below the bound, so the exponent is tested, too


def test_iql_losses_do_not_sample_actions():
    assert not {"noise", "next_noise"} & made(IQL(model=ONE_LAYER), BOX).batch.keys()


def test_awac_losses_for_continuous_actions_match_a_computation_by_hand():
    algorithm = AWAC(model=ONE_LAYER, beta=0.5, num_sampled_actions=3)
    _, outputs, named, target, batch, row = made(algorithm, BOX)
    means, log_stds = gaussian(named, row["next_obs"])
    following = np.clip(means + np.exp(log_stds) * row["next_noise"], -1, 1)
    ahead = row["rewards"] + row["discounts"] * critics(target, row["next_obs"], following)[..., 0].min(0)
    errors = critics(named, row["obs"], row["actions"])[..., 0] - ahead
    loss = algorithm.critics_loss(outputs, batch, {})
    assert loss.total.item() == pytest.approx(valid_mean((errors**2).sum(0)), rel=NEAR)
    means, log_stds = gaussian(named, row["obs"])
    own = np.clip(means[:, None] + np.exp(log_stds) * row["noise"], -1, 1)
    repeated = np.repeat(row["obs"][:, None], 3, 1)
    baseline = critics(named, repeated, own)[..., 0].min(0).mean(-1)
    advantages = critics(named, row["obs"], row["actions"])[..., 0].min(0) - baseline
    weighted = np.minimum(np.exp(0.5 * advantages), 100) * densities(means, log_stds, row["actions"])
    assert algorithm.actor_loss(outputs, batch, {}).total.item() == pytest.approx(-valid_mean(weighted), rel=NEAR)


def test_awac_losses_for_discrete_actions_are_exact_sums_over_all_choices():
    algorithm = AWAC(model=ONE_LAYER)
    _, outputs, named, target, batch, row = made(algorithm, CHOICE)
    ahead = (softmax(layer(named, "actor", row["next_obs"])) * critics(target, row["next_obs"]).min(0)).sum(-1)
    errors = taken(critics(named, row["obs"]), row["actions"]) - (row["rewards"] + row["discounts"] * ahead)
    loss = algorithm.critics_loss(outputs, batch, {})
    assert loss.total.item() == pytest.approx(valid_mean((errors**2).sum(0)), rel=NEAR)
    values, probs = critics(named, row["obs"]).min(0), softmax(layer(named, "actor", row["obs"]))
    advantages = taken(values, row["actions"]) - (probs * values).sum(-1)
    weighted = np.minimum(np.exp(advantages), 100) * np.log(taken(probs, row["actions"]))
    assert algorithm.actor_loss(outputs, batch, {}).total.item() == pytest.approx(-valid_mean(weighted), rel=NEAR)


@pytest.mark.parametrize("baseline", ["mean", "max"])
def test_crr_imitates_only_recorded_actions_that_are_better_than_the_actors_own_actions(baseline):
    algorithm = CRR(model=ONE_LAYER, weighting="binary", baseline=baseline)
    _, outputs, named, _, batch, row = made(algorithm, BOX)
    means, log_stds = gaussian(named, row["obs"])
    own = np.clip(means[:, None] + np.exp(log_stds) * row["noise"], -1, 1)
    values = critics(named, np.repeat(row["obs"][:, None], 4, 1), own)[..., 0].min(0)
    values = values.mean(-1) if baseline == "mean" else values.max(-1)
    is_better = critics(named, row["obs"], row["actions"])[..., 0].min(0) > values
    assert {True, False} == set(is_better[1:]) or baseline == "max"
    expected = -valid_mean(is_better * densities(means, log_stds, row["actions"]))
    assert algorithm.actor_loss(outputs, batch, {}).total.item() == pytest.approx(expected, rel=NEAR, abs=NEAR)


def test_crr_bootstraps_with_the_target_actor():
    algorithm = CRR(model=ONE_LAYER)
    _, outputs, _, target, batch, row = made(algorithm, CHOICE)
    ahead = (softmax(layer(target, "actor", row["next_obs"])) * critics(target, row["next_obs"]).min(0)).sum(-1)
    np.testing.assert_allclose(algorithm.next_values(outputs, batch)[:, 0], ahead, rtol=NEAR, atol=NEAR)


@pytest.mark.parametrize("algorithm", [IQL, AWAC, CRR])
def test_recorded_actions_at_their_bounds_have_finite_losses_and_gradients(algorithm):
    learns = algorithm(model=ONE_LAYER)
    policy, outputs, *_, batch, _ = made(learns, BOX)
    at_bounds = policy.action_space.from_env(np.array([[-2.0, 2.0]] * 6, np.float32))
    batch["actions"] = torch.as_tensor(at_bounds)[:, None]
    batch["value/advantages"] = torch.ones(6, 1)
    views = {name: view.requires_grad_() for name, view in outputs.networks.views.items()}
    loss = learns.actor_loss(outputs, batch, {})
    gradients = torch.autograd.grad(loss.total, [view for name, view in views.items() if name.startswith("actor.")])
    assert loss.total.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_sampled_actions_are_clipped_to_the_bounds():
    policy = made(AWAC(model=ONE_LAYER), BOX).policy
    drawn = policy.action_space.sample(
        np.zeros((4, 4), np.float32), np.float32([[-9, 9], [0.5, -0.5], [1, 2], [0, -3]])
    )
    assert drawn.tolist() == [[-1, 1], [0.5, -0.5], [1, 1], [0, -1]]
    assert policy.action_space.to_env(drawn).tolist() == [[-2, 2], [1, -1], [2, 2], [0, -2]]


def test_unbounded_actions_are_refused(wording):
    unbounded = BOX._replace(action=gymnasium.spaces.Box(-np.inf, np.inf, (2,)))
    with wording.raised(UsageError):
        made(IQL(model=ONE_LAYER), unbounded)
