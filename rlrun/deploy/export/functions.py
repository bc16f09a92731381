"""Replacements of NumPy functions and array indexing that record each call as ONNX operators in a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlrun.deploy.export.graph import Graph, Untraceable
from rlrun.deploy.export.traced import Traced, broadcast, example, operand, reshaped


def item(graph: Graph, array: Traced, key: Any) -> Traced:
    """Records the indexing `array[key]` as ONNX operators; slices give a view, integer indices a copy."""
    if (picked := gathered(array, key)) is not None:
        return picked
    return array.view(
        part(array, key), lambda base: part(base, key), lambda base, value: assigned(graph, base, key, value)
    )


def part(array: Traced, key: Any) -> Traced:
    """Records the indexing of an array, by integers, slices, None or an ellipsis, as ONNX operators."""
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
    """Records the slicing of an array along one axis as an ONNX operator."""
    if chosen == range(array.shape[axis]):
        return array
    if array.graph.is_batch(array.shape[axis]):
        raise Untraceable("a selection of rows of the batch")
    if chosen.step < 1:
        raise Untraceable("a slice with a negative step")
    numbers = [[chosen.start], [chosen.stop], [axis], [chosen.step]]
    names = [array.graph.constant(np.array(each, np.int64)) for each in numbers]
    result = array.array[(slice(None),) * axis + (slice(chosen.start, chosen.stop, chosen.step),)]
    return array.made("Slice", [array.name, *names], result)


def assigned(graph: Graph, array: Traced, key: Any, value: Any) -> Traced:
    """Records the assignment `array[key] = value` as ONNX operators that replace a part of a copy of the array."""
    if (written := _scattered(array, key, value)) is not None:
        return written
    keys = [each for each in _whole(array, key) if each is not None]
    ranges = [_range(each, size) for each, size in zip(keys, array.shape, strict=True)]
    target = part(array, key)
    new = broadcast(graph, value, target.shape, array.dtype)
    return _replaced(array, ranges, reshaped(new, tuple(map(len, ranges))), 0)


def _replaced(array: Traced, ranges: list[range], value: Traced, axis: int) -> Traced:
    """Records a copy of an array with new values in a product of index ranges, the first of which are whole axes."""
    while axis < array.ndim and ranges[axis] == range(array.shape[axis]):
        axis += 1
    if axis == array.ndim:
        return value
    chosen, size = ranges[axis], array.shape[axis]
    if chosen.step != 1:
        raise Untraceable("assignment to a strided slice")
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
    """Records `array[np.arange(B), numbers]` as an ONNX operator: it selects one of N entries from each of B rows.

    Returns:
        The gathered entries; None if the key has another form.
    """
    numbers = _numbers_by_row(array, key)
    if numbers is None:
        return None
    shape = (len(array), 1, *array.shape[2:])
    indices = broadcast(array.graph, reshaped(numbers, (len(array),) + (1,) * (array.ndim - 1)), shape, np.dtype("i8"))
    result = np.take_along_axis(array.array, indices.array, 1)
    return reshaped(array.made("GatherElements", [array.name, indices.name], result, axis=1), (shape[0], *shape[2:]))


def _scattered(array: Traced, key: Any, value: Any) -> Traced | None:
    """Records a copy of an array [B, N] with one new entry per row; None if the key has another form."""
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
    """Expands an index key to one entry per dimension, with None for each new dimension."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for each in keys:
        if not (each is None or each is Ellipsis or isinstance(each, int | np.integer | slice)):
            raise Untraceable(f"indexing with {type(each).__name__}")
    rest = array.ndim - sum(each is not None and each is not Ellipsis for each in keys)
    at = next((i for i, each in enumerate(keys) if each is Ellipsis), len(keys))
    return [*keys[:at], *[slice(None)] * rest, *keys[at + 1 :]]


def _range(key: int | slice, size: int) -> range:
    if isinstance(key, slice):
        return range(*key.indices(size))
    return range(key % size, key % size + 1)


def concatenate(graph: Graph, parts: Sequence[Any], axis: int = 0, dtype: Any = None) -> Traced:
    """Records a call of `numpy.concatenate` as ONNX operators."""
    result = np.concatenate([example(part) for part in parts], axis, dtype=dtype)
    names = [broadcast(graph, part, part.shape, result.dtype).name for part in parts if part.size]
    if len(names) == 1:
        return Traced(graph, names[0], result)
    return Traced(graph, graph.call("Concat", names, result, axis=axis % result.ndim), result)


def stack(graph: Graph, parts: Sequence[Any], axis: int = 0) -> Traced:
    """Records a call of `numpy.stack` as ONNX operators."""
    at = axis % (parts[0].ndim + 1)
    return concatenate(graph, [expand_dims(graph, part, at) for part in parts], at)


