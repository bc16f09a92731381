from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.uniform_sampler import UniformSampler, uniform_choices
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.exploration.epsilon_greedy import EpsilonGreedy
from rlrun.engine.policy.exploration.sampling import SampleActions
from rlrun.engine.policy.exploration.uniform_until import UniformUntil
from rlrun.engine.policy.random_behavior import RandomExploration

MOST = float(np.nextafter(np.float32(1), np.float32(0)))
SPACES = [
    Discrete(3, start=-5),
    MultiDiscrete([[2, 3], [1, 4]], start=[[0, 1], [2, 3]]),
    MultiBinary([2, 2]),
    Box(-2, 3, (2, 1)),
    Box(-7, 200, (3,), np.int16),
    Box(0, 255, (2,), np.uint8),
    Box(-3e38, 3e38, (1,)),
    Box(np.array([-np.inf, -np.inf, 2, 0], np.float32), np.array([np.inf, 1, np.inf, 1], np.float32)),
    Dict(b=Tuple([Discrete(2), Box(0, 1, (1,))]), a=MultiBinary(3)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_sample_belongs_to_the_space(space: Any, dtype: Any) -> None:
    sampler, generator = UniformSampler(space), np.random.default_rng(0)
    ends = [0.0, MOST, *generator.random(8)]
    draws = generator.choice(ends, (60, sampler.num_draws)).astype(dtype)
    drawn = sampler(draws)
    for row in range(len(draws)):
        assert map_tree(lambda leaf, row=row: leaf[row], drawn) in space


def test_floats_are_spread_evenly_between_their_bounds_and_all_integers_are_equally_likely() -> None:
    draws = np.array([[0.0], [0.25], [0.5], [0.75]])
    np.testing.assert_array_equal(UniformSampler(Box(-2, 2, (1,)))(draws)[:, 0], [-2, -1, 0, 1])
    np.testing.assert_array_equal(UniformSampler(Box(3, 6, (1,), np.int64))(draws)[:, 0], [3, 4, 5, 6])
    np.testing.assert_array_equal(UniformSampler(Discrete(2, start=7))(draws), [7, 7, 8, 8])


def test_samples_with_one_bound_are_exponential_and_samples_without_bounds_are_logistic() -> None:
    space = Box(np.array([2, -np.inf, -np.inf], np.float32), np.array([np.inf, 1, np.inf], np.float32))
    draws = np.array([[1 - math.exp(-3), 1 - math.exp(-2), 1 / (1 + math.exp(-1.5))]])
    np.testing.assert_allclose(UniformSampler(space)(draws), [[5, -1, 1.5]], rtol=1e-6)


def test_a_mask_restricts_each_discrete_choice_separately_and_no_other_parts_of_the_action() -> None:
    space = Tuple([MultiBinary(1), Discrete(3), MultiDiscrete([2, 2])])
    mask = np.array([[0, 1, 1, 1, 0, 0, 1]] * 2, np.int8)
    bits, choice, choices = UniformSampler(space)(np.array([[0.0] * 4, [MOST] * 4]), mask)
    assert (bits.tolist(), choice.tolist(), choices.tolist()) == ([[0], [1]], [1, 2], [[0, 1], [0, 1]])


@pytest.mark.parametrize("number", [1, 2, 3, 5, 7, 64, 1000, 65_537])
def test_the_largest_possible_draw_selects_the_last_choice(number: int) -> None:
    draws = np.array([0.0, MOST], np.float32)
    assert uniform_choices(draws, number).tolist() == [0, number - 1]
    assert uniform_choices(draws, number, np.ones((2, number), np.int8)).tolist() == [0, number - 1]


@pytest.mark.parametrize("is_masked", [False, True])
def test_all_kinds_of_random_exploration_choose_the_same_actions_given_the_same_draws(is_masked: bool) -> None:
    generator, actions = np.random.default_rng(0), DiscreteActions(Discrete(5))
    draws = generator.random((40, 1), np.float32)
    mask = np.maximum(generator.integers(0, 2, (40, 5)), np.eye(5, dtype=int)[2]) if is_masked else None
    expected = uniform_choices(draws[:, 0], 5, mask)
    ways = [
        (EpsilonGreedy(5), np.concatenate([0 * draws, draws, draws], -1)),
        (UniformUntil(SampleActions(actions), actions, 100), np.concatenate([np.zeros((40, 5)), draws], -1)),
        (RandomExploration(Discrete(5), actions), draws),
    ]
    for way, noise in ways:
        assert noise.shape[-1] == way.noise(generator, 1, 1).shape[-1]
        chosen = way.explore(dict, noise.astype(np.float32), np.zeros(40, np.bool_), None, mask)
        np.testing.assert_array_equal(chosen, expected)
