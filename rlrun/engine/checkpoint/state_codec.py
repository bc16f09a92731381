"""Encoding of nested state as strict JSON and a separate list of arrays, and exact decoding.

JSON has no NaN, tuples or arrays. Each is written as an object with a single key that begins with "$":

    {"$array": 3}                       the array with index 3 in the file of arrays
    {"$scalar": 4}                      a NumPy scalar, stored as an array without dimensions
    {"$float": "nan"}                   "nan", "inf" or "-inf"
    {"$int": "0x1f..."}                 an integer of more than 64 bits, as random generators have
    {"$tuple": [...]}                   a tuple
    {"$dict": {...}}                    a dict with a key that begins with "$"

Other Python objects cannot be stored, so loading a state never unpickles anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlrun.engine.messages.errors import CheckpointError

_STORABLE = "dicts with string keys, lists, tuples, strings, numbers, booleans, None and NumPy arrays"


def encode(value: Any, arrays: list[np.ndarray[Any, Any]] | None, path: str = "state") -> Any:
    """Encodes a nested value as data for `json.dumps(..., allow_nan=False)`; arrays are collected in a list.

    Args:
        value: Dicts with string keys, lists, tuples, strings, numbers, booleans, None, NumPy arrays and scalars.
        arrays: List to which arrays are appended; None rejects arrays.
        path: Path of the value, for error messages.

    Raises:
        CheckpointError: A part of the value cannot be stored; the message gives the part's path and type.
    """
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if value.bit_length() <= 64 else {"$int": hex(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, dict):
        return _encode_dict(value, arrays, path)
    if isinstance(value, list):
        return [encode(item, arrays, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": [encode(item, arrays, f"{path}[{index}]") for index, item in enumerate(value)]}
    if isinstance(value, np.ndarray | np.generic) and arrays is not None:
        arrays.append(_checked_array(np.asarray(value), path))
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": len(arrays) - 1}
    kind = type(value)
    raise CheckpointError(f"{path} is a {kind.__module__}.{kind.__qualname__}; checkpoints can store only {_STORABLE}")


def decode(data: Any, arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    """Restores the nested value from JSON data written by `encode`.

    Raises:
        ValueError: The data was not written by `encode`.
    """
    if isinstance(data, list):
        return [decode(item, arrays) for item in data]
    if not isinstance(data, dict):
        return data
    if not (len(data) == 1 and next(iter(data)).startswith("$")):
        return {key: decode(item, arrays) for key, item in data.items()}
    ((tag, content),) = data.items()
    match tag, content:
        case (("$array" | "$scalar"), int()) if not isinstance(content, bool) and 0 <= content < len(arrays):
            return arrays[content] if tag == "$array" else arrays[content][()]
        case "$float", ("nan" | "inf" | "-inf"):
            return float(content)
        case "$int", str():
            return int(content, 16)
        case "$tuple", list():
            return tuple(decode(item, arrays) for item in content)
        case "$dict", dict():
            return {key: decode(item, arrays) for key, item in content.items()}
    raise ValueError(f"{tag} with {content!r:.80}")


def _encode_dict(value: dict[Any, Any], arrays: list[np.ndarray[Any, Any]] | None, path: str) -> Any:
    for key in value:
        if type(key) is not str:
            raise CheckpointError(f"{path} has the key {key!r}: keys in a checkpoint must be strings")
    encoded = {key: encode(item, arrays, f"{path}.{key}") for key, item in value.items()}
    return {"$dict": encoded} if any(key.startswith("$") for key in encoded) else encoded


def _checked_array(array: np.ndarray[Any, Any], path: str) -> np.ndarray[Any, Any]:
    """Validates that an array has a NumPy dtype that needs no pickle."""
    made_by_another_package = array.dtype.isbuiltin == 2
    if array.dtype.hasobject or made_by_another_package:
        raise CheckpointError(f"{path} is an array of dtype {array.dtype}, which cannot be stored without pickle")
    return array
