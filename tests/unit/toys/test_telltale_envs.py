"""Envs that expose mistakes pay what their docstrings say, and the mistaken policy gets less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, cycle
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.envs.spaces import mismatch
from rlrun.toys.telltale_envs import Apprenticeship, Cadence, DistantSigns, ForcedMoves, RareJackpot

Policy = Callable[[Any], Any]


def returns(env: gymnasium.Env[Any, Any], policy: Policy, episodes: int = 1) -> Iterator[tuple[float, bool]]:
    """Plays episodes; yields the return of each, and whether it was truncated."""
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        total, terminated, truncated = 0.0, False, False
        while not (terminated or truncated):
            assert mismatch(env.observation_space, observation) is None
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            total += reward
        assert mismatch(env.observation_space, observation) is None
        yield total, truncated


def rewards_of(env: gymnasium.Env[Any, Any], policy: Policy, episodes: int = 1) -> np.ndarray[Any, Any]:
    """Plays episodes; returns the rewards of all steps."""
    rewards = []
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        is_over = False
        while not is_over:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            rewards.append(reward)
            is_over = terminated or truncated
    return np.array(rewards)


@pytest.mark.parametrize(
    ("env", "best", "mistaken", "pays"),
    [
        (Apprenticeship(50), lambda studied: int(studied < 2), lambda _: 0, (144.0, 50.0)),
        (Apprenticeship(50, wage=0.5), lambda studied: int(studied < 2), lambda _: 0, (72.0, 25.0)),
        (ForcedMoves(), lambda seen: int(not seen[ACTION_MASK][0]), lambda _: 1, (45.0, 40.0)),
    ],
)
def test_the_best_policy_and_the_mistaken_policy_get_the_documented_returns(
    env: gymnasium.Env[Any, Any], best: Policy, mistaken: Policy, pays: tuple[float, float]
) -> None:
    assert [*returns(env, best), *returns(env, mistaken)] == [(pays[0], True), (pays[1], True)]


def test_studying_pays_off_only_in_long_episodes_with_a_high_discount_factor() -> None:
    def works(studied: int) -> int:
        return 0

    def studies(studied: int) -> int:
        return int(studied < 2)

    work, study = [*returns(Apprenticeship(), works)], [*returns(Apprenticeship(), studies)]
    assert work == study == [(3.0, True)]  # equal without discounting; with it, the early reward is worth more
    for gamma, is_better in ((0.58, True), (0.57, False)):
        found, other = (
            rewards_of(Apprenticeship(100), policy) @ gamma ** np.arange(100) for policy in (works, studies)
        )
        assert found == pytest.approx(1 / (1 - gamma))
        assert other == pytest.approx(3 * gamma**2 / (1 - gamma))
        assert (other > found) == is_better


def test_a_jackpot_worth_less_than_the_sure_reward_looks_better_without_importance_weights() -> None:
    sure = [found for found, _ in returns(RareJackpot(), lambda _: 0, 3)]
    rewards, value = rewards_of(RareJackpot(), lambda _: 1, 200), 0.5
    assert sure == pytest.approx([17.0] * 3)
    assert 100 * rewards.mean() == pytest.approx(10.0, abs=1.0)  # the standard deviation of 100 times the mean is 0.21
    assert set(rewards) == {0.0, 1.0}
    for _ in range(20):  # approaches the mean of rewards sampled in proportion to their errors
        value = (value + np.average(rewards, weights=np.abs(rewards - value))) / 2
    assert value == pytest.approx(0.25, abs=0.01)
    assert rewards.mean() < 0.17 < value


def test_a_forbidden_move_is_rejected(wording) -> None:
    env = ForcedMoves()
    seen, _ = env.reset(seed=0)
    assert seen[ACTION_MASK].tolist() == [0, 1]
    with wording.raised(ValueError):
        env.step(0)


def test_the_cadence_restarts_with_each_episode_and_episodes_last_1_to_20_steps() -> None:
    env, lengths = Cadence(), []
    for seed in range(300):
        env.reset(seed=seed)
        paid = 0.0
        for steps in count(1):
            _, reward, ended, truncated, _ = env.step(steps % 2)
            assert not truncated
            paid += reward
            if ended:
                break
        assert paid == pytest.approx(1.0)
        lengths.append(steps)
    assert (min(lengths), max(lengths)) == (1, 20)


def test_in_cadence_a_clock_not_reset_between_episodes_is_right_half_of_the_time() -> None:
    clock = cycle([1, 0])
    found = [total for total, _ in returns(Cadence(), lambda _: next(clock), 400)]
    assert set(np.round(found, 9)) == {0.0, 1.0}
    assert np.mean(found) == pytest.approx(0.5, abs=0.1)


def test_distant_signs_is_solved_by_comparing_the_observation_with_1000() -> None:
    assert [*returns(DistantSigns(), lambda seen: int(seen[0] > 1000), 3)] == [(10.0, False)] * 3
    assert next(returns(DistantSigns(prize=0.02), lambda seen: int(seen[0] > 1000)))[0] == pytest.approx(0.2)
    assert next(returns(DistantSigns(), lambda seen: int(seen[0] < 1000)))[0] == 0.0
