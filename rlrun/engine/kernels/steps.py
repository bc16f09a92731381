"""Translation of recorded NumPy calls to a table of operations, which the C code in `kernels.c` runs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

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
"""Dtype of the struct `Step` in `kernels.c`."""

COLUMN = np.dtype([("from", "u8"), ("to", "u8"), ("bytes", "i8"), ("kind", "i8")])
"""Dtype of the struct `Column` in `kernels.c`."""

BLOCK = 2048
"""Number of elements that a group of steps processes at a time, as in `kernels.c`."""

FEW = 16
"""Maximum number of columns for which the loop over rows is the inner loop."""

LARGEST_OWN_PRODUCT = 2**26
"""Maximum number of multiplications m n k of a matrix product [m, k] @ [k, n] that `kernels.c` computes itself.

Larger products are computed by NumPy's BLAS, whose rounding depends on the processor.
"""

LETTERS = {
    "float32": "f32",
    "float64": "f64",
    "bool": "b8",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
    "uint8": "u8",
}


class StepTable:
    """Table of operations for the C code in `kernels.c`, built from NumPy calls, with all temporary arrays.

    Args:
        library: The compiled kernels.
        calls: The recorded NumPy calls, in order.

    Attributes:
        arguments: Address and length of the table, as arguments of the functions in `kernels.c`.
        uses_blas: Whether NumPy's BLAS computes a product, so that results depend on the processor.

    Raises:
        NoKernel: A call has no kernel.
    """

    def __init__(self, library: ctypes.CDLL, calls: Iterable[partial[Any]]) -> None:
        self.uses_blas = False
        self._kept: list[Array] = []
        self._library = library
        self._steps: list[NDArray[Any]] = []
        self._group = ElementwiseGroup()
        self._pending: tuple[str, Sequence[Array]] | None = None
        for call in calls:
            self._add(call)
        self._close_group()
        self._table = np.concatenate(self._steps)
        self.arguments = pointer(self._table), ctypes.c_int64(len(self._table))

    def _add(self, call: partial[Any]) -> None:
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
        elif function is write_places:
            bounds, x, side = arguments
            self._places(bounds, x, side, np.asarray(out))
        elif function is write_quantile_pairs:
            estimates, targets = arguments
            self._quantile_pairs(estimates, targets, np.asarray(out))
        elif function is np.matmul:
            self._product(*(*arguments, out)[:3])
        elif isinstance(function, np.ufunc):
            inputs = [np.asarray(each) for each in arguments[: function.nin]]
            self._ufunc(function, inputs, arguments[function.nin] if out is None else out)
        elif function is np.copyto:
            self._copy(*arguments)
        elif function is np.concatenate:
            self._concatenate(*(*arguments, out)[:3])
        elif function in (move_towards, add_square):
            self._change(name, *arguments)
        elif function is write_elu:
            x, _ = arguments
            self._loop(f"elu_{letters(x.dtype)}", np.asarray(out), x)
        elif function in (write_elu_gradient, write_sigmoid, write_sigmoid_gradient, write_tanh_gradient):
            kernel = name.removeprefix("write_")
            self._loop(f"{kernel}_{letters(arguments[0].dtype)}", np.asarray(out), *arguments)
        else:
            raise NoKernel(name)

    # --- Elementwise steps

    def _ufunc(self, function: np.ufunc, inputs: Sequence[Array], out: Array) -> None:
        *wanted, found = function.resolve_dtypes((*(each.dtype for each in inputs), None))
        operands = [self._cast(each, dtype) for each, dtype in zip(inputs, wanted, strict=True)]
        result = out if out.dtype == found else self._empty(out.shape, found)
        self._loop(f"{function.__name__}_{letters(wanted[0])}_{letters(found)}", result, *operands)
        if result is not out:
            self._copy(out, result)

    def _copy(self, out: Array, x: Any, casting: str = "", where: Array | None = None) -> None:
        x = np.asarray(x)
        if where is None:
            self._loop(f"copy_{letters(x.dtype)}_{letters(out.dtype)}", out, x)
        else:
            self._loop(f"where_{letters(out.dtype)}", out, self._cast(x, out.dtype), where)

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
        self._kept.append(np.empty(shape, dtype))
        return self._kept[-1]

    def _change(self, kernel: str, out: Array, first: Array, number: Array, step: Array) -> None:
        self._loop(f"{kernel}_{letters(out.dtype)}", out, first, number)

    def _loop(self, kernel: str, out: Array, first: Array, second: Array | None = None) -> None:
        """Adds a loop, which is held back until the next one, since a single kernel may do the work of both."""
        given = [out, first, first if second is None else second]
        self._kept += given[1:]
        pair = None if self._pending is None else paired(self._pending, kernel, given)
        if pair is None:
            self._flush()
        self._pending = pair or (kernel, given)

    def _flush(self) -> None:
        if self._pending is None:
            return
        (kernel, given), self._pending = self._pending, None
        out = given[0]
        given = [np.broadcast_to(each, out.shape) if each is not out else each for each in given]
        shape, strides = merged(out.shape, [each.strides for each in given])
        operands = [Operand(each, shape, stride) for each, stride in zip(given, strides, strict=True)]
        require(out.size > 0 and all(operands[0].is_apart_or_same(each) for each in operands[1:]))
        if len(shape) == 2 and shape[1] <= FEW < shape[0] and any(s[0] != shape[1] * s[1] for s in strides):
            shape, strides = shape[::-1], tuple(stride[::-1] for stride in strides)
            self._one(kernel, given, shape, strides)
        elif len(shape) > 2 or out.size <= BLOCK:
            self._one(kernel, given, shape, strides)
        else:
            step = self._step(kernel, given)
            if not self._group.takes(operands, shape):
                self._close_group()
            self._group.add(step, operands, shape, strides)

    def _one(self, kernel: str, given: Sequence[Array], shape: Sequence[int], strides: Sequence[Sequence[int]]) -> None:
        """Adds a step as a separate group."""
        self._close_group()
        require(len(shape) <= 4)
        step = self._step(kernel, given)
        missing = 4 - len(shape)
        step["group"] = 1
        step["shape"] = (*[1] * missing, *shape)
        step["stride"] = [(*[0] * missing, *stride) for stride in strides]
        if len(shape) < 2:  # a single row of any length
            step["is_flat"] = 1
            step["stride"][:, 2] = step["stride"][:, 3]
            step["shape"] = (1, 1, shape[0] if shape else 1, 1)
        self._steps.append(step.reshape(1))

    def _close_group(self) -> None:
        self._flush()
        if self._group.steps:
            self._steps.append(self._group.table())
            self._group = ElementwiseGroup()

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
        self._kept += given
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
        require(len(shape) <= 2 and x.size > 0)
        missing = 2 - len(shape)
        n, by = (numbers or (1,))[0], (over[0] or (0,))[0]
        self._whole(
            f"{name}_reduce_{letters(out.dtype)}",
            [bare, x],
            (*[1] * missing, *shape, n),
            [(*[0] * missing, *to), (*[0] * missing, *along, by)],
        )

    def _argmax(self, x: Array, axis: int, out: Array) -> None:
        x = np.moveaxis(x, axis, -1)
        shape, (to, along) = merged(out.shape, [out.strides, x.strides[:-1]])
        require(len(shape) <= 1 and out.dtype == np.int64 and x.size > 0)
        self._whole(
            f"argmax_{letters(x.dtype)}", [out, x], (*(shape or (1,)), x.shape[-1]),
            [to or (0,), (*(along or (0,)), x.strides[-1])],
        )  # fmt: skip

    def _argsort(self, x: Array, axis: int, out: Array) -> None:
        n = x.shape[-1]
        require(axis in (-1, x.ndim - 1) and x.flags.c_contiguous and out.flags.c_contiguous and n > 0)
        merged_places = self._empty((n,), np.int64)
        self._whole(f"argsort_{letters(x.dtype)}", [out, x, merged_places], (x.size // n, n), [])

    def _places(self, bounds: Array, x: Array, side: str, out: Array) -> None:
        require(all(each.flags.c_contiguous for each in (bounds, x, out)) and bounds.dtype == x.dtype)
        self._whole(f"searchsorted_{letters(x.dtype)}", [out, bounds, x], (x.size, bounds.size, side == "right"), [])

    def _quantile_pairs(self, estimates: Array, targets: Array, out: Array) -> None:
        require(all(each.flags.c_contiguous and each.dtype == np.float32 for each in (estimates, targets, out)))
        (rows, num_targets), num_quantiles = targets.shape, estimates.shape[-1]
        self._whole("quantile_pairs_f32", [out, estimates, targets], (rows, num_quantiles, num_targets), [])

    def _take(self, x: Array, positions: Array, out: Array) -> None:
        require(all(each.flags.c_contiguous for each in (x, positions, out)) and positions.dtype == np.int64)
        self._whole(f"take_{letters(x.dtype)}", [out, x, positions], (out.size, x.size), [])

    def _add_at(self, out: Array, positions: Array, source: Array) -> None:
        dense = source
        if not source.flags.c_contiguous:
            dense = self._empty(source.shape, source.dtype)
            self._copy(dense, source)
        require(out.flags.c_contiguous and positions.flags.c_contiguous)
        self._whole(f"add_at_{letters(out.dtype)}", [out, positions, dense], (source.size, out.size), [])

    def _product(self, first: Array, second: Array, out: Array) -> None:
        require(first.dtype == second.dtype == out.dtype == np.float32 and out.size > 0 and first.size > 0)
        a = first[None] if first.ndim == 1 else first
        b = second[:, None] if second.ndim == 1 else second
        c = out.reshape(*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        require(np.shares_memory(c, out))
        a, b = (np.broadcast_to(each, (*c.shape[:-2], *each.shape[-2:])) for each in (a, b))
        if c.strides[-1] != c.itemsize and c.shape[-1] > 1:
            a, b, c = (np.swapaxes(each, -1, -2) for each in (b, a, c))
        if c.shape[-1] == 1 < c.shape[-2] and is_unit(c.strides[-2], c.shape[-2], c):
            a, b, c = (np.swapaxes(each, -1, -2) for each in (b, a, c))
        batch, strides = merged(c.shape[:-2], [each.strides[:-2] for each in (c, a, b)])
        require(len(batch) <= 1 and is_unit(c.strides[-1], c.shape[-1], c))
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        if m == 1 and is_unit(b.strides[-1], n, b):
            kernel = "matmul_rows_f32"
            if n == 1 and k > 1:
                kernel = "matmul_dots_f32"
        elif m == 1:
            kernel = "matmul_dots_f32"
        else:
            is_own = m * n * k <= LARGEST_OWN_PRODUCT and self._library.has_fused_products()
            kernel = "matmul_f32" if is_own else "matmul_blas_f32"
            if not is_own:
                self.uses_blas = True
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


PAIRS = {
    ("add_f32_f32", "tanh_f32_f32"): "add_tanh_f32",
    ("add_f32_f32", "maximum_f32_f32"): "add_relu_f32",
    ("sqrt_f32_f32", "multiply_f32_f32"): "sqrt_multiply_f32",
}
"""Kernels that replace two loops, the second of which works in place on the first one's result."""


