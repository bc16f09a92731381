"""The CartPole that pays at the end is Gymnasium's, and its states can be set."""

from __future__ import annotations

import gymnasium
import numpy as np

from rlrun.toys.sparse_cartpole import SparseCartPole
from tests.rounding import rounding_error


def test_the_pole_moves_as_gymnasiums_and_pays_its_steps_at_the_end() -> None:
    mine, plain = SparseCartPole(), gymnasium.make("CartPole-v1")
    scales = np.array([2.4, 3.0, 0.2095, 3.0])
    generator = np.random.default_rng(0)
    for seed in range(3):
        seen, shown = mine.reset(seed=seed)[0], plain.reset(seed=seed)[0]
        ended, steps = False, 0
        while not ended:
            near = rounding_error(2)
            np.testing.assert_allclose(seen * scales, shown, rtol=near, atol=near)
            action = int(generator.integers(2))
            (seen, reward, ended, truncated, _), (shown, _, fallen, _, _) = mine.step(action), plain.step(action)
            steps += 1
            assert (ended, truncated, reward) == (fallen, False, steps if fallen else 0)
    short = SparseCartPole(steps=4)
    short.reset(seed=0)
    assert [short.step(1)[1:4] for _ in range(4)] == [(0.0, False, False)] * 3 + [(4.0, False, True)]


def test_a_state_that_is_set_goes_on_as_it_did_and_one_of_an_observation_counts_anew() -> None:
    env, other = SparseCartPole(steps=9), SparseCartPole(steps=9)
    env.reset(seed=0)
    for action in (1, 0, 1, 0, 1):
        seen = env.step(action)[0]
    other.set_state(env.get_state())
    found = other.state_of(seen)
    np.testing.assert_allclose(found[0], env.get_state()[0], rtol=rounding_error(2))
    assert (env.get_state()[1], found[1]) == (5, 0)
    for action in (0, 1, 0, 1):
        mine, theirs = env.step(action), other.step(action)
        assert (mine[0] == theirs[0]).all()
        assert mine[1:] == theirs[1:]
    assert mine[1:4] == (9.0, False, True)
