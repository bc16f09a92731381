"""How transitions enter an ensemble, and which envs are refused."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rlrun.algorithms.model_based import rules
from rlrun.algorithms.model_based.settings import DynamicsConfig
from rlrun.algorithms.model_based.transitions import by_rule, transition_form
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError, TrainingFailed, UsageError

VECTOR = Box(-1, 1, (2,))


def form_of(observation: gymnasium.Space[Any] = VECTOR, action: gymnasium.Space[Any] = VECTOR, **settings: Any) -> Any:
    return transition_form(Spaces(observation, action), DynamicsConfig.parse(settings))


def test_discrete_actions_are_one_hot_inputs_and_observation_changes_are_targets() -> None:
    form = form_of(action=Discrete(3, start=5))
    obs, next_obs = np.array([[1.0, 2.0]]), np.array([[1.5, 1.0]])
    np.testing.assert_array_equal(form.inputs(obs, np.array([6])), [[1, 2, 0, 1, 0]])
    np.testing.assert_array_equal(form.targets(obs, next_obs, np.array([7.0])), [[0.5, -1, 7]])
    assert (form.num_inputs, form.num_targets) == (5, 3)


def test_inputs_are_observation_then_continuous_action_and_a_known_reward_is_not_a_target() -> None:
    form = form_of(reward="one_per_step")
    obs = np.array([[1.0, 2.0]])
    np.testing.assert_array_equal(form.inputs(obs, np.array([[3.0, 4.0]])), [[1, 2, 3, 4]])
    np.testing.assert_array_equal(form.targets(obs, obs + 1, np.array([7.0])), [[1, 1]])


@pytest.mark.parametrize("observation", [Box(0, 255, (8, 8, 3), np.uint8), Dict({"a": VECTOR}), Discrete(4)])
def test_observations_that_are_not_vectors_are_refused(observation: gymnasium.Space[Any]) -> None:
    with pytest.raises(UsageError, match="vector"):
        form_of(observation)


def test_multi_part_actions_are_refused(wording) -> None:
    with wording.raised(UsageError):
        form_of(action=MultiDiscrete([2, 2]))


def test_the_error_for_an_unknown_rule_names_the_rule(wording) -> None:
    with wording.raised(UsageError, "rlrun.algorithms.model_based.rules:nevr"):
        form_of(terminated="nevr")


def test_a_reward_rule_that_does_not_return_one_value_per_transition_is_refused(wording) -> None:
    with wording.raised(TrainingFailed, "dynamics.reward"):
        by_rule("reward", lambda obs, actions, next_obs: obs, np.zeros((3, 2)), np.zeros(3), np.zeros((3, 2)))


def test_more_elites_than_ensemble_members_are_refused() -> None:
    with pytest.raises(SpecError, match="num_elites"):
        DynamicsConfig.parse({"num_members": 2, "num_elites": 3})


def test_cartpole_reward_and_termination_rules_agree_with_the_env() -> None:
    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(1)
    obs, _ = env.reset(seed=1)
    for _ in range(200):
        action = env.action_space.sample()
        next_obs, reward, terminated, _, _ = env.step(action)
        seen = obs[None], np.array([action]), next_obs[None]
        assert rules.cartpole_fell(*seen).tolist() == [terminated]
        assert rules.one_per_step(*seen).tolist() == [reward]
        obs = env.reset()[0] if terminated else next_obs
