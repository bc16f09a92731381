"""Records NumPy code as a list of calls on arrays of fixed shapes, which C kernels then run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from typing_extensions import override

from rlrun.engine.data.tree import map_tree
from rlrun.engine.kernels.library import library
from rlrun.engine.kernels.steps import Array, NoKernel, StepTable, require

Call = partial[Any]


class KernelFunction:
    """Function of arrays, written in NumPy, whose calls are recorded once on example arrays and then run by C kernels.

    The function must make the same NumPy calls each time, since its Python code runs only once. Arrays other than its
    arguments are read from the same memory in each call.

    Args:
        function: Function from trees of arrays to a tree of arrays.
        examples: Arguments with the shapes and dtypes of later calls; not modified.

    Attributes:
        uses_blas: Whether NumPy's BLAS computes a product, so that results depend on the processor.

    Raises:
        NoKernel: The function uses an operation that has no kernel.
        NoLibrary: The kernels cannot be used on this machine.
    """

    def __init__(self, function: Callable[..., Any], *examples: Any) -> None:
        self._inputs: list[Array] = []
        calls: list[Call] = []

        def recorded(example: Array) -> RecordedArray:
            self._inputs.append(np.array(example, order="C"))
            return RecordedArray(self._inputs[-1], calls)

        results = function(*(map_tree(recorded, example) for example in examples))
        self._results = map_tree(memory, results)  # also keeps alive the memory that the table points to
        self._steps = StepTable(library(), calls)
        self.uses_blas = self._steps.uses_blas
        self._run = partial(library().run_steps, *self._steps.arguments)

    def __call__(self, *leaves: Array) -> Any:
        """Runs the function on the leaves of its arguments.

        Returns:
            The function's results, in memory that the next call overwrites.
        """
        for array, leaf in zip(self._inputs, leaves, strict=True):
            array[...] = leaf
        self._run()
        return self._results


class RecordedArray(NDArrayOperatorsMixin):
    """Array that executes NumPy operations and also records them as calls with preallocated outputs.

    Unsupported operations raise `NoKernel` or AttributeError, so that no operation is skipped silently.

    Args:
        array: The array.
        calls: List of recorded calls, to which new ones are appended.
    """

    def __init__(self, array: Array, calls: list[Call]) -> None:
        self.array = array
        self._calls = calls
        self.shape, self.dtype, self.ndim, self.size = array.shape, array.dtype, array.ndim, array.size

    @override
    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **settings: Any
    ) -> RecordedArray:
        require(method == "__call__" and not settings and ufunc.nout == 1)
        arrays = [each for each in map(memory, inputs) if isinstance(each, np.ndarray)]
        operands = [constant(memory(each), arrays) for each in inputs]
        if out is None:
            return self._call(ufunc, *operands, out=ufunc(*operands))
        (target,) = out
        require(isinstance(target, RecordedArray))
        return self._call(ufunc, *operands, out=ufunc(*operands, out=target.array))

    def __array_function__(self, function: Callable[..., Any], types: Any, inputs: Any, settings: Any) -> Any:
        if function not in FUNCTIONS:
            raise NoKernel(f"numpy.{function.__name__}")
        try:
            return FUNCTIONS[function](self, *inputs, **settings)
        except TypeError:  # a keyword argument that is not supported here
            raise NoKernel(f"numpy.{function.__name__}") from None

    def __bool__(self) -> bool:
        raise NoKernel("a Python condition on the values of an array")

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, key: Any) -> RecordedArray:
        part = self.array[key]
        require(isinstance(part, np.ndarray) and np.may_share_memory(part, self.array))
        return RecordedArray(part, self._calls)

    def __setitem__(self, key: Any, value: Any) -> None:
        target, source = self[key].array, memory(value)
        if not isinstance(source, np.ndarray) or source.__array_interface__ != target.__array_interface__:
            self.copy_to(target, source)

    def reshape(self, *shape: Any) -> RecordedArray:
        """Returns the array in a different shape, on the same memory if possible."""
        result = self.array.reshape(*shape)
        if not np.may_share_memory(result, self.array):
            self.copy_to(result.reshape(self.shape), self.array)
        return RecordedArray(result, self._calls)

    def astype(self, dtype: Any, copy: bool = True) -> RecordedArray:
        """Returns a copy of the array with a different dtype, and records the call."""
        if self.dtype == dtype and not copy:
            return self
        return self.copy_to(np.empty(self.shape, dtype), self.array)

    def argmax(self, axis: int) -> RecordedArray:
        """Returns the indices of the array's maxima along an axis, and records the call."""
        return self._call(self.array.argmax, axis, np.asarray(self.array.argmax(axis)))

    def mean(self, axis: int, keepdims: bool = False) -> RecordedArray:
        """Returns the means of the array along an axis, and records the calls."""
        total = self.array.sum(axis, keepdims=keepdims)
        self._calls.append(partial(np.add.reduce, self.array, axis, None, total, keepdims))
        means: RecordedArray = RecordedArray(total, self._calls) / self.shape[axis]
        return means

    def copy_to(self, target: Array, source: Any, where: Array | None = None) -> RecordedArray:
        """Copies `source` into the array `target` where the mask is true (everywhere if None), and records the call."""
        call = partial(np.copyto, target, constant(source, [target]), "unsafe")
        if where is not None:
            call = partial(np.copyto, target, constant(source, [target]), "same_kind", where)
        call()
        self._calls.append(call)
        return RecordedArray(target, self._calls)

    def _call(self, function: Callable[..., Any], *arguments: Any, out: Array | None = None) -> RecordedArray:
        self._calls.append(partial(function, *arguments) if out is None else partial(function, *arguments, out=out))
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        return RecordedArray(arrays[-1] if out is None else out, self._calls)


