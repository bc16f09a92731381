"""Exact values compared with learned ones of tables, Q networks and actor-critics; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.training import Training
from rlrun.exact.oracle import exact_values, learned_values
from tests.rounding import rounding_error

CLIFF = {"id": "CliffWalking-v1", "max_episode_steps": 50}
SMALL = {"model": {"hiddens": [8]}, "compile": False, "num_envs_per_worker": 2}


def training_of(name: str, env: Any = "FrozenLake-v1", **settings: Any) -> Training:
    cls = algorithm_class(name)
    return Training(EnvConfig.parse(env), cls(cls.Config.parse(settings)), seed=3)


def test_a_table_of_optimal_values_has_value_and_policy_gaps_of_zero() -> None:
    training = training_of("q_learning", gamma=0.9)
    exact = exact_values(training.description.env, 0.9)
    training.running.trainee.learner.load_flat(exact.q.astype(np.float32).ravel())
    learned = learned_values(training)
    assert learned.value_gap == pytest.approx(0.0, abs=rounding_error(4))
    assert learned.policy_gap == pytest.approx(0.0, abs=rounding_error(4))
    training.close()


def test_gaps_of_a_known_table_match_values_computed_by_hand() -> None:
    training = training_of("q_learning", CLIFF, gamma=0.9)
    table = np.zeros((48, 4), np.float32)
    table[:, 0] = 1.0  # always goes up, which loses a point in each step forever
    training.running.trainee.learner.load_flat(table.ravel())
    learned = learned_values(training)
    best = -(1 - 0.9**13) / (1 - 0.9)
    assert learned.exact.at_start == pytest.approx(best)
    assert learned.policy_at_start == pytest.approx(-1 / (1 - 0.9))
    assert learned.policy_gap == pytest.approx(best + 10)
    # No episode ever enters the cliff's ten states, and no action is taken in the goal state.
    assert learned.exact.counts.sum() == 48 - 10 - 1
    assert learned.value_gap == pytest.approx(np.abs(learned.exact.q - table)[learned.exact.counts].mean())
    training.close()


def test_values_without_a_discount_are_returns_within_the_time_limit() -> None:
    training = training_of("q_learning", CLIFF, gamma=1.0)
    learned = learned_values(training)
    assert learned.exact.at_start == -13.0
    assert learned.policy_at_start == -50.0
    training.close()


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_networks_are_compared_with_exact_values_by_their_outputs(name: str) -> None:
    training = training_of(name, **SMALL)
    learned = learned_values(training)
    assert (learned.q is None) == (name == "ppo")
    for state in (0, 9):
        assert training.act(state) == learned.actions[state]
    assert np.isfinite([learned.value_gap, learned.policy_gap]).all()
    assert learned.policy_gap >= 0
    training.close()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("es", {}, "es does not estimate values that could be compared with exact ones"),
        ("ppo", {**SMALL, "normalize_rewards": True}, "ppo estimates values of scaled or clipped rewards"),
        ("ppo", {**SMALL, "model": {"core": "gru"}}, "ppo uses more than the current state"),
    ],
)
def test_algorithms_without_comparable_values_are_refused_with_the_reason(
    name: str, settings: dict[str, Any], message: str
) -> None:
    training = training_of(name, **settings)
    with pytest.raises(UsageError, match=message):
        learned_values(training)
    training.close()


def test_computing_exact_values_without_a_discount_or_a_time_limit_is_refused(wording) -> None:
    with wording.raised(UsageError, "max_episode_steps"):
        exact_values(EnvConfig(id="CliffWalking-v1"), 1.0)
