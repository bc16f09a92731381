"""JSON form of Gymnasium spaces, with an exact round trip: bounds to the last bit, dtypes, and the order of keys.

Each space is an object with its `type`. Infinite bounds are written as "inf" and "-inf", since JSON has no infinite
numbers. Bounds that are all equal are written as one number.

| type | further keys |
|---|---|
| `Box` | `dtype`, `shape`, `low`, `high` |
| `Discrete` | `dtype`, `n`, `start` |
| `MultiDiscrete` | `dtype`, `nvec`, `start` |
| `MultiBinary` | `n`: a number, or a list of numbers |
| `Dict` | `spaces`: an object of spaces |
| `Tuple` | `spaces`: a list of spaces |

In hand-written spaces, `dtype` defaults to float32 for a Box and int64 for other spaces, and `start` defaults to 0.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

from rlrun.engine.data.space_kinds import kinds_in_words

MOST_NUMBERS = 100_000_000
"""Maximum number of numbers in an element of a space from a file, since its bounds are arrays of that size."""

DTYPES = frozenset(
    ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64"]
)
"""Names of the dtypes of spaces and columns in files."""


def space_to_json(space: Space[Any]) -> dict[str, Any]:
    """Converts a Gymnasium space to plain data for JSON.

    An instance of a subclass is written as the Gymnasium space that it extends.

    Raises:
        ValueError: The space, or a part of it, has no JSON form.

    Examples:
        >>> space_to_json(Box(-np.inf, 1.0, (2,)))
        {'type': 'Box', 'dtype': 'float32', 'shape': [2], 'low': '-inf', 'high': 1.0}
    """
    for kind, (write, _) in _KINDS.items():
        if isinstance(space, kind):
            return {"type": kind.__name__, **write(space)}
    raise ValueError(f"{space} cannot be written as JSON: rlrun supports {kinds_in_words()}")


def space_from_json(data: Any) -> Space[Any]:
    """Restores a Gymnasium space from its JSON form, which may come from an untrusted source.

    Raises:
        ValueError: The data is not the JSON form of a space; the message names the location of the mistake.
    """
    if not isinstance(data, Mapping) or data.get("type") not in _READERS:
        raise ValueError(f"{data!r:.80} is not a space: its type must be one of {', '.join(_READERS)}")
    try:
        return _READERS[data["type"]](data)
    except KeyError as error:
        raise ValueError(f"the {data['type']} lacks {error}") from None
    except (TypeError, AttributeError, AssertionError, OverflowError, RecursionError) as error:
        raise ValueError(f"invalid {data['type']}: {error}") from None


def dtype_named(name: Any) -> np.dtype[Any]:
    """Returns the NumPy dtype with a name that was read from a file.

    Raises:
        ValueError: The name is not in `DTYPES`.
    """
    if name not in DTYPES:
        raise ValueError(f"{name!r:.80} must be one of the dtypes {', '.join(sorted(DTYPES))}")
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def shape_listed(shape: Any) -> tuple[int, ...]:
    """Returns the shape of an array, given as a list in a file, after validating it.

    Raises:
        ValueError: The list is not a shape, or the array would have more than `MOST_NUMBERS` numbers.
    """
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{shape!r:.80} is not a shape")
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"the shape {shape} has more than {MOST_NUMBERS:,} elements")
    return tuple(shape)


def _box_to_json(space: Box) -> dict[str, Any]:
    low, high = (_bounds_to_json(bound) for bound in (space.low, space.high))
    return {"dtype": _name_of(space.dtype), "shape": list(space.shape), "low": low, "high": high}


def _box_from_json(data: Mapping[str, Any]) -> Space[Any]:
    dtype, shape = dtype_named(data.get("dtype", "float32")), shape_listed(data["shape"])
    low, high = (_bounds_from_json(data[name], dtype, shape) for name in ("low", "high"))
    return Box(low, high, shape, dtype.type)


def _bounds_to_json(bound: NDArray[Any]) -> Any:
    if bound.size and (bound == bound.flat[0]).all():
        bound = bound.flat[0]
    return _with_infinity_as_text(bound.tolist())


def _with_infinity_as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_infinity_as_text(part) for part in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _bounds_from_json(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    found = np.asarray(_numbers(value), dtype)
    if found.shape not in ((), shape):
        raise ValueError(f"bounds of shape {found.shape} do not match a Box of shape {shape}")
    return np.broadcast_to(found, shape).copy()


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    if value in ("inf", "-inf"):
        return float(value)
    if type(value) not in (int, float, bool) or not math.isfinite(value):
        raise ValueError(f"{value!r:.80} is not a valid bound")
    return value


def _discrete_from_json(data: Mapping[str, Any]) -> Space[Any]:
    n, start = data["n"], data.get("start", 0)
    if type(n) is not int or type(start) is not int:
        raise ValueError(f"a Discrete with n {n!r:.80} and start {start!r:.80} is not valid")
    return Discrete(n, start=start, dtype=dtype_named(data.get("dtype", "int64")).type)


def _multi_discrete_from_json(data: Mapping[str, Any]) -> Space[Any]:
    dtype, nvec = dtype_named(data.get("dtype", "int64")), np.asarray(data["nvec"])
    start = np.asarray(data["start"]) if "start" in data else np.zeros_like(nvec)
    if nvec.dtype.kind != "i" or start.dtype.kind != "i":
        raise ValueError("nvec and start of a MultiDiscrete must be lists of whole numbers")
    return MultiDiscrete(nvec, dtype=dtype.type, start=start)


def _multi_binary_from_json(data: Mapping[str, Any]) -> Space[Any]:
    n = data["n"]
    sizes = shape_listed(n if isinstance(n, list) else [n])
    return MultiBinary(list(sizes) if isinstance(n, list) else sizes[0])


def _dict_to_json(space: Dict) -> dict[str, Any]:
    if any(not isinstance(key, str) for key in space.spaces):
        raise ValueError(f"the keys of a Dict space must be strings, not {list(space.spaces)}")
    return {"spaces": {key: space_to_json(part) for key, part in space.spaces.items()}}


def _dict_from_json(data: Mapping[str, Any]) -> Space[Any]:
    return Dict(OrderedDict((key, space_from_json(part)) for key, part in data["spaces"].items()))


def _name_of(dtype: Any) -> str:
    return str(dtype_named(np.dtype(dtype).name).name)


_KINDS: dict[Any, tuple[Callable[[Any], dict[str, Any]], Callable[[Mapping[str, Any]], Space[Any]]]] = {
    Box: (_box_to_json, _box_from_json),
    Discrete: (
        lambda space: {"dtype": _name_of(space.dtype), "n": int(space.n), "start": int(space.start)},
        _discrete_from_json,
    ),
    MultiDiscrete: (
        lambda space: {"dtype": _name_of(space.dtype), "nvec": space.nvec.tolist(), "start": space.start.tolist()},
        _multi_discrete_from_json,
    ),
    MultiBinary: (
        lambda space: {"n": space.n if isinstance(space.n, int) else list(space.n)},
        _multi_binary_from_json,
    ),
    Dict: (_dict_to_json, _dict_from_json),
    Tuple: (
        lambda space: {"spaces": [space_to_json(part) for part in space.spaces]},
        lambda data: Tuple([space_from_json(part) for part in data["spaces"]]),
    ),
}
_READERS = {kind.__name__: read for kind, (_, read) in _KINDS.items()}
