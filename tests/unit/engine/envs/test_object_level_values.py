from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from rlrun.engine.envs.object_level_values import TrialsWithValues
from rlrun.engine.envs.trials import Trials
from rlrun.toys.bandits import BernoulliBandit
from rlrun.toys.tabular_mdps import RandomMDP, random_mdp


class Corridor(gymnasium.Env):
    """Two states: action 1 moves from 1 to 2 for a reward of 0, then out for a reward of 1; action 0 stays."""

    observation_space = gymnasium.spaces.Discrete(2, start=1)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.state = 1
        return 1, {}

    def step(self, action):
        leaves = action == 1 and self.state == 2
        self.state = min(self.state + int(action), 2)
        return self.state, float(leaves), leaves, False, {}


def test_values_are_those_of_the_mdp_that_was_seen_in_the_trial() -> None:
    env = TrialsWithValues(Corridor(), episodes=3, gamma=0.5)
    first, _ = env.reset(seed=0)
    assert (first["value"].tolist(), first["advantages"].tolist()) == ([0], [0, 0])
    assert first["visits"].tolist() == [0, 0]
    env.step(1)
    shown = [env.step(1)[0], env.step(0)[0]]  # out, and the next episode begins in state 1
    assert shown[0]["done"] == 1
    assert [one["value"].tolist() for one in shown] == [[0.5], [0.5]]
    # The untried action earns nothing, and then half of the mean of both states' values, 0.5 and 1.
    assert shown[0]["advantages"].tolist() == pytest.approx([0.375 - 0.5, 0])
    assert shown[1]["advantages"].tolist() == pytest.approx([0.25 - 0.5, 0])
    np.testing.assert_allclose(shown[1]["visits"], np.log([2, 2]), rtol=1e-6)
    again, _ = env.reset(seed=1)
    assert again["value"].tolist() == [0]  # another task


def test_values_in_a_bandit_are_mean_rewards_of_the_pulls() -> None:
    env = TrialsWithValues(BernoulliBandit(), episodes=50, gamma=0.9)
    env.reset(seed=3, options={"probabilities": [0.3, 0.8]})
    pulls: dict[int, list[float]] = {0: [], 1: []}
    for pull in range(30):
        action = pull % 2
        shown, reward, *_ = env.step(action)
        pulls[action].append(float(reward))
    values = np.array([np.mean(pulls[0]), np.mean(pulls[1])])
    assert shown["value"].tolist() == pytest.approx([values.max()])
    assert shown["advantages"].tolist() == pytest.approx((values - values.max()).tolist(), abs=1e-6)
    np.testing.assert_allclose(shown["visits"], np.log([16, 16]), rtol=1e-6)


def test_a_trial_is_the_same_with_and_without_values() -> None:
    plain, valued = Trials(RandomMDP(), episodes=3), TrialsWithValues(RandomMDP(), episodes=3)
    options = random_mdp(5)["reset_options"]
    plain.reset(seed=2, options=options)
    valued.reset(seed=2, options=options)
    for step in range(30):
        (seen, *rest), (more, *others) = plain.step(step % 5), valued.step(step % 5)
        assert rest == others
        assert {key: more[key] for key in seen} == seen
        assert more in valued.observation_space
    assert others[2] is True


def test_values_of_states_and_actions_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="are Discrete, not Box"):
        TrialsWithValues(gymnasium.make("CartPole-v1"))
