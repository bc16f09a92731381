"""Tuple and Dict actions: the product of their parts' distributions, one row of numbers in a batch."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.log_probs_in_env import log_probs_in_env
from tests.rounding import rounding_error

BOX = Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
MIXED = Dict(
    {
        "aim": BOX,
        "gear": Discrete(3, start=1),
        "inner": Tuple([MultiDiscrete([[2, 4]], start=[[0, 5]]), MultiBinary((2, 2)), Box(-1, 1, (1,))]),
    }
)
CHOICES = Tuple([Discrete(3), Dict({"b": MultiDiscrete([2, 2]), "a": Discrete(2)})])
SPACES = [MIXED, CHOICES, Tuple([BOX, BOX]), Tuple([MultiBinary(2), Discrete(2)])]
N = 200_000


def outputs_for(model, seed=0, rows=64):
    return np.random.default_rng(seed).normal(0, 0.7, (rows, model.num_outputs)).astype(np.float32)


def rows_of(actions):
    """The actions of a batch, one by one, from a tree of [N, ...]."""
    return [map_tree(lambda leaf, i=i: leaf[i], actions) for i in range(len(leaves(actions)[0]))]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_actions_of_every_part_belong_to_the_envs_space(space):
    model = make_action_space(space)
    outputs = 3 * outputs_for(model)
    for actions in (model.sample(outputs, model.noise(np.random.default_rng(1), (64,))), model.mode(outputs)):
        assert actions.shape == (64, *model.action_shape)
        assert actions.dtype == model.action_dtype
        assert all(space.contains(action) for action in rows_of(model.to_env(actions)))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_env_actions_with_several_parts_are_converted_back_to_a_single_row(space):
    model = make_action_space(space)
    space.seed(0)
    given = map_tree(lambda *parts: np.stack(parts), *(space.sample() for _ in range(50)))
    own = model.from_env(given)
    assert own.shape == (50, *model.action_shape)
    assert own.dtype == model.action_dtype
    for found, expected in zip(leaves(model.to_env(own)), leaves(given), strict=True):
        np.testing.assert_allclose(found, expected, atol=rounding_error(4, size=10.0))


def test_the_row_dtype_is_integer_if_all_parts_are_choices_and_float_otherwise():
    assert [make_action_space(space).action_dtype for space in SPACES] == [np.float32, np.int64, np.float32, np.int64]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_log_probs_are_the_sum_over_parts_in_numpy_and_in_torch(space):
    model = make_action_space(space)
    outputs = outputs_for(model)
    actions = model.sample(outputs, model.noise(np.random.default_rng(1), (64,)))
    found = model.log_prob(outputs, actions)
    parts = [part.actions.log_prob(part.own_outputs(outputs), part.own(actions)) for part in model.parts]
    near = rounding_error(model.num_outputs)
    np.testing.assert_allclose(found, np.sum(parts, 0), rtol=near, atol=near)
    in_torch = model.distribution(torch.from_numpy(outputs)).log_prob(torch.from_numpy(actions))
    np.testing.assert_allclose(found, in_torch, rtol=near, atol=near)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_entropy_is_the_mean_negative_log_prob(space):
    model = make_action_space(space)
    outputs = np.repeat(outputs_for(model, rows=1), N, 0)
    actions = model.sample(outputs, model.noise(np.random.default_rng(2), (N,)))
    surprise = -model.log_prob(outputs, actions)
    entropy = float(model.distribution(torch.from_numpy(outputs[:1])).entropy())
    assert surprise.mean() == pytest.approx(entropy, abs=5 * surprise.std() / np.sqrt(N))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_divergence_is_the_mean_log_ratio_and_a_distributions_divergence_from_itself_is_zero(space):
    model = make_action_space(space)
    first, second = (np.repeat(outputs_for(model, seed, rows=1), N, 0) for seed in (0, 1))
    actions = model.sample(first, model.noise(np.random.default_rng(2), (N,)))
    log_ratio = model.log_prob(first, actions) - model.log_prob(second, actions)
    ours = model.distribution(torch.from_numpy(first[:1]))
    other = ours.like(torch.from_numpy(second[:1]))
    assert log_ratio.mean() == pytest.approx(float(ours.kl(other)), abs=5 * log_ratio.std() / np.sqrt(N))
    torch.testing.assert_close(ours.kl(ours.like(ours.outputs)), torch.zeros(1))


def test_network_outputs_for_choices_come_first_and_log_standard_deviations_last():
    model = make_action_space(MIXED)
    assert model.num_outputs == 2 + 3 + 6 + 4 + 1 + 3
    assert model.num_log_stds == 3
    # The parts are aim, gear, and the three of inner: two choices, bits and a number.
    assert [part.outputs for part in model.parts] == [
        slice(9, 11),
        slice(0, 3),
        slice(3, 9),
        slice(11, 15),
        slice(15, 16),
    ]
    assert [part.log_stds for part in model.parts if part.actions.num_log_stds] == [slice(16, 18), slice(18, 19)]


def test_log_probs_in_env_units_are_corrected_only_for_the_scaled_parts():
    model = make_action_space(Tuple([Discrete(2), Box(-4.0, 4.0, (1,), np.float32)]))
    outputs, actions = np.array([[0.3, 0.1, 0.2, -0.5]], np.float32), np.array([[1.0, 0.25]], np.float32)
    log_probs = model.log_prob(outputs, actions)
    found = log_probs_in_env(model, outputs, actions)
    assert found == pytest.approx(log_probs - np.log(4.0), rel=1e-6)