def paired(
    before: tuple[str, Sequence[Array]], kernel: str, given: Sequence[Array]
) -> tuple[str, Sequence[Array]] | None:
    """Returns one operation that does the work of two successive elementwise ones; None if no kernel does both."""
    name, (out, first, second) = before
    pair = PAIRS.get((name, kernel))
    is_number = given[2].size == 1
    if pair is None or place_of(given[0]) != place_of(out) or place_of(given[1]) != place_of(out):
        return None
    if kernel == "multiply_f32_f32":
        return (pair, [out, first, given[2]]) if is_number else None
    if kernel == "maximum_f32_f32" and (given[2].flags.writeable or not is_number or given[2].item() != 0):
        return None
    return pair, [out, first, second]


class Operand:
    """Array that an elementwise loop reads or writes, with its stride in each dimension of the loop.

    Args:
        array: The operand.
        shape: Shape of the loop.
        strides: The operand's strides in the loop.
    """

    def __init__(self, array: Array, shape: Sequence[int], strides: Sequence[int]) -> None:
        self._array = array
        dims: list[tuple[int, int]] = []
        for n, stride in zip(shape, strides, strict=True):
            follows = bool(dims) and dims[-1][1] == n * stride
            dims.append((dims.pop()[0] * n, stride) if follows else (n, stride))
        self._numbers = address(array), array.dtype, dims

    def is_apart_or_same(self, other: Operand) -> bool:
        """Whether two operands share no memory or are identical, so that a loop may overwrite either of them."""
        return self._numbers == other._numbers or not np.shares_memory(self._array, other._array)


