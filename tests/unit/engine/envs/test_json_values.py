"""Elements of spaces in JSON: checked on the way in, and in the env's units on the way out."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.json_values import batch_from_json, batch_to_json
from rlrun.engine.envs.spaces import SpaceMismatch

SPACE = Dict(
    {
        "camera": Box(0, 255, (2, 2), np.uint8),
        "speed": Box(-1.0, 1.0, (), np.float32),
        "gears": Tuple((Discrete(3, start=1), MultiDiscrete([2, 3]), MultiBinary(2))),
    }
)


def test_elements_of_nested_spaces_survive_a_round_trip_through_json_exactly():
    SPACE.seed(0)
    batch = batch_from_json(SPACE, [map_tree(lambda leaf: np.asarray(leaf).tolist(), SPACE.sample()) for _ in range(3)])
    again = batch_from_json(SPACE, json.loads(json.dumps(batch_to_json(batch))))
    for one, other in zip(leaves(batch), leaves(again), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert batch["camera"].dtype == np.uint8
    assert batch["speed"].shape == (3,)


GOOD = {"camera": [[0, 1], [2, 255]], "speed": 1, "gears": [1, [0, 2], [0, 1]]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"camera": [[0, 1], [2, 256]]}, "the observation at 'camera' contains 256, which is outside"),
        ({"camera": [[0, 1], [2]]}, "the observation at 'camera' is ragged"),
        ({"camera": [0, 1, 2]}, r"the observation at 'camera' has shape \(3,\), but its space has \(2, 2\)"),
        ({"camera": [[0, 1], [2, 3.5]]}, "the observation at 'camera' has dtype float64, but its space has uint8"),
        ({"speed": "fast"}, r"the observation at 'speed' must be an array of shape \(\), not str 'fast'"),
        ({"speed": None}, r"the observation at 'speed' must be an array of shape \(\), not NoneType None"),
        ({"speed": 1e300}, "the observation contains a number that is too large"),
        ({"gears": [4, [0, 2], [0, 1]]}, "the observation at 'gears/0' contains 4, which is outside"),
        ({"gears": [1, [0, 2]]}, "the observation at 'gears' must be a tuple of"),
        ({"gears": [1, [0, 2], [0, 2]]}, "the observation at 'gears/2'"),
        ({"sped": 1}, r"the observation has the key \['sped'\], which its space lacks"),
    ],
)
def test_elements_outside_their_space_are_refused_with_the_name_of_the_wrong_part(changed, message):
    with pytest.raises(SpaceMismatch, match=message):
        batch_from_json(SPACE, [GOOD | changed])
    with pytest.raises(SpaceMismatch, match=message.replace("the observation", "action 1", 1)):
        batch_from_json(SPACE, [GOOD, GOOD | changed], "action")
