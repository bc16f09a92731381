"""Translation of an update's NumPy calls into the table of steps that `kernels.c` runs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.learner.numpy_kernels import Array, NoKernel, demand, write_argsort

STEP = np.dtype(
    [
        ("kernel", "u8"),
        ("group", "i8"),
        ("is_flat", "i8"),
        ("at", "u8", 3),
        ("shape", "i8", 4),
        ("stride", "i8", (3, 4)),
    ]
)
"""`Step` of `kernels.c`."""

BLOCK = 2048
"""Numbers that a group of steps works on at a time, as in `kernels.c`."""

FEW = 16
"""Largest number of columns for which the loop over rows is the inner one."""

FEW_SORTED = 512
"""Largest length of rows to sort, which takes as many steps as its square."""

LETTERS = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "b8"}


class Steps:
    """Table of steps of an update's NumPy calls.

    Args:
        library: The compiled kernels.

    Attributes:
        kept: Arrays that steps point to, besides those of the calls.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.kept: list[Array] = []
        self._library = library
        self._steps: list[NDArray[Any]] = []
        self._group = Group()

    def add(self, call: partial[object]) -> None:
        """Adds the steps of a call.

        Raises:
            NoKernel: There is no kernel of the call.
        """
        function: Any = call.func
        owner, name = getattr(function, "__self__", None), function.__name__
        arguments, out = call.args, call.keywords.get("out")
        if isinstance(owner, np.ufunc) and name == "reduce":
            self._reduce(owner.__name__, *arguments)
        elif isinstance(owner, np.ufunc) and name == "at":
            self._add_at(*arguments)
        elif isinstance(owner, np.ndarray) and name == "take":
            self._take(owner, arguments[0], arguments[2])
        elif isinstance(owner, np.ndarray) and name == "argmax":
            self._argmax(owner, *arguments)
        elif function is write_argsort:
            x, axis = arguments
            self._argsort(x, axis, np.asarray(out))
        elif function is np.matmul:
            self._product(*(*arguments, out)[:3])
        elif isinstance(function, np.ufunc):
            inputs = [np.asarray(each) for each in arguments[: function.nin]]
            self._ufunc(function, inputs, arguments[function.nin] if out is None else out)
        elif function is np.copyto:
            self._copy(*arguments)
        elif function is np.concatenate:
            self._concatenate(*(*arguments, out)[:3])
        else:
            demand(False)

    def table(self) -> NDArray[Any]:
        """All steps, as an array of `STEP`."""
        self._close_group()
        return np.concatenate(self._steps)

    # --- Elementwise steps

    def _ufunc(self, function: np.ufunc, inputs: Sequence[Array], out: Array) -> None:
        *wanted, found = function.resolve_dtypes((*(each.dtype for each in inputs), None))
        operands = [self._cast(each, dtype) for each, dtype in zip(inputs, wanted, strict=True)]
        result = out if out.dtype == found else self._empty(out.shape, found)
        self._loop(f"{function.__name__}_{LETTERS[wanted[0].name]}_{LETTERS[found.name]}", result, *operands)
        if result is not out:
            self._copy(out, result)

    def _copy(self, out: Array, x: Any, casting: str = "", where: Array | None = None) -> None:
        x = np.asarray(x)
        if where is None:
            self._loop(f"copy_{LETTERS[x.dtype.name]}_{LETTERS[out.dtype.name]}", out, x)
        else:
            self._loop(f"where_{LETTERS[out.dtype.name]}", out, self._cast(x, out.dtype), where)

    def _cast(self, x: Array, dtype: np.dtype[Any]) -> Array:
        if x.dtype == dtype:
            return x
        found = self._empty(x.shape, dtype)
        self._copy(found, x)
        return found

    def _concatenate(self, parts: Sequence[Array], axis: int, out: Array) -> None:
        ends = np.cumsum([part.shape[axis] for part in parts])
        for part, place in zip(parts, np.split(out, ends[:-1], axis), strict=True):
            self._copy(place, part)

    def _empty(self, shape: Sequence[int], dtype: Any) -> Array:
        self.kept.append(np.empty(shape, dtype))
        return self.kept[-1]

    def _loop(self, kernel: str, out: Array, first: Array, second: Array | None = None) -> None:
        given = [out, first, first if second is None else second]
        self.kept += given[1:]
        given = [np.broadcast_to(each, out.shape) if each is not out else each for each in given]
        demand(out.size > 0 and all(each is out or apart_or_same(out, each) for each in given))
        shape, strides = merged(out.shape, [each.strides for each in given])
        if len(shape) == 2 and shape[1] <= FEW < shape[0] and any(s[0] != shape[1] * s[1] for s in strides):
            shape, strides = shape[::-1], tuple(stride[::-1] for stride in strides)
            self._one(kernel, given, shape, strides)
        elif len(shape) > 2 or out.size <= BLOCK:
            self._one(kernel, given, shape, strides)
        else:
            step = self._step(kernel, given)
            if not self._group.takes(given, shape):
                self._close_group()
            self._group.add(step, given, shape, strides)

    def _one(self, kernel: str, given: Sequence[Array], shape: Sequence[int], strides: Sequence[Sequence[int]]) -> None:
        """Adds a step that is a group of its own."""
        self._close_group()
        demand(len(shape) <= 4)
        step = self._step(kernel, given)
        missing = 4 - len(shape)
        step["group"] = 1
        step["shape"] = (*[1] * missing, *shape)
        step["stride"] = [(*[0] * missing, *stride) for stride in strides]
        if len(shape) < 2:  # a single row, which is as long as it is
            step["is_flat"] = 1
            step["stride"][:, 2] = step["stride"][:, 3]
            step["shape"] = (1, 1, shape[0] if shape else 1, 1)
        self._steps.append(step.reshape(1))

    def _close_group(self) -> None:
        if self._group.steps:
            self._steps.append(self._group.table())
            self._group = Group()

    def _step(self, kernel: str, given: Sequence[Array]) -> NDArray[Any]:
        step = np.zeros((), STEP)
        step["kernel"] = self._address(kernel)
        step["at"][: len(given)] = [address(each) for each in given]
        return step

    def _address(self, kernel: str) -> int:
        try:
            return ctypes.cast(getattr(self._library, kernel), ctypes.c_void_p).value or 0
        except AttributeError:
            raise NoKernel(kernel) from None

    # --- Other steps

    def _whole(
        self, kernel: str, given: Sequence[Array], shape: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> None:
        self._close_group()
        step = self._step(kernel, given)
        self.kept += given
        step["shape"][: len(shape)] = shape
        for k, stride in enumerate(strides):
            step["stride"][k, : len(stride)] = stride
        self._steps.append(step.reshape(1))

    def _reduce(self, name: str, x: Array, axes: Any, dtype: None, out: Array, keepdims: bool = False) -> None:
        reduced = range(x.ndim) if axes is None else [axis % x.ndim for axis in np.atleast_1d(axes)]
        kept = [axis for axis in range(x.ndim) if axis not in reduced]
        bare = np.squeeze(out, tuple(reduced)) if keepdims else out
        x = self._cast(x, out.dtype).transpose(*kept, *reduced)
        numbers, over = merged(x.shape[len(kept) :], [x.strides[len(kept) :]])
        shape, (to, along) = merged(bare.shape, [bare.strides, x.strides[: len(kept)]])
        if len(shape) > 2 or len(numbers) > 1:
            dense = self._empty(x.shape, x.dtype)
            self._copy(dense, x)
            x, numbers, over = dense, (int(np.prod(x.shape[len(kept) :])),), ((x.itemsize,),)
            shape, (to, along) = merged(bare.shape, [bare.strides, x.strides[: len(kept)]])
        demand(len(shape) <= 2 and x.size > 0)
        missing = 2 - len(shape)
        n, by = (numbers or (1,))[0], (over[0] or (0,))[0]
        self._whole(
            f"{name}_reduce_{LETTERS[out.dtype.name]}",
            [bare, x],
            (*[1] * missing, *shape, n),
            [(*[0] * missing, *to), (*[0] * missing, *along, by)],
        )

    def _argmax(self, x: Array, axis: int, out: Array) -> None:
        x = np.moveaxis(x, axis, -1)
        shape, (to, along) = merged(out.shape, [out.strides, x.strides[:-1]])
        demand(len(shape) <= 1 and out.dtype == np.int64 and x.size > 0)
        self._whole(
            f"argmax_{LETTERS[x.dtype.name]}", [out, x], (*(shape or (1,)), x.shape[-1]),
            [to or (0,), (*(along or (0,)), x.strides[-1])],
        )  # fmt: skip

    def _argsort(self, x: Array, axis: int, out: Array) -> None:
        n = x.shape[-1]
        demand(axis in (-1, x.ndim - 1) and x.flags.c_contiguous and out.flags.c_contiguous and 0 < n <= FEW_SORTED)
        self._whole(f"argsort_{LETTERS[x.dtype.name]}", [out, x], (x.size // n, n), [])

    def _take(self, x: Array, positions: Array, out: Array) -> None:
        demand(all(each.flags.c_contiguous for each in (x, positions, out)) and positions.dtype == np.int64)
        self._whole(f"take_{LETTERS[x.dtype.name]}", [out, x, positions], (out.size, x.size), [])

    def _add_at(self, out: Array, positions: Array, source: Array) -> None:
        dense = source
        if not source.flags.c_contiguous:
            dense = self._empty(source.shape, source.dtype)
            self._copy(dense, source)
        demand(out.flags.c_contiguous and positions.flags.c_contiguous)
        self._whole(f"add_at_{LETTERS[out.dtype.name]}", [out, positions, dense], (source.size, out.size), [])

    def _product(self, first: Array, second: Array, out: Array) -> None:
        demand(first.dtype == second.dtype == out.dtype == np.float32 and out.size > 0 and first.size > 0)
        a = first[None] if first.ndim == 1 else first
        b = second[:, None] if second.ndim == 1 else second
        c = out.reshape(*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        demand(np.shares_memory(c, out))
        a, b = (np.broadcast_to(each, (*c.shape[:-2], *each.shape[-2:])) for each in (a, b))
        if c.strides[-1] != c.itemsize and c.shape[-1] > 1:
            a, b, c = (np.swapaxes(each, -1, -2) for each in (b, a, c))
        if c.shape[-1] == 1 < c.shape[-2] and is_unit(c.strides[-2], c.shape[-2], c):
            a, b, c = (np.swapaxes(each, -1, -2) for each in (b, a, c))
        batch, strides = merged(c.shape[:-2], [each.strides[:-2] for each in (c, a, b)])
        demand(len(batch) <= 1 and is_unit(c.strides[-1], c.shape[-1], c))
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        if m == 1 and is_unit(b.strides[-1], n, b):
            kernel = "matmul_rows_f32"
            if n == 1 and k > 1:
                kernel = "matmul_dots_f32"
        elif m == 1:
            kernel = "matmul_dots_f32"
        else:
            kernel = "matmul_f32"
            a, b = (self._for_library(each) for each in (a, b))
            _, strides = merged(c.shape[:-2], [each.strides[:-2] for each in (c, a, b)])
        self._whole(
            kernel, [c, a, b], (*(batch or (1,)), m, n, k),
            [(*(stride or (0,)), *each.strides[-2:]) for stride, each in zip(strides, (c, a, b), strict=True)],
        )  # fmt: skip

    def _for_library(self, x: Array) -> Array:
        rows, columns = x.strides[-2:]
        if (columns == x.itemsize and rows >= columns * x.shape[-1]) or (
            rows == x.itemsize and columns >= rows * x.shape[-2]
        ):
            return x
        dense = self._empty(x.shape, x.dtype)
        self._copy(dense, x)
        return dense


class Group:
    """Elementwise steps that run block by block: each block's numbers stay in the cache from step to step.

    Attributes:
        steps: The steps.
    """

    def __init__(self) -> None:
        self.steps: list[NDArray[Any]] = []
        self._given: list[Sequence[Array]] = []
        self._shapes: list[tuple[tuple[int, ...], Sequence[Sequence[int]]]] = []
        self._size = 0
        self._columns = 0

    def takes(self, given: Sequence[Array], shape: Sequence[int]) -> bool:
        """Whether a step may join: it reads what others write only at the numbers of the same block."""
        columns = shape[1] if len(shape) == 2 else 0
        if self.steps and (np.prod(shape) != self._size or (columns and self._columns and columns != self._columns)):
            return False
        out, *inputs = given
        return all(
            all(apart_or_same(other[0], each) for each in (out, *inputs))
            and all(apart_or_same(out, each) for each in other)
            for other in self._given
        )

    def add(
        self, step: NDArray[Any], given: Sequence[Array], shape: tuple[int, ...], strides: Sequence[Sequence[int]]
    ) -> None:
        """Adds a step."""
        self.steps.append(step)
        self._given.append(given)
        self._shapes.append((shape, strides))
        self._size = int(np.prod(shape))
        self._columns = shape[1] if len(shape) == 2 else self._columns

    def table(self) -> NDArray[Any]:
        """The steps, over rows of as many columns as steps with a row's or a column's operand have."""
        columns = self._columns or 1
        for step, (shape, strides) in zip(self.steps, self._shapes, strict=True):
            step["shape"] = (1, 1, self._size // columns, columns)
            for k, stride in enumerate(strides):
                step["stride"][k, 2:] = stride if len(shape) == 2 else (columns * stride[0], stride[0])
            step["is_flat"] = bool((step["stride"][:, 2] == columns * step["stride"][:, 3]).all())
        self.steps[0]["group"] = len(self.steps)
        return np.stack(self.steps)


def merged(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Merges dimensions that one stride steps through in all operands; leaves out those of length one.

    The dimensions come in the order of the first operand's strides, its largest first.
    """
    dims = [(n, *each) for n, *each in zip(shape, *strides, strict=True) if n != 1]
    dims.sort(key=lambda dim: -abs(dim[1]))
    found: list[tuple[int, ...]] = []
    for dim in dims:
        if found and all(a == b * dim[0] for a, b in zip(found[-1][1:], dim[1:], strict=True)):
            found[-1] = (found[-1][0] * dim[0], *dim[1:])
        else:
            found.append(dim)
    return tuple(dim[0] for dim in found), tuple(tuple(dim[1 + k] for dim in found) for k in range(len(strides)))


def is_unit(stride: int, length: int, array: Array) -> bool:
    """Whether numbers along a dimension are next to each other."""
    return length == 1 or stride == array.itemsize


def apart_or_same(first: Array, second: Array) -> bool:
    """Whether two operands share no memory, or are the same numbers in the same places."""
    first_numbers, second_numbers = (
        (address(each), each.dtype, merged(each.shape, [each.strides])) for each in (first, second)
    )
    return first_numbers == second_numbers or not np.shares_memory(first, second)


def address(array: Array) -> int:
    """Address of an array's first number."""
    found: int = array.__array_interface__["data"][0]
    return found
