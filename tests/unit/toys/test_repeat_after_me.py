from __future__ import annotations

import pytest

from rlrun.toys.repeat_after_me import RepeatAfterMe


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_what_was_shown_some_steps_before_is_to_be_repeated(delay: int) -> None:
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


def test_an_episode_shows_nothing_of_the_one_before() -> None:
    env = RepeatAfterMe(1, episode_len=3)
    first = [env.reset(seed=1)[0], *(env.step(0)[0] for _ in range(3))]
    env.reset(seed=2)
    env.step(0)
    assert [env.reset(seed=1)[0], *(env.step(0)[0] for _ in range(3))] == first