def _concatenate(any_part: RecordedArray, parts: Sequence[Any], axis: int = 0) -> RecordedArray:
    arrays = [memory(part) for part in parts]
    return any_part._call(np.concatenate, arrays, axis, out=np.concatenate(arrays, axis))


def _stack(any_part: RecordedArray, parts: Sequence[Any], axis: int = 0) -> RecordedArray:
    arrays = [np.expand_dims(memory(part), axis) for part in parts]
    return any_part._call(np.concatenate, arrays, axis, out=np.concatenate(arrays, axis))


def _split(whole: RecordedArray, array: RecordedArray, places: Any, axis: int = 0) -> Any:
    return [RecordedArray(part, whole._calls) for part in np.split(array.array, places, axis)]


def _where(any_part: RecordedArray, condition: Any, first: Any, second: Any) -> RecordedArray:
    chosen, one, other = (memory(each) for each in (condition, first, second))
    result = np.where(chosen, one, other)
    any_part.copy_to(result, other)
    is_chosen = condition if chosen.dtype == np.bool_ else condition != 0
    return any_part.copy_to(result, one, memory(is_chosen))


def _clip(any_part: RecordedArray, array: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(array, low), high)


def _empty_like(any_part: RecordedArray, array: RecordedArray, shape: tuple[int, ...] | None = None) -> RecordedArray:
    return RecordedArray(np.empty_like(array.array, shape=shape), any_part._calls)


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.split: _split,
    np.where: _where,
    np.clip: _clip,
    np.empty_like: _empty_like,
}
"""NumPy functions, other than ufuncs, that can be recorded."""


def memory(value: Any) -> Any:
    """Returns the NumPy array inside a `RecordedArray`; other values are returned unchanged."""
    return value.array if isinstance(value, RecordedArray) else value


def constant(operand: Any, arrays: Sequence[Array]) -> Array:
    """Converts a number to an array with the dtype that the number would get in a NumPy operation with given arrays."""
    if isinstance(operand, np.ndarray):
        return operand
    number = np.asarray(operand, np.result_type(operand, *(each.dtype for each in arrays)))
    number.flags.writeable = False  # marks it as constant
    return number
