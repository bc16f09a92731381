"""Functions of NumPy, besides ufuncs, and parts of arrays that can be recorded."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlrun.deploy.export.graph import Graph
from rlrun.deploy.export.indexing import assigned, item
from rlrun.deploy.export.traced import Traced, broadcast, example, operand


def concatenate(graph: Graph, parts: Sequence[Any], axis: int = 0, dtype: Any = None) -> Traced:
    """Records `numpy.concatenate`."""
    result = np.concatenate([example(part) for part in parts], axis, dtype=dtype)
    names = [broadcast(graph, part, part.shape, result.dtype).name for part in parts if part.size]
    if len(names) == 1:
        return Traced(graph, names[0], result)
    return Traced(graph, graph.call("Concat", names, result, axis=axis % result.ndim), result)


def stack(graph: Graph, parts: Sequence[Any], axis: int = 0) -> Traced:
    """Records `numpy.stack`."""
    at = axis % (parts[0].ndim + 1)
    return concatenate(graph, [expand_dims(graph, part, at) for part in parts], at)


def expand_dims(graph: Graph, array: Any, axis: int) -> Any:
    """Records `numpy.expand_dims`."""
    sizes = np.expand_dims(example(array), axis).shape
    return array.reshape(sizes)


def split(graph: Graph, array: Traced, places: Any, axis: int = 0) -> list[Traced]:
    """Records `numpy.split`: views of parts along an axis."""
    at, found, start = axis % array.ndim, [], 0
    for own in np.split(array.array, places, at):
        end = start + own.shape[at]
        found.append(array[(slice(None),) * at + (slice(start, end),)])
        start = end
    return found


def where(graph: Graph, condition: Any, first: Any, second: Any) -> Traced:
    """Records `numpy.where`."""
    result = np.where(example(condition), example(first), example(second))
    chosen = operand(graph, condition, np.dtype(bool))
    # ONNX Runtime before 1.31 chooses from floats and from integers of 4 and 8 bytes, but not from booleans or int8.
    small = result.dtype.kind in "biu" and result.dtype.itemsize < 4
    kind = np.dtype(np.int32) if small else result.dtype
    names = [operand(graph, each, kind) for each in (first, second)]
    found = Traced(graph, graph.call("Where", [chosen, *names], result.astype(kind)), result.astype(kind))
    return found.astype(result.dtype, copy=False)


def empty_like(graph: Graph, array: Any, dtype: Any = None, *, shape: Any = None) -> Traced:
    """Records `numpy.empty_like` and `numpy.zeros_like`, with zeros."""
    return broadcast(graph, 0, array.shape if shape is None else tuple(shape), np.dtype(dtype or array.dtype))


def put_along_axis(graph: Graph, array: Traced, indices: Any, values: Any, axis: int) -> None:
    """Records `numpy.put_along_axis`."""
    at, numbers = axis % array.ndim, broadcast(graph, indices, example(indices).shape, np.dtype(np.int64))
    updates = broadcast(graph, values, numbers.shape, array.dtype)
    result = array.array.copy()
    np.put_along_axis(result, numbers.array, updates.array, at)
    array.assign(array.made("ScatterElements", [array.name, numbers.name, updates.name], result, axis=at))


def take_along_axis(graph: Graph, array: Any, indices: Any, axis: int) -> Traced:
    """Records `numpy.take_along_axis`, for arrays of equal sizes along the other axes."""
    whole, numbers = example(array), broadcast(graph, indices, example(indices).shape, np.dtype(np.int64))
    sizes = tuple(whole.shape[i] if i == axis % whole.ndim else size for i, size in enumerate(numbers.shape))
    source = broadcast(graph, array, sizes, whole.dtype)
    result = np.take_along_axis(source.array, numbers.array, axis)
    return source.made("GatherElements", [source.name, numbers.name], result, axis=axis % result.ndim)


def clip(graph: Graph, array: Traced, low: Any = None, high: Any = None) -> Any:
    """Records `numpy.clip`."""
    return array.clip(low, high)


def sum_of(graph: Graph, array: Any, axis: int = 0, dtype: Any = None) -> Traced:
    """Records `numpy.sum` of an array, or of a list of arrays."""
    whole = array if isinstance(array, Traced) else stack(graph, array)
    return whole.sum(axis, dtype=dtype)


def max_of(graph: Graph, array: Traced, axis: int, keepdims: bool = False) -> Traced:
    """Records `numpy.max`."""
    return array.max(axis, keepdims)


def mean_of(graph: Graph, array: Traced, axis: int, keepdims: bool = False) -> Traced:
    """Records `numpy.mean`."""
    return array.mean(axis, keepdims)


def cumsum(graph: Graph, array: Traced, axis: int) -> Traced:
    """Records `numpy.cumsum`."""
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
"""Functions that record them."""
