"""The small worlds pay exactly what their docstrings say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlrun.engine.envs.spaces import mismatch
from rlrun.toys.known_optimum import (
    BEST_COST,
    DYNAMICS,
    FORCE,
    FORCE_COST,
    HORIZON,
    ActionReward,
    AsymmetricBox,
    ConstantReward,
    Crashing,
    CueRecall,
    DictCartPole,
    DoubleIntegrator,
    Hanging,
    MultiBinaryMatch,
    MultiDiscreteMatch,
    NestedTuple,
    ObservationReward,
    RepeatAfterMe,
    TwoStepCredit,
)
from tests.rounding import rounding_error

Policy = Callable[[Any], Any]


def episode_return(env: gymnasium.Env[Any, Any], policy: Policy, seed: int = 0) -> float:
    """Plays an episode, looking at every observation."""
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        assert mismatch(env.observation_space, observation) is None
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        total += reward
        ended = terminated or truncated
    assert mismatch(env.observation_space, observation) is None
    return total


def test_only_the_last_action_is_rewarded_and_only_if_it_matches_the_cue() -> None:
    def remembering(cue: list[float], seen: Any) -> int:
        cue += [seen[0]] if seen[0] else []
        return int(cue[-1] == 1)

    env, cues = CueRecall(delay=4), list[float]()
    assert [episode_return(env, lambda seen: remembering(cues, seen), seed) for seed in range(10)] == [1.0] * 10
    assert set(cues) == {-1.0, 1.0}
    assert [episode_return(env, lambda seen: 1, seed) for seed in range(10)] == [float(cue == 1) for cue in cues]
    env.reset(seed=0)
    assert [env.step(0)[2] for _ in range(5)] == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("env", "policy", "best"),
    [
        (ConstantReward(37), lambda _: 0, 37.0),
        (DictCartPole(), lambda seen: int(seen["position"] @ [0.02, 1.0] + seen["velocity"] @ [0.05, 0.5] > 0), 500.0),
        (TwoStepCredit(), lambda seen: int(seen[0] == 0), 1.0),
        (ActionReward(3, first_action=5), lambda _: 7, 1.0),
        (MultiDiscreteMatch(), lambda seen: seen, 10.0),
        (MultiBinaryMatch(), lambda seen: seen, 10.0),
        (AsymmetricBox(), lambda _: np.array([2.0, 0.1]), 0.0),
        (NestedTuple(), lambda seen: seen[0], 10.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, gymnasium.Env) else "",
)
def test_the_best_policy_gets_the_documented_best_return(
    env: gymnasium.Env[Any, Any], policy: Policy, best: float
) -> None:
    assert [episode_return(env, policy, seed) for seed in range(5)] == [best] * 5


def test_episodes_of_constant_reward_are_truncated_and_never_terminate() -> None:
    env = ConstantReward(3)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_two_step_credit_pays_nothing_after_a_wrong_first_action() -> None:
    assert episode_return(TwoStepCredit(), lambda seen: int(seen[0] == 1)) == 0.0


def test_an_episode_of_observation_reward_pays_its_observation_as_the_reward() -> None:
    env, shown = ObservationReward(), []
    for seed in range(40):
        shown.append(env.reset(seed=seed)[0][0])
        assert env.step(0)[1:4] == (shown[-1], True, False)
    assert set(shown) == {-1.0, 1.0}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (MultiDiscreteMatch(), 10 * (1 / 3 + 1 / 2 + 1 / 4) / 3),
        (MultiBinaryMatch(), 5.0),
        (NestedTuple(), 10 / 3),
    ],
)
def test_a_random_policy_gets_the_documented_return(env: gymnasium.Env[Any, Any], expected: float) -> None:
    env.action_space.seed(0)
    returns = [episode_return(env, lambda _: env.action_space.sample(), seed) for seed in range(400)]
    assert np.mean(returns) == pytest.approx(expected, abs=4 * float(np.std(returns)) / 20)


def test_asymmetric_box_rejects_actions_outside_its_bounds() -> None:
    env = AsymmetricBox()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="is outside Box"):
        env.step(np.array([0.0, 0.6], np.float32))


def test_the_env_crashing_raises_an_error_only_at_the_given_step_in_the_given_worker(wording) -> None:
    env = Crashing(crash_at=3, crash_worker=2, worker_index=2)
    env.reset(seed=0)
    env.step(0)
    env.step(0)
    with wording.raised(RuntimeError):
        env.step(0)
    assert episode_return(Crashing(crash_at=3, crash_worker=2, worker_index=1), lambda _: 0) == 100.0


def test_the_env_hanging_sleeps_at_the_given_step() -> None:
    env = Hanging(hang_at=2, seconds=0.2)
    env.reset(seed=0)
    env.step(0)
    began = time.perf_counter()
    env.step(0)
    assert time.perf_counter() - began >= 0.2


def riccati() -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the best gains u = -k x from the first step on, and the cost-to-go P of the first state."""
    p, gains = np.zeros((2, 2)), []
    for _ in range(HORIZON):
        k = FORCE @ p @ DYNAMICS / (FORCE_COST + FORCE @ p @ FORCE)
        p = np.eye(2) + DYNAMICS.T @ p @ DYNAMICS - np.outer(DYNAMICS.T @ p @ FORCE, k)
        gains.append(k)
    return gains[::-1], p


def test_the_documented_best_cost_matches_the_riccati_equation() -> None:
    _, p = riccati()
    assert np.trace(p) / 3 == pytest.approx(BEST_COST, abs=5e-4)  # because E[x x^T] = I / 3 for the first state


def test_an_episode_with_the_optimal_gains_has_the_cost_predicted_by_riccati() -> None:
    gains, p = riccati()
    env = DoubleIntegrator()
    for seed in range(5):
        state, _ = env.reset(seed=seed)
        first, cost, truncated = state.astype(float), 0.0, False
        for k in gains:
            assert not truncated
            state, reward, terminated, truncated, _ = env.step(np.array([-k @ state], np.float32))
            cost -= reward
        assert truncated
        assert not terminated
        assert cost == pytest.approx(first @ p @ first, rel=rounding_error(2 * len(gains)))


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_repeating_the_delayed_observation_is_rewarded(delay: int) -> None:
    env = RepeatAfterMe(delay, episode_len=20)
    for is_right in (True, False):
        shown, rewards, done = [env.reset(seed=3)[0]], [], False
        while not done:
            known = shown[-1 - delay] if len(shown) > delay else 0
            observation, reward, done, _, _ = env.step(known if is_right else 1 - known)
            shown.append(observation)
            rewards.append(reward)
        assert rewards == [0.0] * delay + [1.0 if is_right else -1.0] * (20 - delay)
        assert 3 < sum(shown) < 18


def test_a_seeded_episode_does_not_depend_on_the_previous_episode() -> None:
    env = RepeatAfterMe(1, episode_len=3)
    first = [env.reset(seed=1)[0], *(env.step(0)[0] for _ in range(3))]
    env.reset(seed=2)
    env.step(0)
    assert [env.reset(seed=1)[0], *(env.step(0)[0] for _ in range(3))] == first
