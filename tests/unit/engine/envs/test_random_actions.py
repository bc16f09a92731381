from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.envs.random_actions import RandomActions
from rlrun.engine.envs.spaces import Spaces

SEEN = Box(-1, 1, (2,))


def observations(slots: int) -> np.ndarray:
    return np.zeros((slots, 2), np.float32)


@pytest.mark.parametrize(
    "space",
    [Discrete(3, start=5), MultiDiscrete([2, 3]), MultiBinary(4), Box(-2, 3, (2,)), Box(-np.inf, np.inf, (1,))],
    ids=str,
)
def test_actions_belong_to_the_space_and_are_reproducible_by_seed(space: Space) -> None:
    drawn = [RandomActions(Spaces(SEEN, space), seed).draw(observations(50)) for seed in (0, 0, 1)]
    assert all(action in space for action in drawn[0])
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_all_actions_are_equally_likely() -> None:
    drawn = RandomActions(Spaces(SEEN, Discrete(4)), 0).draw(observations(4000))
    assert np.abs(np.bincount(drawn) - 1000).max() < 100  # less than 3.6 standard deviations


@pytest.mark.parametrize(
    ("space", "allowed"), [(Discrete(4, start=1), {(2,), (3,)}), (MultiDiscrete([2, 2]), {(1, 0)})], ids=str
)
def test_forbidden_actions_are_not_drawn(space: Space, allowed: set[tuple[int, ...]]) -> None:
    seen = Dict({"x": SEEN, ACTION_MASK: Box(0, 1, (4,), np.int8)})
    mask = np.tile(np.array([0, 1, 1, 0], np.int8), (200, 1))
    drawn = RandomActions(Spaces(seen, space), 0).draw({"x": observations(200), ACTION_MASK: mask})
    assert {tuple(np.ravel(action).tolist()) for action in drawn} == allowed


def test_masks_apply_to_the_choices_in_nested_actions_and_leave_other_parts_free() -> None:
    space = Tuple([MultiBinary(2), Dict({"b": MultiDiscrete([[2, 2]]), "a": Discrete(2)})])
    seen = Dict({"x": SEEN, ACTION_MASK: MultiBinary(6)})
    mask = np.tile(np.array([0, 1, 1, 0, 0, 1], np.int8), (100, 1))  # the mask of a, then of both choices of b
    bits, choices = RandomActions(Spaces(seen, space), 0).draw({"x": observations(100), ACTION_MASK: mask})
    assert len(np.unique(bits, axis=0)) == 4
    assert (choices["a"] == 1).all()
    assert (choices["b"] == [[0, 1]]).all()
