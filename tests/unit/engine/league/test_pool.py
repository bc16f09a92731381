"""Which past selves a pool keeps."""

import numpy as np
import pytest

from rlrun.engine.functional.moments import Moments
from rlrun.engine.league.league import Pool
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.schedules import values_at


def weights(version: int) -> Weights:
    seen = {"observations/": Moments.of(np.arange(6.0).reshape(3, 2), leading=1)}
    return Weights(version, np.full(3, version, np.float32), seen, version * 100, {"epsilon": ((0, 1.0), (50, 0.1))})


def names(pool: Pool) -> list[str]:
    return [member.name for member in pool.members]


def test_a_full_pool_drops_the_oldest_members_but_keeps_the_first() -> None:
    pool = Pool(3)
    for version in range(5):
        pool.add("main", weights(version))
    assert names(pool) == ["main:0", "main:3", "main:4"]
    assert pool.newest("main").name == "main:4"


def test_a_pool_limited_to_one_member_keeps_the_newest() -> None:
    pool = Pool(1)
    pool.add("main", weights(0))
    pool.add("main", weights(1))
    assert names(pool) == ["main:1"]


def test_the_size_limit_applies_to_each_policy_separately() -> None:
    pool = Pool(2)
    for version in range(3):
        pool.add("main", weights(version))
        pool.add("exploiter", weights(version))
    assert names(pool) == ["main:0", "exploiter:0", "main:2", "exploiter:2"]
    assert [member.name for member in pool.of(["exploiter"])] == ["exploiter:0", "exploiter:2"]


def test_a_restored_pool_has_the_same_weights_and_continues_numbering() -> None:
    pool, restored = Pool(3), Pool(3)
    for version in range(5):
        pool.add("main", weights(version))
    restored.load_state(pool.state())
    assert names(restored) == names(pool)
    for mine, theirs in zip(restored.members, pool.members, strict=True):
        assert mine.weights is not None
        assert theirs.weights is not None
        np.testing.assert_array_equal(mine.weights.acting, theirs.weights.acting)
        np.testing.assert_array_equal(
            mine.weights.filters["observations/"].squares, theirs.weights.filters["observations/"].squares
        )
        assert (mine.weights.version, mine.weights.env_steps) == (theirs.weights.version, theirs.weights.env_steps)
        assert mine.weights.schedules == values_at(theirs.weights.schedules, theirs.weights.env_steps)
    assert restored.add("main", weights(5)).name == "main:5"


def test_weights_that_are_not_finite_are_refused() -> None:
    pool = Pool(1)
    pool.add("main", Weights(0, np.array([np.nan], np.float32)))
    with pytest.raises(ValueError, match="infinite"):
        Pool(1).load_state(pool.state())
