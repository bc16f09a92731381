from __future__ import annotations

import numpy as np
import pytest

from rlrun.toys.interest_evolution import InterestEvolution, clicked_slate, exact_slate, topic_qualities


def test_click_probabilities_follow_the_logits_of_the_interests_and_of_not_clicking() -> None:
    env = InterestEvolution(num_candidates=3, slate_size=2, num_topics=3)
    env.reset(seed=0)
    clicks = np.zeros(3)
    for _ in range(3000):
        env._interests = np.log([2.0, 1.0, 0.5])
        env._topics = np.arange(3)
        env._left = 100.0
        clicks[env.step(np.array([0, 2]))[0]["clicked"]] += 1
    np.testing.assert_allclose(clicks / 3000, np.array([2.0, 0.5, 1.0]) / 3.5, atol=0.03)


def test_the_second_copy_of_a_document_in_a_slate_is_never_clicked() -> None:
    env = InterestEvolution(num_candidates=3)
    env.reset(seed=0)
    assert all(env.step(np.array([1, 1]))[0]["clicked"] != 1 for _ in range(50))


def test_a_click_costs_four_minutes_adjusted_by_the_quality_of_its_topic() -> None:
    env = InterestEvolution(num_topics=10)
    assert topic_qualities(10).tolist() == pytest.approx([-3, -2.5, -2, -1.5, -1, -0.5, 0, 1, 2, 3])
    env.reset(seed=1)
    for topic, left in ((0, 200 - 4 - 3 * 3.6 / 3.4), (9, 200 - 4 + 3 * 3.6 / 3.4)):
        env._left, env._interests = 200.0, np.full(10, 30.0)
        env._topics[:] = topic
        _, reward, *_ = env.step(np.array([0, 1]))
        assert (reward, env._left) == (1.0, pytest.approx(left))


def test_an_interest_rises_with_a_probability_that_grows_with_its_value_and_falls_otherwise() -> None:
    env = InterestEvolution()
    env.reset(seed=2)
    moved = []
    for _ in range(2000):
        env._interests[5] = 0.5
        env._move_interest(5)
        moved.append(env._interests[5])
    assert sorted(set(np.round(moved, 9))) == pytest.approx([0.5 - 0.3 * 0.25, 0.5 + 0.3 * 0.25])
    assert np.mean(np.array(moved) > 0.5) == pytest.approx(0.75, abs=0.03)


def test_one_scripted_policy_ranks_only_by_clicks_and_the_other_also_by_quality() -> None:
    topics = np.array([0, 19, 10])
    user = np.zeros(21, np.float32)
    user[[0, 10, 19]] = 0.9, 0.8, 0.5
    observation = {"candidates": np.eye(20, dtype=np.float32)[topics], "clicked": 2, "user": user}
    assert clicked_slate(observation).tolist() == [0, 2]
    assert exact_slate(observation).tolist() == [1, 2]


def test_a_slate_larger_than_the_number_of_candidates_is_rejected(wording) -> None:
    with wording.raised(ValueError):
        InterestEvolution(num_candidates=3, slate_size=4)
