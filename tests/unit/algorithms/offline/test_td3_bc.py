"""TD3+BC: its actor's loss by hand on networks of one layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlrun import TD3BC
from rlrun.engine.messages.errors import SpecError
from tests.rounding import rounding_error
from tests.unit.algorithms.offline.rows import BOX, ONE_LAYER, critics, layer, made, valid_mean

NEAR = rounding_error(3 + 4 + 6)


def test_the_actor_loss_is_the_cloning_error_minus_values_divided_by_their_mean_magnitude():
    algorithm = TD3BC(model=ONE_LAYER, value_weight=2.0)
    _, outputs, named, _, batch, row = made(algorithm, BOX)
    actions = np.tanh(layer(named, "actor", row["obs"]))
    values = critics(named, row["obs"], actions)[0, :, 0]
    distances = ((actions - row["actions"]) ** 2).mean(-1)
    expected = valid_mean(distances) - 2.0 / valid_mean(np.abs(values)) * valid_mean(values)
    assert algorithm.actor_loss(outputs, batch, {}).total.item() == pytest.approx(expected, rel=NEAR)


def test_no_gradient_flows_through_the_factor_that_normalizes_the_values():
    algorithm = TD3BC(model=ONE_LAYER, value_weight=2.0)
    _, outputs, named, _, batch, row = made(algorithm, BOX)
    bias = outputs.views["actor.head.bias"].requires_grad_()
    (found,) = torch.autograd.grad(algorithm.actor_loss(outputs, batch, {}).total, bias)
    clean = np.tanh(layer(named, "actor", row["obs"]))
    scale = 2.0 / valid_mean(np.abs(critics(named, row["obs"], clean)[0, :, 0]))

    def loss(shift):
        actions = np.tanh(layer(named, "actor", row["obs"]).astype(np.float64) + shift)
        values = critics(named, row["obs"], actions)[0, :, 0]
        return valid_mean(((actions - row["actions"]) ** 2).mean(-1)) - scale * valid_mean(values)

    slopes = [(loss(1e-4 * unit) - loss(-1e-4 * unit)) / 2e-4 for unit in np.eye(2)]
    np.testing.assert_allclose(found, slopes, atol=1e-4)


def test_rebrac_penalizes_the_distance_to_the_next_recorded_action_in_the_targets():
    algorithm = TD3BC(model=ONE_LAYER, critic_penalty=0.5, input="data")
    _, outputs, named, target, batch, row = made(algorithm, BOX)
    recorded, is_step = np.full((6, 2), 0.25, np.float32), np.arange(6) != 3
    further = {"next_actions": torch.as_tensor(recorded)[:, None], "next_valid": torch.as_tensor(is_step)[:, None]}
    clean = np.tanh(layer(target, "actor", row["next_obs"]))
    following = np.clip(clean + np.clip(0.2 * row["next_noise"], -0.5, 0.5), -1, 1)
    penalties = 0.5 * ((following - recorded) ** 2).sum(-1) * is_step
    ahead = critics(target, row["next_obs"], following)[..., 0].min(0) - penalties
    errors = critics(named, row["obs"], row["actions"])[..., 0] - (row["rewards"] + row["discounts"] * ahead)
    loss = algorithm.critics_loss(outputs, {**batch, **further}, {})
    assert loss.total.item() == pytest.approx(valid_mean((errors**2).sum(0)), rel=NEAR)


def test_the_critic_penalty_is_refused_without_recorded_next_actions(wording):
    with wording.raised(SpecError, "next_actions"):
        TD3BC(critic_penalty=0.5)
