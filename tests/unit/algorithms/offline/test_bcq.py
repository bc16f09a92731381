"""BCQ: which actions it may take, in its targets and while acting, and its losses by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlrun import BCQ
from tests.rounding import rounding_error
from tests.unit.algorithms.offline.rows import CHOICE, ONE_LAYER, critics, layer, made, softmax, taken, valid_mean

NEAR = rounding_error(3 + 4 + 6)


def likely(named, observations, threshold):
    probs = softmax(layer(named, "behavior", observations))
    return probs >= threshold * probs.max(-1, keepdims=True)


@pytest.mark.parametrize("threshold", [0.3, 1.0])
def test_targets_use_the_best_next_action_that_is_likely_in_the_data(threshold):
    algorithm = BCQ(model=ONE_LAYER, threshold=threshold)
    _, outputs, named, target, batch, row = made(algorithm, CHOICE, seed=1)
    allowed = likely(named, row["next_obs"], threshold)
    values = critics(named, row["next_obs"])[0]
    best = np.where(allowed, values, -np.inf).argmax(-1)
    assert (best != values.argmax(-1)).any()  # the constraint binds
    errors = taken(critics(named, row["obs"]), row["actions"])[0]
    errors = errors - row["rewards"] - row["discounts"] * taken(critics(target, row["next_obs"])[0], best)
    huber = np.where(np.abs(errors) <= 1, errors**2 / 2, np.abs(errors) - 0.5)
    assert algorithm.critics_loss(outputs, batch, {}).total.item() == pytest.approx(valid_mean(huber), rel=NEAR)


def test_the_behaviour_policy_learns_the_likelihood_of_recorded_actions():
    algorithm = BCQ(model=ONE_LAYER)
    _, outputs, named, _, batch, row = made(algorithm, CHOICE)
    expected = -valid_mean(np.log(taken(softmax(layer(named, "behavior", row["obs"])), row["actions"])))
    assert algorithm.behavior_loss(outputs, batch, {}).total.item() == pytest.approx(expected, rel=NEAR)


def test_acting_also_chooses_the_best_action_that_is_likely_in_the_data():
    algorithm = BCQ(model=ONE_LAYER, threshold=0.3)
    policy, _, named, _, _, row = made(algorithm, CHOICE, seed=1)
    network = policy.acting_network()
    network.load(torch.cat([torch.as_tensor(named[name]).ravel() for name in named]).numpy())
    heads, _ = network({"obs": row["obs"]})
    allowed = likely(named, row["obs"], 0.3)
    best = np.where(allowed, critics(named, row["obs"])[0], -np.inf).argmax(-1)
    np.testing.assert_array_equal(policy.action_space.mode(heads["outputs"]), best)
    assert (best != critics(named, row["obs"])[0].argmax(-1)).any()
