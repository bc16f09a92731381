import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.messages.errors import CheckpointError


def through_json(value: Any) -> Any:
    arrays: list[Any] = []
    text = json.dumps(encode(value, arrays), allow_nan=False)
    return decode(json.loads(text), arrays)


def same(left: Any, right: Any) -> bool:
    """Whether two states are equal in type, shape and bits; NaN equals NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray | np.generic):
        return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
    if isinstance(left, float):
        return struct.pack("<d", left) == struct.pack("<d", right) or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text()
    | npst.arrays(npst.scalar_dtypes(), npst.array_shapes(min_dims=0, max_dims=3, min_side=0)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=12,
)


@settings(deadline=None, derandomize=True)
@given(plain)
def test_any_storable_state_is_restored_exactly(value: Any) -> None:
    assert same(through_json(value), value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        -0.0,
        5e-324,
        2**128 - 1,
        -(10**5000),
        True,
        (1, (2, [3])),
        {"$array": 0},
        {"$dict": {"$x": 1}, "y": 2},
        np.float64(0.1),
        np.float32("nan"),
        np.bool_(True),
        np.uint8(255),
        np.array(True),
        np.zeros((0, 3), np.float16),
        np.array(["a", "bc"]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.arange(3, dtype=">i4"),
        "\ud800 lone surrogate",
    ],
    ids=lambda value: type(value).__name__,
)
def test_edge_cases_of_storable_values_are_restored_exactly(value: Any) -> None:
    assert same(through_json({"x": value}), {"x": value})


def test_the_state_of_every_numpy_generator_is_restored_exactly() -> None:
    for bits in (np.random.PCG64, np.random.Philox, np.random.MT19937, np.random.SFC64):
        generator = np.random.Generator(bits(7))
        generator.random(3)
        twin = np.random.Generator(bits(0))
        twin.bit_generator.state = through_json(generator.bit_generator.state)
        np.testing.assert_array_equal(twin.random(100), generator.random(100))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"workers": {3: "x"}}, "state.workers has the key 3: keys in a checkpoint must be strings"),
        (
            {"a": [1, object()]},
            r"state\.a\[1\] is a builtins\.object; checkpoints can store only dicts with string keys",
        ),
        ({"a": {1, 2}}, "state.a is a builtins.set"),
        ({"a": b"bytes"}, "state.a is a builtins.bytes"),
        ({"a": np.array([object()])}, "state.a is an array of dtype object, which cannot be stored without pickle"),
    ],
    ids=["integer key", "object", "set", "bytes", "array of objects"],
)
def test_unstorable_values_are_refused_and_their_path_is_named(value: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        encode(value, [])


@pytest.mark.parametrize(
    "data", [{"$array": 1}, {"$array": -1}, {"$array": True}, {"$float": "1"}, {"$what": 0}, {"$int": 5}]
)
def test_decoding_refuses_data_that_encoding_never_produces(data: Any) -> None:
    with pytest.raises(ValueError, match=r"\$"):
        decode(data, [np.zeros(1)])