def expand_dims(graph: Graph, array: Any, axis: int) -> Any:
    """Records a call of `numpy.expand_dims` as ONNX operators."""
    sizes = np.expand_dims(example(array), axis).shape
    return array.reshape(sizes)


def split(graph: Graph, array: Traced, places: Any, axis: int = 0) -> list[Traced]:
    """Records a call of `numpy.split` as ONNX operators; the parts are views of the array."""
    at, found, start = axis % array.ndim, [], 0
    for own in np.split(array.array, places, at):
        end = start + own.shape[at]
        found.append(array[(slice(None),) * at + (slice(start, end),)])
        start = end
    return found


def where(graph: Graph, condition: Any, first: Any, second: Any) -> Traced:
    """Records a call of `numpy.where` as ONNX operators."""
    result = np.where(example(condition), example(first), example(second))
    chosen = operand(graph, condition, np.dtype(bool))
    # `Where` of ONNX Runtime before 1.31 supports floats and integers of 4 and 8 bytes, but not booleans or int8.
    small = result.dtype.kind in "biu" and result.dtype.itemsize < 4
    kind = np.dtype(np.int32) if small else result.dtype
    names = [operand(graph, each, kind) for each in (first, second)]
    found = Traced(graph, graph.call("Where", [chosen, *names], result.astype(kind)), result.astype(kind))
    return found.astype(result.dtype, copy=False)


def empty_like(graph: Graph, array: Any, dtype: Any = None, *, shape: Any = None) -> Traced:
    """Records a call of `numpy.empty_like` or `numpy.zeros_like` as ONNX operators; both return zeros."""
    return broadcast(graph, 0, array.shape if shape is None else tuple(shape), np.dtype(dtype or array.dtype))


def put_along_axis(graph: Graph, array: Traced, indices: Any, values: Any, axis: int) -> None:
    """Records a call of `numpy.put_along_axis` as ONNX operators."""
    at, numbers = axis % array.ndim, broadcast(graph, indices, example(indices).shape, np.dtype(np.int64))
    updates = broadcast(graph, values, numbers.shape, array.dtype)
    result = array.array.copy()
    np.put_along_axis(result, numbers.array, updates.array, at)
    array.assign(array.made("ScatterElements", [array.name, numbers.name, updates.name], result, axis=at))


def take_along_axis(graph: Graph, array: Any, indices: Any, axis: int) -> Traced:
    """Records a call of `numpy.take_along_axis` as ONNX operators; the other axes are broadcast to the indices."""
    whole, numbers = example(array), broadcast(graph, indices, example(indices).shape, np.dtype(np.int64))
    sizes = tuple(whole.shape[i] if i == axis % whole.ndim else size for i, size in enumerate(numbers.shape))
    source = broadcast(graph, array, sizes, whole.dtype)
    result = np.take_along_axis(source.array, numbers.array, axis)
    return source.made("GatherElements", [source.name, numbers.name], result, axis=axis % result.ndim)


def clip(graph: Graph, array: Traced, low: Any = None, high: Any = None) -> Any:
    """Records a call of `numpy.clip` as ONNX operators."""
    return array.clip(low, high)


def sum_of(graph: Graph, array: Any, axis: int = 0, dtype: Any = None) -> Traced:
    """Records a call of `numpy.sum`, of an array or of a list of arrays, as ONNX operators."""
    whole = array if isinstance(array, Traced) else stack(graph, array)
    return whole.sum(axis, dtype=dtype)


def max_of(graph: Graph, array: Traced, axis: int, keepdims: bool = False) -> Traced:
    """Records a call of `numpy.max` as ONNX operators."""
    return array.max(axis, keepdims)


def mean_of(graph: Graph, array: Traced, axis: int, keepdims: bool = False) -> Traced:
    """Records a call of `numpy.mean` as ONNX operators."""
    return array.mean(axis, keepdims)


def cumsum(graph: Graph, array: Traced, axis: int) -> Traced:
    """Records a call of `numpy.cumsum` as ONNX operators."""
    return array.cumsum(axis)


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    operator.getitem: item,
    operator.setitem: assigned,
    np.concatenate: concatenate,
    np.stack: stack,
    np.expand_dims: expand_dims,
    np.split: split,
    np.where: where,
    np.clip: clip,
    np.empty_like: empty_like,
    np.zeros_like: empty_like,
    np.put_along_axis: put_along_axis,
    np.take_along_axis: take_along_axis,
    np.sum: sum_of,
    np.cumsum: cumsum,
    np.max: max_of,
    np.mean: mean_of,
}
"""Recording functions by the NumPy function whose calls they record."""
