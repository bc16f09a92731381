import numpy as np
import pytest
import torch

from rlrun.algorithms.qtopt.cross_entropy_search import greedy_actions
from tests.rounding import rounding_error


@pytest.mark.parametrize("size", [1, 2])
def test_the_search_finds_the_maximum_of_a_quadratic(size):
    generator = np.random.default_rng(0)
    best = generator.uniform(-0.8, 0.8, (50, size))
    noise = generator.standard_normal((50, 2, 64, size))
    found = greedy_actions(lambda actions: -((actions - best[:, None]) ** 2).sum(-1), noise, 6)
    assert found.shape == best.shape
    errors = np.abs(found - best)
    assert errors.mean() < 0.05
    if size == 1:
        assert errors.max() < 0.05


def test_the_search_returns_the_action_bound_if_values_increase_all_the_way_to_it():
    noise = np.random.default_rng(1).standard_normal((20, 2, 64, 1))
    np.testing.assert_allclose(greedy_actions(lambda actions: actions[..., 0], noise, 6), 1.0, atol=0.03)


def test_the_search_finds_the_same_actions_for_tensors_and_arrays():
    generator = np.random.default_rng(2)
    noise = generator.standard_normal((7, 3, 20, 2)).astype(np.float32)
    weights = generator.normal(size=(2, 5)).astype(np.float32)

    def values(actions):
        return np.tanh(actions @ weights).sum(-1)

    def tensor_values(actions):
        return torch.tanh(actions @ torch.from_numpy(weights)).sum(-1)

    found = greedy_actions(tensor_values, torch.from_numpy(noise), 4)
    np.testing.assert_allclose(found.numpy(), greedy_actions(values, noise, 4), atol=rounding_error(7 * (2 + 5 + 4)))
