"""The judged policy on recorded rows: densities in the units of the stored actions, masks, memory, determinism."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rlrun.algorithms.actor_q.ddpg import TD3Config
from rlrun.algorithms.actor_q.deterministic_policy import DeterministicPolicy
from rlrun.algorithms.actor_q.sac import SACConfig
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.algorithms.decision_transformer.dt import DTConfig
from rlrun.algorithms.decision_transformer.policy import DTPolicy
from rlrun.algorithms.dqn.policy import QPolicy
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.softmax import log_softmax
from rlrun.engine.nn.model_config import ModelConfig, SoftModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.weights import Weights
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes
from rlrun.exact.off_policy_evaluation.target_policy import SAMPLES, TargetPolicy
from tests.policies import plain_policy, policy_from

SEEN = Box(-9, 9, (3,))
SMALL = ModelConfig(hiddens=(8,))
WITH_CRITICS = SoftModelConfig(hiddens=(8,))


def acting(policy: Policy) -> BehaviorPolicy:
    """The behavior policy with new weights; the initial ones give almost the same output for all observations."""
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)) / 2)
    behavior, (start, size) = policy.behavior(), policy.acting_range
    flat = policy.parameters.gather(policy.module).numpy()[start : start + size]
    behavior.load(Weights(0, flat, schedules={"epsilon": 0.3, "exploration_noise": 0.1, "temperature": 0.5}))
    return behavior


def episodes_of(observations: Any, actions: Any, lengths: tuple[int, ...], rewards: Any = None) -> RecordedEpisodes:
    """Consecutive rows as episodes; the last row of each episode has no step."""
    valid = np.concatenate([np.arange(length + 1) < length for length in lengths])
    nothing = np.zeros(len(valid))
    return RecordedEpisodes(
        lambda rows: map_tree(lambda leaf: leaf[rows], observations),
        actions,
        nothing if rewards is None else rewards,
        np.zeros(len(valid), np.bool_),
        valid,
    )


def drawn_from(space: gymnasium.Space[Any], rows: int) -> Any:
    space.seed(0)
    return np.stack([space.sample() for _ in range(rows)])


@pytest.mark.parametrize("family", ["scaled", "squashed"])
def test_the_densities_of_box_actions_are_in_the_units_of_the_env(family: str) -> None:
    """The density integrates to 1 over all actions; a clipped, scaled Gaussian has mass at the bounds."""
    space, rows = Box(-1.0, 7.0, (1,)), 4001
    policy: Policy = (
        plain_policy(ActorCriticPolicy, SEEN, space, SMALL)
        if family == "scaled"
        else policy_from(SoftPolicy, SACConfig, SEEN, space, WITH_CRITICS)
    )
    behavior = acting(policy)
    observations = np.tile(drawn_from(SEEN, 1), (rows, 1))
    actions = np.linspace(-1.0, 7.0, rows, dtype=np.float32)[:, None]
    judged = TargetPolicy(behavior, is_greedy=False, seed=0).on(episodes_of(observations, actions, (rows - 1,)))
    assert judged.log_probs is not None
    density = np.exp(judged.log_probs)
    inside = np.trapezoid(density[1:-1], actions[1:-1, 0])
    if family == "squashed":
        assert inside == pytest.approx(1.0, abs=2e-3)
        return
    assert inside + density[0] + density[-1] == pytest.approx(1.0, abs=2e-3)
    mean, log_std = behavior.outputs(observations)[0]
    center, std = 3.0 + 4.0 * mean, 4.0 * np.exp(log_std)  # half the range is 4
    expected = -0.5 * ((actions[:, 0] - center) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(judged.log_probs[1:-1], expected[1:-1], rtol=1e-4, atol=1e-4)


def test_sampled_continuous_actions_follow_the_judged_policys_distribution() -> None:
    behavior = acting(plain_policy(ActorCriticPolicy, SEEN, Box(-2.0, 2.0, (1,)), SMALL))
    observations = np.tile(drawn_from(SEEN, 1), (1000, 1))
    recorded = episodes_of(observations, np.zeros((1000, 1), np.float32), (999,))
    judged = TargetPolicy(behavior, is_greedy=False, seed=0).on(recorded)
    mean, log_std = behavior.outputs(observations)[0]
    noise = np.random.default_rng(0).normal(size=100_000)
    expected = np.clip(2 * (mean + np.exp(log_std) * noise), -2, 2)
    assert len(judged.sampled) == SAMPLES
    assert np.mean(judged.sampled) == pytest.approx(expected.mean(), abs=0.1)
    assert np.std(judged.sampled) == pytest.approx(expected.std(), abs=0.1)


def test_masked_epsilon_greedy_probabilities_match_the_frequencies_of_drawn_actions() -> None:
    space = Dict(action_mask=MultiBinary(4), seen=SEEN)
    behavior = acting(plain_policy(QPolicy, space, Discrete(4, start=2), SMALL))
    rows = 4000
    observations = {
        "action_mask": np.tile(np.array([1, 0, 1, 1], np.int8), (rows, 1)),
        "seen": np.tile(drawn_from(SEEN, 1), (rows, 1)),
    }
    recorded = episodes_of(observations, np.full(rows, 4), (rows - 1,))
    judged = TargetPolicy(behavior, is_greedy=False, seed=0).on(recorded)
    assert judged.probabilities is not None
    assert judged.log_probs is not None
    best = int(behavior.outputs(observations)[0].argmax())
    expected = np.array([0.1, 0.0, 0.1, 0.1])
    expected[best] += 0.7
    np.testing.assert_allclose(judged.probabilities[0], expected, atol=1e-6)
    assert np.exp(judged.log_probs[0]) == pytest.approx(expected[2])  # the recorded action 4 is the env's third action
    draws = behavior.chosen(observations, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(draws, minlength=4) / rows, expected, atol=0.03)


def test_soft_q_probabilities_are_a_mixture_of_softmax_and_uniform_actions() -> None:
    behavior = acting(plain_policy(QPolicy, SEEN, Discrete(3), SMALL, exploration="soft_q"))
    observations = drawn_from(SEEN, 3)
    judged = TargetPolicy(behavior, is_greedy=False, seed=0).on(episodes_of(observations, np.zeros(3, int), (2,)))
    assert judged.probabilities is not None
    preferred = np.exp(behavior.outputs(observations) / 0.5)
    expected = 0.3 / 3 + 0.7 * preferred / preferred.sum(-1, keepdims=True)
    np.testing.assert_allclose(judged.probabilities, expected, rtol=1e-5)


def test_a_recurrent_policy_keeps_its_state_over_whole_recorded_episodes() -> None:
    behavior = acting(plain_policy(ActorCriticPolicy, SEEN, Discrete(2), SMALL.replace(core="gru", core_width=4)))
    lengths = (3, 5, 1)
    observations, actions = drawn_from(SEEN, 12), np.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0])
    policy = TargetPolicy(behavior, is_greedy=False, seed=0)
    assert policy.has_memory
    found = policy.on(episodes_of(observations, actions, lengths)).log_probs
    assert found is not None
    first = 0
    for length in lengths:
        behavior.begin_episodes(np.array([True]))
        for row in range(first, first + length):
            logits = behavior.outputs(observations[row : row + 1])
            assert found[row] == pytest.approx(log_softmax(logits)[0, actions[row]], abs=1e-5)
        first += length + 1


def test_views_of_the_judged_policy_show_the_recorded_actions_and_rewards() -> None:
    model = ModelConfig.parse({"hiddens": [8], "views": {"prev_actions": 1, "prev_rewards": 1}})
    behavior = acting(plain_policy(ActorCriticPolicy, SEEN, Discrete(2), model))
    observations = np.tile(drawn_from(SEEN, 1), (6, 1))
    rewards = np.array([1.0, 0.0, 0.0, 5.0, 0.0, 0.0])

    def log_probs(actions: list[int]) -> np.ndarray:
        recorded = episodes_of(observations, np.array(actions), (2, 2), rewards)
        judged = TargetPolicy(behavior, is_greedy=False, seed=0).on(recorded)
        assert judged.probabilities is not None
        return judged.probabilities[:, 0]

    found, other = log_probs([0, 0, 0, 0, 0, 0]), log_probs([0, 0, 0, 1, 0, 0])
    assert found[0] == pytest.approx(found[3])  # nothing comes before the first step
    assert found[1] != pytest.approx(found[4], abs=1e-4)  # the reward before this step differs
    assert other[1] == pytest.approx(found[1])
    assert other[4] != pytest.approx(found[4], abs=1e-4)  # the action before this step differs


def test_a_decision_transformer_is_conditioned_on_the_recorded_actions() -> None:
    config = DTConfig.parse({"embedding": 8, "num_layers": 1, "context_length": 3, "target_return": 5.0})
    behavior = acting(DTPolicy(Spaces(SEEN, Discrete(2)), config, 0))
    observations = drawn_from(SEEN, 4)
    judged = TargetPolicy(behavior, is_greedy=False, seed=0)
    found = [
        judged.on(episodes_of(observations, np.array(actions), (3,))).probabilities
        for actions in ([0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0])
    ]
    differ = [[bool((one[row] != other[row]).any()) for row in range(3)] for one, other in pairwise(found)]
    assert differ == [[False, True, True], [False, False, True]]


def test_a_deterministic_continuous_policy_has_no_log_probabilities() -> None:
    behavior = acting(policy_from(DeterministicPolicy, TD3Config, SEEN, Box(-2.0, 2.0, (1,)), WITH_CRITICS))
    policy = TargetPolicy(behavior, is_greedy=False, seed=0)
    observations = drawn_from(SEEN, 5)
    judged = policy.on(episodes_of(observations, np.zeros((5, 1), np.float32), (4,)))
    assert policy.title == "deterministic"
    assert judged.log_probs is None
    (actions,) = judged.sampled
    np.testing.assert_allclose(actions, behavior.actions(observations, None))


def test_greedy_discrete_actions_have_a_probability_of_one_and_all_other_actions_zero() -> None:
    behavior = acting(plain_policy(ActorCriticPolicy, SEEN, MultiDiscrete([2, 3]), SMALL))
    observations = drawn_from(SEEN, 4)
    actions = behavior.actions(observations, None)
    actions[1, 0] = 1 - actions[1, 0]
    policy = TargetPolicy(behavior, is_greedy=True, seed=0)
    judged = policy.on(episodes_of(observations, actions, (3,)))
    assert policy.title == "greedy"
    np.testing.assert_array_equal(judged.log_probs, [0.0, -np.inf, 0.0, 0.0])
    np.testing.assert_array_equal(judged.sampled[0][0], actions[0])


def test_an_autoregressive_policy_has_no_log_probabilities_for_recorded_actions() -> None:
    model = SMALL.replace(autoregressive=True)
    behavior = acting(plain_policy(ActorCriticPolicy, SEEN, MultiDiscrete([2, 3]), model))
    observations = drawn_from(SEEN, 4)
    policy = TargetPolicy(behavior, is_greedy=False, seed=0)
    judged = policy.on(episodes_of(observations, np.zeros((4, 2), np.int64), (3,)))
    assert policy.title == "stochastic"
    assert judged.log_probs is None
    assert len(judged.sampled) == SAMPLES
