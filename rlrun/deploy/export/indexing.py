"""Reading and writing of parts of traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlrun.deploy.export.graph import Graph, Untraceable
from rlrun.deploy.export.traced import Traced, broadcast, reshaped


def item(graph: Graph, array: Traced, key: Any) -> Traced:
    """Records `array[key]`: a view for slices, a copy for numbers by row."""
    if (picked := gathered(array, key)) is not None:
        return picked
    return array.view(
        part(array, key), lambda base: part(base, key), lambda base, value: assigned(graph, base, key, value)
    )


def part(array: Traced, key: Any) -> Traced:
    """Part of an array by numbers, slices, None and an ellipsis."""
    axis, sizes = 0, []
    for each in _whole(array, key):
        if each is None:
            sizes.append(1)
            continue
        array = sliced(array, axis, _range(each, array.shape[axis]))
        if isinstance(each, slice):
            sizes.append(array.shape[axis])
        axis += 1
    return array if tuple(sizes) == array.shape else reshaped(array, tuple(sizes))


def sliced(array: Traced, axis: int, chosen: range) -> Traced:
    """Part of an array along an axis."""
    if chosen == range(array.shape[axis]):
        return array
    if array.graph.is_batch(array.shape[axis]):
        raise Untraceable("some of the batch's rows")
    if chosen.step < 1:
        raise Untraceable("a slice with a negative step")
    numbers = [[chosen.start], [chosen.stop], [axis], [chosen.step]]
    names = [array.graph.constant(np.array(each, np.int64)) for each in numbers]
    result = array.array[(slice(None),) * axis + (slice(chosen.start, chosen.stop, chosen.step),)]
    return array.made("Slice", [array.name, *names], result)


def assigned(graph: Graph, array: Traced, key: Any, value: Any) -> Traced:
    """Records `array[key] = value`: a copy of the array with other numbers in a part of it."""
    if (written := _scattered(array, key, value)) is not None:
        return written
    keys = [each for each in _whole(array, key) if each is not None]
    ranges = [_range(each, size) for each, size in zip(keys, array.shape, strict=True)]
    target = part(array, key)
    new = broadcast(graph, value, target.shape, array.dtype)
    return _replaced(array, ranges, reshaped(new, tuple(map(len, ranges))), 0)


def _replaced(array: Traced, ranges: list[range], value: Traced, axis: int) -> Traced:
    """Copy of an array with other numbers in the product of ranges, of which the first ones are whole."""
    while axis < array.ndim and ranges[axis] == range(array.shape[axis]):
        axis += 1
    if axis == array.ndim:
        return value
    chosen, size = ranges[axis], array.shape[axis]
    if chosen.step != 1:
        raise Untraceable("numbers that are written with gaps")
    inner = [*ranges[:axis], range(len(chosen)), *ranges[axis + 1 :]]
    parts = [
        sliced(array, axis, range(chosen.start)),
        _replaced(sliced(array, axis, chosen), inner, value, axis),
        sliced(array, axis, range(chosen.stop, size)),
    ]
    filled = [each for each in parts if each.shape[axis]]
    if len(filled) == 1:
        return filled[0]
    result = np.concatenate([each.array for each in filled], axis)
    return array.made("Concat", [each.name for each in filled], result, axis=axis)


def gathered(array: Traced, key: Any) -> Traced | None:
    """Entries [B, ...] of an array [B, N, ...] by a number for each row: `array[np.arange(B), numbers]`.

    Returns:
        The entries; None for other keys.
    """
    numbers = _numbers_by_row(array, key)
    if numbers is None:
        return None
    shape = (len(array), 1, *array.shape[2:])
    indices = broadcast(array.graph, reshaped(numbers, (len(array),) + (1,) * (array.ndim - 1)), shape, np.dtype("i8"))
    result = np.take_along_axis(array.array, indices.array, 1)
    return reshaped(array.made("GatherElements", [array.name, indices.name], result, axis=1), (shape[0], *shape[2:]))


def _scattered(array: Traced, key: Any, value: Any) -> Traced | None:
    """Copy of an array [B, N] with other entries at a number for each row; None for other keys."""
    numbers = _numbers_by_row(array, key)
    if numbers is None:
        return None
    shape = (len(array), 1, *array.shape[2:])
    given = broadcast(array.graph, value, (shape[0], *shape[2:]), array.dtype)
    is_there: Any = np.equal(np.arange(array.shape[1]), reshaped(numbers, (len(array), 1)))
    whole = reshaped(is_there, (*array.shape[:2],) + (1,) * (array.ndim - 2))
    found: Any = np.where(whole, reshaped(given, shape), array)
    return Traced(array.graph, found.name, found.array)


def _numbers_by_row(array: Traced, key: Any) -> Traced | None:
    match key:
        case (np.ndarray() as rows, Traced() as numbers) if np.array_equal(rows, np.arange(len(array))):
            return numbers
    return None


def _whole(array: Traced, key: Any) -> list[Any]:
    """An entry of a key for each dimension, and None for each new one."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for each in keys:
        if not (each is None or each is Ellipsis or isinstance(each, int | np.integer | slice)):
            raise Untraceable(f"entries chosen by {type(each).__name__}")
    rest = array.ndim - sum(each is not None and each is not Ellipsis for each in keys)
    at = next((i for i, each in enumerate(keys) if each is Ellipsis), len(keys))
    return [*keys[:at], *[slice(None)] * rest, *keys[at + 1 :]]


def _range(key: int | slice, size: int) -> range:
    if isinstance(key, slice):
        return range(*key.indices(size))
    return range(key % size, key % size + 1)
