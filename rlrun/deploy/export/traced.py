"""Arrays that record the NumPy code executed on them as a graph of ONNX operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.deploy.export.graph import Graph, Untraceable

Array = NDArray[Any]

Shape = tuple[int, ...]

OPERATORS: dict[np.ufunc, str] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.divide: "Div",
    np.negative: "Neg",
    np.absolute: "Abs",
    np.sqrt: "Sqrt",
    np.exp: "Exp",
    np.log: "Log",
    np.sin: "Sin",
    np.cos: "Cos",
    np.tanh: "Tanh",
    np.floor: "Floor",
    np.sign: "Sign",
    np.maximum: "Max",
    np.minimum: "Min",
    np.power: "Pow",
    np.matmul: "MatMul",
    np.greater: "Greater",
    np.greater_equal: "GreaterOrEqual",
    np.less: "Less",
    np.less_equal: "LessOrEqual",
    np.equal: "Equal",
    np.logical_and: "And",
    np.logical_or: "Or",
    np.logical_not: "Not",
}
"""ONNX operators by the NumPy ufunc that they are equivalent to."""

ON_BOOLS: dict[np.ufunc, np.ufunc] = {
    np.bitwise_and: np.logical_and,
    np.bitwise_or: np.logical_or,
    np.invert: np.logical_not,
    np.multiply: np.logical_and,
    np.add: np.logical_or,
}
"""Logical ufuncs by the arithmetic or bitwise ufunc that they are equivalent to on booleans."""

COMPOSED: dict[np.ufunc, Callable[..., Any]] = {
    np.square: lambda x: x * x,
    np.expm1: lambda x: np.exp(x) - 1,
    np.log1p: lambda x: np.log(1 + x),
    np.not_equal: lambda x, y: ~np.equal(x, y),
}
"""NumPy ufuncs without an ONNX operator, as functions of other ufuncs."""


class Traced(NDArrayOperatorsMixin):
    """Array whose NumPy operations are executed on an example, and recorded as ONNX operators.

    Unsupported operations raise `Untraceable`, so that nothing is skipped silently. As in NumPy, slices and reshaped
    arrays are views: writing to them writes to the array.

    Args:
        graph: The graph.
        name: Name of the array's value in the graph.
        array: Example value.
        view_of: Array of which this is a view, and two functions: one computes the view's value from the array, the
            other the array's new value from the array and the view's new value. None if this is not a view.
    """

    def __init__(self, graph: Graph, name: str, array: Array, view_of: View | None = None) -> None:
        self.graph = graph
        self._name, self._array = name, array
        self._view_of = view_of
        self._version = 0
        self._version_of_base = 0 if view_of is None else view_of[0].version

    @property
    def version(self) -> int:
        """Number of writes to the array, directly or through views."""
        return self._version if self._view_of is None else self._view_of[0].version

    @property
    def name(self) -> str:
        """Name, in the ONNX graph, of the value that this array has after all writes so far."""
        self._refresh()
        return self._name

    @property
    def array(self) -> Array:
        """NumPy array that the operations recorded so far compute for the example inputs."""
        self._refresh()
        return self._array

    @property
    def shape(self) -> Shape:
        """Shape of the array's example value."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array's example value."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array's example value."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Number of entries of the array's example value."""
        return self._array.size

    def _refresh(self) -> None:
        """Reads a view again if its array was written to."""
        if self._view_of is not None and self._version_of_base != self.version:
            base, read, _ = self._view_of
            present = read(base)
            self._name, self._array, self._version_of_base = present.name, present.array, self.version

    def assign(self, value: Any) -> None:
        """Replaces this array's value; if this array is a view, the array that it views is updated too."""
        new = broadcast(self.graph, value, self.shape, self.dtype)
        if self._view_of is not None:
            base, _, write = self._view_of
            base.assign(write(base, new))
            return
        self._name, self._array = new.name, new.array
        self._version += 1

    @override
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **settings: Any) -> Any:
        if method != "__call__" or settings or ufunc.nout != 1:
            raise Untraceable(f"numpy.{ufunc.__name__}.{method} with {', '.join(settings) or 'no settings'}")
        result = apply(self.graph, ufunc, inputs)
        if out is None:
            return result
        (target,) = out
        if not isinstance(target, Traced):
            raise Untraceable(f"numpy.{ufunc.__name__} with an output array that does not depend on the inputs")
        target.assign(result)
        return target

    def __array_function__(self, function: Callable[..., Any], types: Any, inputs: Any, settings: Any) -> Any:
        if function not in self.graph.functions:
            raise Untraceable(f"numpy.{function.__name__}")
        return self.graph.functions[function](self.graph, *inputs, **settings)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise Untraceable("assignment to an array that does not depend on the inputs")

    def __bool__(self) -> NoReturn:
        raise Untraceable("a Python condition on the values of an array")

    def __iter__(self) -> NoReturn:
        raise Untraceable("a Python loop over an array")

    def __len__(self) -> int:
        return self.shape[0]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # Python and NumPy look up such names to find protocols
            raise AttributeError(name)
        raise Untraceable(f"{name} of an array")

    def __getitem__(self, key: Any) -> Any:
        return self.graph.functions[operator.getitem](self.graph, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.assign(self.graph.functions[operator.setitem](self.graph, self, key, value))

    def view(self, found: Traced, read: Read, write: Write) -> Traced:
        """Creates a view of this array.

        Args:
            found: Traced array with the view's current value.
            read: Function from the array to the view's value.
            write: Function from the array and a new value of the view to the array's new value.
        """
        return Traced(self.graph, found.name, found.array, (self, read, write))

    def reshape(self, *shape: Any) -> Traced:
        """Records a reshape as an ONNX operator; returns a view of this array."""
        sizes = self.array.reshape(*shape).shape
        if sizes == self.shape:
            return self
        before = self.shape
        return self.view(
            reshaped(self, sizes), lambda base: reshaped(base, sizes), lambda _, value: reshaped(value, before)
        )

    def copy(self, order: str = "C") -> Traced:
        """Returns a copy: later writes to this array do not change it."""
        return Traced(self.graph, self.name, self.array)

    def astype(self, dtype: Any, copy: bool = True) -> Traced:
        """Records the conversion to another dtype as an ONNX operator; returns the result."""
        if self.dtype == dtype and not copy:
            return self
        return Traced(self.graph, cast(self, np.dtype(dtype)), self.array.astype(dtype))

    def transpose(self, *axes: int) -> Traced:
        """Records a permutation of the axes as an ONNX operator; returns a copy."""
        order = axes or tuple(reversed(range(self.ndim)))
        return self.made(
            "Transpose", [self.name], self.array.transpose(order), perm=[axis % self.ndim for axis in order]
        )

    @property
    def T(self) -> Traced:  # noqa: N802 (NumPy's name)
        """Records the reversal of all axes; returns a copy, whereas NumPy returns a view."""
        return self.transpose()

    def made(self, kind: str, inputs: Sequence[str], array: Array, **attributes: Any) -> Traced:
        """Adds a call of an ONNX operator to the graph, and returns the result as a traced array."""
        return Traced(self.graph, self.graph.call(kind, inputs, array, **attributes), np.asarray(array))

    def argmax(self, axis: int) -> Traced:
        """Records `argmax` along an axis as an ONNX operator; returns the indices of the maxima."""
        at = axis % self.ndim
        return self.made("ArgMax", [self.name], np.asarray(self.array.argmax(at)), axis=at, keepdims=0)

    def sum(self, axis: int, dtype: Any = None, keepdims: bool = False) -> Traced:
        """Records the sums along an axis as an ONNX operator; returns the result."""
        result = self.array.sum(axis, dtype=dtype, keepdims=keepdims)
        axes = self.graph.constant(np.array([axis % self.ndim], np.int64))
        return self.made("ReduceSum", [cast(self, result.dtype), axes], result, keepdims=int(keepdims))

    def cumsum(self, axis: int) -> Traced:
        """Records cumulative sums along an axis as an ONNX operator; returns the result."""
        result = self.array.cumsum(axis)
        at = self.graph.constant(np.array(axis % self.ndim, np.int64))
        return self.made("CumSum", [cast(self, result.dtype), at], result)

    def mean(self, axis: int, keepdims: bool = False) -> Traced:
        """Records the means along an axis as an ONNX operator; returns the result."""
        return self._reduced("ReduceMean", np.mean, axis, keepdims)

    def max(self, axis: int, keepdims: bool = False) -> Traced:
        """Records the maxima along an axis as an ONNX operator; returns the result."""
        return self._reduced("ReduceMax", np.max, axis, keepdims)

    def _reduced(self, kind: str, function: Callable[..., Any], axis: int, keepdims: bool) -> Traced:
        result = np.asarray(function(self.array, axis=axis, keepdims=keepdims))
        return self.made(kind, [cast(self, result.dtype)], result, axes=[axis % self.ndim], keepdims=int(keepdims))

    def clip(self, min: Any = None, max: Any = None) -> Any:  # noqa: A002 (NumPy's names)
        """Records `clip` as ONNX operators; returns the array with entries limited to a range."""
        least: Any = self if min is None else np.maximum(self, min)
        return least if max is None else np.minimum(least, max)


Read = Callable[[Traced], Traced]
Write = Callable[[Traced, Traced], Traced]
View = tuple[Traced, Read, Write]


def apply(graph: Graph, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """Records a call of a NumPy ufunc as ONNX operators, with NumPy's rules for dtypes."""
    if ufunc in COMPOSED:
        return COMPOSED[ufunc](*inputs)
    kinds = [type(each) if type(each) in (int, float) else np.asarray(example(each)).dtype for each in inputs]
    *computed, _ = ufunc.resolve_dtypes((*kinds, None))
    if all(kind == np.bool_ for kind in computed):
        ufunc = ON_BOOLS.get(ufunc, ufunc)
    if ufunc not in OPERATORS:
        raise Untraceable(f"numpy.{ufunc.__name__}")
    result = np.asarray(ufunc(*map(example, inputs)))
    names = [operand(graph, each, kind) for each, kind in zip(inputs, computed, strict=True)]
    return Traced(graph, graph.call(OPERATORS[ufunc], names, result), result)


def example(value: Any) -> Any:
    """Example value of an array that records operations, as a NumPy array; other values are returned unchanged."""
    return value.array if isinstance(value, Traced) else value


def operand(graph: Graph, value: Any, dtype: np.dtype[Any]) -> str:
    """Adds a value, converted to a dtype, to the ONNX graph unless the graph has it already; returns its name."""
    if isinstance(value, Traced):
        return cast(value, dtype)
    array = np.asarray(value).astype(dtype)
    if array.ndim and graph.is_batch(len(array)) and len(array) > graph.batch:
        return _repeated(graph, array).name
    for axis, size in enumerate(array.shape):
        if graph.is_batch(size):
            first = array.take([0], axis)
            if not np.array_equal(np.broadcast_to(first, array.shape), array):
                raise Untraceable("values that depend on a row's position in the batch")
            array = first
    return graph.constant(array)


def _repeated(graph: Graph, array: Array) -> Traced:
    """Known rows [B * K, ...] that are the same K rows for each row of the batch."""
    first = array[: len(array) // graph.batch]
    shape = (graph.batch, *first.shape)
    if not np.array_equal(np.broadcast_to(first, shape).reshape(array.shape), array):
        raise Untraceable("values that depend on a row's position in the batch")
    return reshaped(broadcast(graph, first, shape, array.dtype), array.shape)


def cast(value: Traced, dtype: np.dtype[Any]) -> str:
    """Records the conversion of an array to a dtype as an ONNX operator; returns the result's name in the graph."""
    if value.dtype == dtype:
        return value.name
    return value.graph.call("Cast", [value.name], value.array.astype(dtype), to=np.dtype(dtype).name)


def reshaped(value: Traced, sizes: Shape) -> Traced:
    """Records a reshape of an array as an ONNX operator that works for any batch size."""
    graph = value.graph
    free = [axis for axis, size in enumerate(sizes) if graph.is_batch(size)]
    if len(free) > 1:
        raise Untraceable(f"a shape with the batch size in several dimensions: {sizes}")
    target = np.array([-1 if axis in free else size for axis, size in enumerate(sizes)], np.int64)
    return value.made("Reshape", [value.name, graph.constant(target)], value.array.reshape(sizes))


def broadcast(graph: Graph, value: Any, sizes: Shape, dtype: np.dtype[Any]) -> Traced:
    """Records the broadcast of a value to a shape and dtype as ONNX operators; returns the result."""
    given = np.asarray(example(value))
    array = np.broadcast_to(given, sizes).astype(dtype)
    name = operand(graph, value, dtype)
    if given.shape != sizes or (not isinstance(value, Traced) and any(map(graph.is_batch, sizes))):
        name = graph.call("Expand", [name, graph.shape(sizes)], array)
    return Traced(graph, name, array)