class ElementwiseGroup:
    """Group of elementwise operations that run block by block, so that a block stays in the processor's cache.

    Attributes:
        steps: Operations of the group, in order.
    """

    def __init__(self) -> None:
        self.steps: list[NDArray[Any]] = []
        self._operands: list[Sequence[Operand]] = []
        self._shapes: list[tuple[tuple[int, ...], Sequence[Sequence[int]]]] = []
        self._size = 0
        self._columns = 0

    def takes(self, operands: Sequence[Operand], shape: Sequence[int]) -> bool:
        """Whether an operation may join the group.

        It may read results of the group only within the same block of elements.
        """
        columns = shape[1] if len(shape) == 2 else 0
        if self.steps and (np.prod(shape) != self._size or (columns and self._columns and columns != self._columns)):
            return False
        out = operands[0]
        return all(
            all(other[0].is_apart_or_same(each) for each in operands)
            and all(out.is_apart_or_same(each) for each in other)
            for other in self._operands
        )

    def add(
        self, step: NDArray[Any], operands: Sequence[Operand], shape: tuple[int, ...], strides: Sequence[Sequence[int]]
    ) -> None:
        """Adds an elementwise operation to the group."""
        self.steps.append(step)
        self._operands.append(operands)
        self._shapes.append((shape, strides))
        self._size = int(np.prod(shape))
        self._columns = shape[1] if len(shape) == 2 else self._columns

    def table(self) -> NDArray[Any]:
        """Returns the group's operations as a table for `kernels.c`, all as loops over rows of the same length."""
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
    """Returns shape and strides of a loop after merging dimensions that all operands can traverse with one stride.

    Dimensions of length 1 are dropped. The others are ordered by the first operand's strides, largest first.
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


def move_towards(x: Array, end: Array, weight: Array, step: Array) -> None:
    """Moves x towards `end` in place by weight * (end - x), elementwise.

    `step` is a buffer for intermediate results.
    """
    np.subtract(end, x, step)
    np.multiply(step, weight, step)
    np.add(x, step, x)


def add_square(x: Array, root: Array, factor: Array, step: Array) -> None:
    """Adds factor * root^2 to x in place, elementwise; `step` is a buffer for intermediate results."""
    np.multiply(root, root, step)
    np.multiply(step, factor, step)
    np.add(x, step, x)


def write_elu(x: Array, positive: Array, out: Array) -> None:
    """Writes max(x, 0) + exp(min(x, 0)) - 1 to `out`, elementwise; `positive` is a buffer for intermediate results."""
    np.maximum(x, 0, out=positive)
    np.minimum(x, 0, out=out)
    np.expm1(out, out)
    np.add(out, positive, out)


def write_elu_gradient(gradient: Array, x: Array, out: Array) -> None:
    """Writes gradient * exp(min(x, 0)) to `out`, elementwise; `out` must not share memory with the gradient."""
    np.minimum(x, 0, out=out)
    np.exp(out, out)
    np.multiply(out, gradient, out)


def write_sigmoid(x: Array, out: Array) -> None:
    """Writes 1 / (1 + exp(-x)) to `out`, elementwise; the result is 0 where the exponential overflows."""
    np.negative(x, out)
    np.exp(out, out)
    np.add(out, 1, out)
    np.divide(1, out, out)


def write_sigmoid_gradient(gradient: Array, y: Array, out: Array) -> None:
    """Writes gradient * (1 - y) * y to `out`, elementwise, for y = sigmoid(x); `out` must not overlap either array."""
    np.subtract(1, y, out)
    np.multiply(out, y, out)
    np.multiply(out, gradient, out)


def write_tanh_gradient(gradient: Array, y: Array, out: Array) -> None:
    """Writes gradient * (1 - y^2) to `out`, elementwise, for y = tanh(x); `out` must not overlap the gradient."""
    np.multiply(y, y, out)
    np.subtract(1, out, out)
    np.multiply(out, gradient, out)


def write_argsort(x: Array, axis: int, out: Array) -> None:
    """Writes to `out` the indices that would sort an array along an axis (stable sort)."""
    out[...] = x.argsort(axis, kind="stable")


def write_places(bounds: Array, x: Array, side: Literal["left", "right"], out: Array) -> None:
    """Writes to `out` the positions [...] at which inserting numbers x [...] keeps the ascending bounds [M] sorted.

    Args:
        bounds: The bounds.
        x: The numbers.
        side: Whether a number's position is before equal bounds ("left") or after them ("right").
        out: Array of the positions.
    """
    out[...] = bounds.searchsorted(x, side)


def write_quantile_pairs(estimates: Array, targets: Array, out: Array) -> None:
    """Writes to `out` the quantile Huber losses of all pairs of estimates and targets, and their slopes.

    `quantile_pairs_in_torch` has the definition of both.

    Args:
        estimates: Estimated quantiles and their fractions, [2, R, N].
        targets: Samples of the target distributions, [R, M].
        out: Array of losses and slopes, [2, R, N].
    """
    for n, (quantiles, fractions) in enumerate(zip(*np.moveaxis(estimates, -1, 1), strict=True)):
        errors = targets - quantiles[:, None]
        within = errors.clip(-1, 1)
        shares = within * np.abs(fractions[:, None] - (errors < 0))
        np.mean(shares * (errors - np.float32(0.5) * within), -1, out=out[0, :, n])
        np.negative(shares.mean(-1), out=out[1, :, n])


def letters(dtype: np.dtype[Any]) -> str:
    """Returns the abbreviation of a dtype in the names of C kernels.

    Raises:
        NoKernel: No kernel has the dtype.
    """
    require(dtype.name in LETTERS)
    return LETTERS[dtype.name]


def is_unit(stride: int, length: int, array: Array) -> bool:
    """Whether the array's elements along a dimension are adjacent in memory."""
    return length == 1 or stride == array.itemsize


def place_of(array: Array) -> tuple[object, ...]:
    """Returns address, dtype, and (size, stride) of each dimension longer than 1.

    The result is equal for arrays that are views of the same memory.
    """
    dims = [dim for dim in zip(array.shape, array.strides, strict=True) if dim[0] != 1]
    return address(array), array.dtype, dims


def pointer(array: Array) -> ctypes.c_void_p:
    """Returns a ctypes pointer to an array's memory."""
    return ctypes.c_void_p(address(array))


def address(array: Array) -> int:
    """Returns the memory address of an array's first element."""
    found: int = array.__array_interface__["data"][0]
    return found


def require(is_supported: bool) -> None:
    """Refuses the requested variant of an operation unless a kernel supports it, as `is_supported` states.

    Raises:
        NoKernel: The variant is not supported.
    """
    if not is_supported:
        raise NoKernel("this form of the operation")


class NoKernel(Exception):
    """Error for an operation, named in the message, for which there is no kernel."""


class ReadByPython(NoKernel):
    """Error for a loss that turns a tensor into a Python number, which no kernel can do; the message says where."""
