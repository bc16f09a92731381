"""Spaces in JSON come back exactly."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rlrun.engine.data.space_json import space_from_json, space_to_json
from rlrun.engine.data.space_kinds import space_tree
from rlrun.engine.data.tree import named_leaves

SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, max_side=3)
INTEGERS = st.sampled_from([np.int8, np.uint8, np.int32, np.int64])


@st.composite
def boxes(draw: Any) -> Box:
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64, np.uint8, np.int16, np.int64]))
    low = draw(arrays.arrays(dtype, draw(SHAPES), elements=arrays.from_dtype(np.dtype(dtype), allow_nan=False)))
    if low.dtype.kind != "f":
        low = np.clip(low, -(2**62), 2**62).astype(dtype)
        return Box(np.minimum(low, 5).astype(dtype), np.maximum(low, 5).astype(dtype), low.shape, dtype)
    low = np.where(np.isposinf(low), 0, low).astype(dtype)  # Gymnasium refuses infinity as a lower bound
    return Box(low, np.full_like(low, draw(st.sampled_from([np.inf, np.finfo(dtype).max]))), low.shape, dtype)


@st.composite
def multi_discretes(draw: Any) -> MultiDiscrete:
    dtype, shape = draw(INTEGERS), draw(arrays.array_shapes(min_dims=1, max_dims=2, max_side=3))
    nvec = draw(arrays.arrays(dtype, shape, elements=st.integers(1, 60)))
    return MultiDiscrete(nvec, dtype=dtype, start=draw(arrays.arrays(dtype, shape, elements=st.integers(0, 60))))


LEAVES = st.one_of(
    boxes(),
    multi_discretes(),
    st.builds(
        lambda n, start, dtype: Discrete(n, start=start, dtype=dtype), st.integers(1, 99), st.integers(0, 20), INTEGERS
    ),
    st.builds(MultiBinary, st.one_of(st.integers(1, 9), st.lists(st.integers(1, 3), min_size=1, max_size=3))),
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(Tuple),
        st.dictionaries(st.text(max_size=5), inner, min_size=1, max_size=3).map(lambda own: Dict(list(own.items()))),
    ),
    max_leaves=5,
)


@given(SPACES)
@settings(max_examples=30, deadline=None)
def test_a_space_is_read_back_from_json_exactly(space: Any) -> None:
    again = space_from_json(json.loads(json.dumps(space_to_json(space), allow_nan=False)))
    assert again == space
    own, found = list(named_leaves(space_tree(space))), list(named_leaves(space_tree(again)))
    assert [path for path, _ in own] == [path for path, _ in found]  # keys are also in the same order
    for (_, part), (_, restored) in zip(own, found, strict=True):
        assert (part.dtype, part.shape) == (restored.dtype, restored.shape)
        if isinstance(part, Box):
            np.testing.assert_array_equal(part.low, restored.low)
            np.testing.assert_array_equal(part.high, restored.high)
            np.testing.assert_array_equal(part.bounded_above, restored.bounded_above)


def test_dtypes_and_starts_are_optional_in_handwritten_spaces() -> None:
    parts = {
        "at": {"type": "Box", "shape": [2], "low": -1, "high": "inf"},
        "gears": {"type": "Tuple", "spaces": [{"type": "Discrete", "n": 3}, {"type": "MultiDiscrete", "nvec": [2, 3]}]},
    }
    expected = Dict({"at": Box(-1, np.inf, (2,)), "gears": Tuple([Discrete(3), MultiDiscrete([2, 3])])})
    assert space_from_json({"type": "Dict", "spaces": parts}) == expected


def test_unsupported_kinds_of_spaces_are_refused(wording) -> None:
    with wording.raised(ValueError):
        space_to_json(Tuple([Graph(Box(0, 1, (1,)), None)]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "is not a space: its type must be one of"),
        ({"type": "Graph"}, "its type must be one of Box"),
        ({"type": "Box", "dtype": "float32", "shape": [10**6, 10**6], "low": 0.0, "high": 1.0}, "more than"),
        ({"type": "Box", "dtype": "object", "shape": [], "low": 0.0, "high": 1.0}, "must be one of the dtypes"),
        ({"type": "Box", "dtype": "float32", "shape": [2], "low": [0.0], "high": 1.0}, "do not match a Box of shape"),
        ({"type": "Box", "dtype": "float32", "shape": [2], "low": "nan", "high": 1.0}, "is not a valid bound"),
        ({"type": "Box", "dtype": "float32", "shape": [-2], "low": 0.0, "high": 1.0}, "is not a shape"),
        ({"type": "Discrete", "dtype": "int64", "n": 2.5, "start": 0}, "a Discrete with n"),
        ({"type": "Discrete", "dtype": "int64"}, "lacks 'n'"),
        ({"type": "Discrete", "dtype": "int64", "n": 0, "start": 0}, "positive"),
        ({"type": "MultiDiscrete", "dtype": "int64", "nvec": [1.5], "start": [0]}, "whole numbers"),
        ({"type": "MultiBinary", "n": [10**12]}, "more than"),
        ({"type": "Dict", "spaces": 3}, "no attribute 'items'"),
        ({"type": "Tuple", "spaces": [{"type": "Tuple", "spaces": [3]}]}, "3 is not a space"),
    ],
)
def test_invalid_spaces_are_refused_with_the_reason(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        space_from_json(data)
