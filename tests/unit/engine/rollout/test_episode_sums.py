from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.rollout.episode_sums import EpisodeSums


def test_a_huge_reward_does_not_reduce_the_precision_of_later_episodes() -> None:
    rewards = np.array([[1.0, 3.0], [-1e17, 0.5], *[[1.0, 0.25]] * 5, [2.0, 0.0]])
    ends = np.zeros(rewards.shape, np.bool_)
    ends[[1, 6], 0] = True
    sums = EpisodeSums(2, ["cost"])
    steps = np.ones_like(ends)
    first, second = sums.add(rewards, ends, steps, {}, columns={"cost": rewards})
    assert (first.episode_return, first.length, first.columns) == (-1e17, 2, {"cost": -1e17})
    assert (second.episode_return, second.length, second.columns) == (5.0, 5, {"cost": 5.0})
    assert sums.returns.tolist() == sums.columns["cost"].tolist() == [2.0, 4.75]
    assert sums.lengths.tolist() == [1, 8]


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(1, 12),
    fragments=st.integers(1, 4),
    chance=st.sampled_from([0.0, 0.2, 0.9]),
    seed=st.integers(0, 10**6),
)
def test_episode_returns_are_sums_of_rewards_across_any_fragment_boundaries(
    length: int, fragments: int, chance: float, seed: int
) -> None:
    draws = np.random.default_rng(seed)
    rewards = draws.integers(-9, 10, (length * fragments, 3)).astype(float) * 10.0 ** draws.integers(0, 13, 3)
    ends = draws.random(rewards.shape) < chance
    sums, found = EpisodeSums(3), []
    for begin in range(0, len(rewards), length):
        part = slice(begin, begin + length)
        found += sums.add(rewards[part], ends[part], np.ones_like(ends[part]), {})
    expected = []
    begins = [0, 0, 0]
    for t, slot in np.argwhere(ends).tolist():
        expected.append((rewards[begins[slot] : t + 1, slot].sum(), t + 1 - begins[slot]))
        begins[slot] = t + 1
    assert [(episode.episode_return, episode.length) for episode in found] == expected
    assert sums.returns.tolist() == [rewards[begin:, slot].sum() for slot, begin in enumerate(begins)]
