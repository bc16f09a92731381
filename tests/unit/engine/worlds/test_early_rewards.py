import pytest

from rlrun.engine.worlds import early_rewards
from rlrun.engine.worlds.early_rewards import EarlyRewards


def test_an_agent_gets_the_sum_of_its_rewards_once_at_its_birth() -> None:
    early = EarlyRewards()
    assert [early.keep_or_drop("a", reward) for reward in (1.0, 2.5)] == [0, 0]
    assert early.take("a") == 3.5
    assert early.take("a") == 0.0


def test_rewards_of_ended_agents_are_dropped_at_once_and_others_at_the_end() -> None:
    early = EarlyRewards()
    early.ended["a"] = None
    assert early.keep_or_drop("a", 1.0) == 1
    for agent in ("b", "b", "c"):
        early.keep_or_drop(agent, 1.0)
    assert early.drop() == 3
    assert (early.rewards, early.drop()) == ({}, 0)


def test_only_the_latest_ended_agents_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_rewards, "MOST_ENDED", 2)
    early = EarlyRewards()
    early.ended.update(dict.fromkeys("abc"))
    early.forget_oldest()
    assert list(early.ended) == ["b", "c"]
