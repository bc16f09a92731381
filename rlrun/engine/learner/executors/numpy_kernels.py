"""NumPy implementations of the operations in a traced update, on preallocated arrays.

A kernel is called once, when the update is translated, with its fixed input and output arrays. The kernel emits the
NumPy calls of the computation, each one loop in C with a preallocated output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from rlrun.engine.kernels.steps import (
    Array,
    add_square,
    move_towards,
    place_of,
    require,
    write_argsort,
    write_elu,
    write_elu_gradient,
    write_places,
    write_sigmoid,
    write_sigmoid_gradient,
    write_tanh_gradient,
)


class Emit(Protocol):
    """Interface of the callback that appends a NumPy call, with its arguments, to an update's list of calls."""

    def __call__(self, function: Callable[..., object], *arguments: object, out: Array | None = None) -> None:
        """Appends a function call, which writes to `out` if given."""


Kernel = Callable[..., None]
"""Kernel: a function of an `Emit`, the output array, and the operation's arguments, with arrays in place of tensors."""


def ufunc_kernel(function: np.ufunc) -> Kernel:
    """Creates the kernel of an operation that is a single NumPy ufunc."""

    def kernel(emit: Emit, out: Array, first: Any, second: Any = None) -> None:
        operands = [first] if second is None else [first, second]
        emit(function, *(constant(each, operands, out) for each in operands), out=out)

    return kernel


def constant(operand: Any, operands: Sequence[Any], out: Array) -> Any:
    """Converts an operand to an array; a number gets the dtype of the other operands, or else of the result."""
    if isinstance(operand, np.ndarray):
        return operand
    dtype = next((each.dtype for each in operands if isinstance(each, np.ndarray)), out.dtype)
    return np.asarray(operand, dtype if np.issubdtype(dtype, np.floating) else None)


def reversed_subtract(emit: Emit, out: Array, x: Array, other: float) -> None:
    """Emits NumPy calls for a reversed subtraction, other - x."""
    emit(np.subtract, constant(other, [x], out), x, out)


def relu(emit: Emit, out: Array, x: Array) -> None:
    """Emits NumPy calls for the ReLU, max(x, 0)."""
    zero = np.zeros((), x.dtype)
    zero.flags.writeable = False  # marks it as constant
    emit(np.maximum, x, zero, out=out)


def reciprocal_root(emit: Emit, out: Array, x: Array) -> None:
    """Emits NumPy calls for the reciprocal square root, 1 / sqrt(x)."""
    emit(np.sqrt, x, out)
    emit(np.divide, np.ones((), out.dtype), out, out)


def clamp(emit: Emit, out: Array, x: Array, low: Any = None, high: Any = None) -> None:
    """Emits NumPy calls for a clamp, min(max(x, low), high); either bound may be missing."""
    if low is not None:
        emit(np.maximum, x, constant(low, [x], out), out=out)
        x = out
    if high is not None:
        emit(np.minimum, x, constant(high, [x], out), out=out)


def power(emit: Emit, out: Array, x: Array, exponent: float) -> None:
    """Emits NumPy calls for the power of x with a constant exponent."""
    if exponent == 1:
        emit(np.copyto, out, x)
    elif exponent == 2:
        emit(np.square, x, out)
    else:
        emit(np.power, x, constant(exponent, [x], out), out)


def layer_outputs(emit: Emit, out: Array, bias: Array, inputs: Array, weight: Array) -> None:
    """Emits NumPy calls for a linear layer, inputs @ weight + bias."""
    emit(np.matmul, inputs, weight, out)
    emit(np.add, out, bias, out)


def loop_kernel(function: Callable[..., None]) -> Kernel:
    """Creates the kernel of an operation that is a single function of `steps`, and a single loop in C."""

    def kernel(emit: Emit, out: Array, *operands: Array) -> None:
        emit(function, *operands, out=out)

    return kernel


def threshold_backward(emit: Emit, out: Array, gradient: Array, x: Array, threshold: float) -> None:
    """Emits calls for the gradient of a threshold (ReLU): the given gradient where x is above the threshold, else 0."""
    emit(np.greater, x, constant(threshold, [x], out), out)
    emit(np.multiply, out, gradient, out)


def softplus(emit: Emit, out: Array, x: Array) -> None:
    """Emits NumPy calls for the softplus, log(1 + exp(x)), computed as max(x, 0) + log(1 + exp(-|x|))."""
    positive = np.empty_like(out)
    emit(np.maximum, x, np.zeros((), x.dtype), out=positive)
    emit(np.abs, x, out)
    emit(np.negative, out, out)
    emit(np.exp, out, out)
    emit(np.log1p, out, out)
    emit(np.add, out, positive, out)


def softplus_backward(emit: Emit, out: Array, gradient: Array, x: Array, beta: float, threshold: float) -> None:
    """Emits NumPy calls for the gradient of the softplus, gradient * sigmoid(x), without torch's cutoff at large x."""
    require(beta == 1 and threshold >= 20)
    emit(write_sigmoid, x, out=out)
    emit(np.multiply, out, gradient, out)


def elu(emit: Emit, out: Array, x: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> None:
    """Emits NumPy calls for the ELU (x if positive, else exp(x) - 1), computed as max(x, 0) + exp(min(x, 0)) - 1."""
    require(alpha == scale == input_scale == 1)
    emit(write_elu, x, np.empty_like(out), out=out)


def elu_backward(
    emit: Emit,
    out: Array,
    gradient: Array,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    x: Array,
) -> None:
    """Emits NumPy calls for the gradient of the ELU, gradient * exp(min(x, 0))."""
    require(alpha == scale == input_scale == 1 and not is_result)
    emit(write_elu_gradient, gradient, x, out=out)


def silu(emit: Emit, out: Array, x: Array) -> None:
    """Emits NumPy calls for the SiLU, x * sigmoid(x)."""
    emit(write_sigmoid, x, out=out)
    emit(np.multiply, out, x, out)


def silu_backward(emit: Emit, out: Array, gradient: Array, x: Array) -> None:
    """Emits NumPy calls for the gradient of the SiLU, gradient * s * (1 + x * (1 - s)) with s = sigmoid(x)."""
    one, inner = np.ones((), out.dtype), np.empty_like(out)
    emit(write_sigmoid, x, out=out)
    emit(np.subtract, one, out, inner)
    emit(np.multiply, inner, x, inner)
    emit(np.add, inner, one, inner)
    emit(np.multiply, out, inner, out)
    emit(np.multiply, out, gradient, out)


FEW = 4
"""Maximum length of a dimension that is reduced by one ufunc call per element."""


def combine(emit: Emit, function: np.ufunc, out: Array, x: Array, dim: int) -> None:
    """Emits NumPy calls that reduce an array along one axis with a ufunc; `out` keeps the axis with length 1.

    A short axis, such as the logits of two or three actions, is reduced by one call per element. That is several times
    faster than a loop over short rows.
    """
    numbers = x.shape[dim]
    if not 1 < numbers <= FEW or x.dtype != out.dtype:
        emit(function.reduce, x, dim, None, out, True)
        return
    first, *others = np.split(x, numbers, dim)
    for other in others:
        emit(function, first, other, out=out)
        first = out


def log_softmax(emit: Emit, out: Array, x: Array, dim: int, half_to_float: bool) -> None:
    """Emits NumPy calls for the log-softmax, x - log(sum(exp(x))), along an axis."""
    require(not half_to_float)
    most, powers = np.empty_like(x.max(dim, keepdims=True)), np.empty_like(out)
    combine(emit, np.maximum, most, x, dim)
    emit(np.subtract, x, most, out)
    emit(np.exp, out, powers)
    combine(emit, np.add, most, powers, dim)
    emit(np.log, most, most)
    emit(np.subtract, out, most, out)


def log_softmax_backward(emit: Emit, out: Array, gradient: Array, y: Array, dim: int, dtype: torch.dtype) -> None:
    """Emits NumPy calls for the gradient of the log-softmax, gradient - exp(y) * sum(gradient), from its output y."""
    require(dtype == torch.float32)
    sums = np.empty_like(y.max(dim, keepdims=True))
    combine(emit, np.add, sums, gradient, dim)
    emit(np.exp, y, out)
    emit(np.multiply, out, sums, out)
    emit(np.subtract, gradient, out, out)


def softmax(emit: Emit, out: Array, x: Array, dim: int, half_to_float: bool) -> None:
    """Emits NumPy calls for the softmax, exp(x) / sum(exp(x)), along an axis."""
    require(not half_to_float)
    most = np.empty_like(x.max(dim, keepdims=True))
    combine(emit, np.maximum, most, x, dim)
    emit(np.subtract, x, most, out)
    emit(np.exp, out, out)
    combine(emit, np.add, most, out, dim)
    emit(np.divide, out, most, out)


def softmax_backward(emit: Emit, out: Array, gradient: Array, y: Array, dim: int, dtype: torch.dtype) -> None:
    """Emits NumPy calls for the gradient of the softmax, y * (gradient - sum(gradient * y)), from its output y."""
    require(dtype == torch.float32)
    sums = np.empty_like(y.max(dim, keepdims=True))
    emit(np.multiply, gradient, y, out)
    combine(emit, np.add, sums, out, dim)
    emit(np.subtract, gradient, sums, out)
    emit(np.multiply, out, y, out)


def product(emit: Emit, out: Array, first: Array, second: Array) -> None:
    """Emits calls for a matrix product; the outer product of a column and a row is computed element by element."""
    emit(np.multiply if first.shape[-1] == 1 else np.matmul, first, second, out)


def total(emit: Emit, out: Array, x: Array, dims: Sequence[int] | None = None, keepdim: bool = False) -> None:
    """Emits NumPy calls for the sum over given axes, or over all axes.

    Column sums of a matrix, such as a bias's gradient, are computed as a product with ones, which takes a quarter of
    the time.
    """
    if x.ndim == 2 and x.dtype == np.float32 and x.flags.c_contiguous and dims is not None and list(dims) == [0]:
        emit(np.matmul, np.ones(len(x), x.dtype), x, out.reshape(-1))
    else:
        reduction_kernel(np.add)(emit, out, x, dims, keepdim)


def reduction_kernel(function: np.ufunc) -> Kernel:
    """Creates, from a NumPy ufunc, the kernel of an operation that reduces an array over given axes, or all."""

    def kernel(emit: Emit, out: Array, x: Array, dims: Sequence[int] | None = None, keepdim: bool = False) -> None:
        axes = None if dims is None or not len(dims) else tuple(dims)
        if axes is None and x.flags.c_contiguous:
            x, axes = x.reshape(-1), (0,)
        if axes is not None and len(axes) == 1:
            combine(emit, function, out if keepdim else np.expand_dims(out, axes[0]), x, axes[0])
        else:
            emit(function.reduce, x, axes, None, out, keepdim)

    return kernel


def mean(emit: Emit, out: Array, x: Array, dims: Sequence[int] | None = None, keepdim: bool = False) -> None:
    """Emits NumPy calls for the mean over given axes, or over all axes."""
    reduction_kernel(np.add)(emit, out, x, dims, keepdim)
    emit(np.divide, out, np.asarray(x.size / max(out.size, 1), out.dtype), out)


FEW_STEPS = 64
"""Maximum length of a dimension along which cumulative sums or products use one call per element."""


def cumulative(function: np.ufunc) -> Kernel:
    """Creates, from a binary NumPy ufunc, the kernel of an operation that accumulates along an axis."""

    def kernel(emit: Emit, out: Array, x: Array, dim: int) -> None:
        require(x.shape[dim] <= FEW_STEPS)
        numbers, (before, *others) = (np.split(each, each.shape[dim], dim) for each in (x, out))
        emit(np.copyto, before, numbers[0])
        for number, present in zip(numbers[1:], others, strict=True):
            emit(function, before, number, out=present)
            before = present

    return kernel


def norm(emit: Emit, out: Array, x: Array) -> None:
    """Emits NumPy calls for the Euclidean norm of an array."""
    require(x.ndim == 1)
    emit(np.matmul, x, x, out)
    emit(np.sqrt, out, out)


def argmax(emit: Emit, out: Array, x: Array, dim: int, keepdim: bool = False) -> None:
    """Emits NumPy calls for the argmax along an axis."""
    emit(x.argmax, dim, np.squeeze(out, dim) if keepdim else out)


def flip(emit: Emit, out: Array, x: Array, dims: Sequence[int]) -> None:
    """Emits NumPy calls for a flip: the elements in reversed order along axes."""
    emit(np.copyto, out, np.flip(x, tuple(dims)))


def sort(
    emit: Emit, outs: Sequence[Array], x: Array, dim: int = -1, descending: bool = False, stable: bool | None = True
) -> None:
    """Emits NumPy calls for a sort along an axis: sorted values and their indices; the sort is always stable."""
    values, indices = outs
    require(not descending)
    emit(write_argsort, x, dim, out=indices)
    gather(emit, values, x, dim, indices)


def concatenate(emit: Emit, out: Array, parts: Sequence[Array], dim: int = 0) -> None:
    """Emits NumPy calls for arrays concatenated along an axis."""
    emit(np.concatenate, [part for part in parts if part.shape != (0,)], dim, out)


def stack(emit: Emit, out: Array, parts: Sequence[Array], dim: int = 0) -> None:
    """Emits NumPy calls for arrays stacked along a new axis."""
    axis = dim % out.ndim
    emit(np.concatenate, [np.expand_dims(part, axis) for part in parts], axis, out)


def cast(emit: Emit, out: Array, x: Array, dtype: object = None, memory_format: object = None) -> None:
    """Emits NumPy calls for a type conversion: a copy with the dtype and strides of the output."""
    emit(np.copyto, out, x, "unsafe")


def choice(emit: Emit, out: Array, condition: Array, first: Any, second: Any) -> None:
    """Emits NumPy calls for a selection by condition, where(condition, first, second)."""
    emit(np.copyto, out, second)
    emit(np.copyto, out, first, "same_kind", condition)


def flat_positions(emit: Emit, shape: tuple[int, ...], dim: int, index: Array) -> Array:
    """Emits calls that convert indices along one axis to positions in the flattened array; returns the positions."""
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    axis = dim % len(shape)
    grid = np.indices(index.shape)
    offsets = sum(
        (grid[other] * strides[other] for other in range(len(shape)) if other != axis), np.zeros(index.shape, np.int64)
    )
    positions = np.empty(index.shape, np.int64)
    emit(np.multiply, index, np.asarray(strides[axis]), positions)
    emit(np.add, positions, offsets, positions)
    return positions


def gather(emit: Emit, out: Array, x: Array, dim: int, index: Array) -> None:
    """Emits NumPy calls for a gather of elements by index along an axis."""
    require(out.flags.c_contiguous)
    if not x.flags.c_contiguous:
        x, strided = np.empty(x.shape, x.dtype), x
        emit(np.copyto, x, strided)
    emit(x.reshape(-1).take, flat_positions(emit, x.shape, dim, index), None, out, "clip")


def index_first(emit: Emit, out: Array, x: Array, indices: Sequence[Array | None]) -> None:
    """Emits NumPy calls for the elements of a vector at indices of any shape."""
    (index,) = indices
    require(x.ndim == 1 and x.flags.c_contiguous and index is not None and index.dtype == np.int64)
    emit(x.take, index, None, out, "clip")


def places(emit: Emit, out: Array, bounds: Array, x: Array, right: bool = False) -> None:
    """Emits NumPy calls for the positions of numbers among ascending bounds (torch's searchsorted)."""
    require(bounds.ndim == 1)
    emit(write_places, bounds, x, "right" if right else "left", out=out)


def scatter_add(emit: Emit, out: Array, x: Array, dim: int, index: Array, source: Array) -> None:
    """Emits NumPy calls that copy x and add values to the copy at the given indices along an axis."""
    require(out.flags.c_contiguous and index.shape == source.shape)
    positions = flat_positions(emit, x.shape, dim, index)
    emit(np.copyto, out, x)
    emit(np.add.at, out.reshape(-1), positions, source)


def slice_backward(
    emit: Emit, out: Array, gradient: Array, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> None:
    """Emits NumPy calls for the gradient of slicing: zeros, except for the given gradient in the slice."""
    emit(np.copyto, out, np.zeros((), out.dtype))
    emit(np.copyto, out[(slice(None),) * (dim % out.ndim) + (slice(start, end, step),)], gradient)


def select_backward(emit: Emit, out: Array, gradient: Array, sizes: Sequence[int], dim: int, index: int) -> None:
    """Emits calls for the gradient of selecting one index along an axis: zeros, except for the given gradient there."""
    emit(np.copyto, out, np.zeros((), out.dtype))
    emit(np.copyto, out[(slice(None),) * (dim % out.ndim) + (index,)], gradient)


def fill_where(emit: Emit, out: Array, mask: Array, value: float) -> None:
    """Emits NumPy calls for an in-place masked fill with a number."""
    emit(np.copyto, out, constant(value, [out], out), "same_kind", mask)


def filled(emit: Emit, out: Array, x: Array, mask: Array, value: float) -> None:
    """Emits NumPy calls for a masked fill: a copy of x with a number where the mask is true."""
    emit(np.copyto, out, x)
    fill_where(emit, out, mask, value)


def interpolate(emit: Emit, out: Array, end: Array, weight: float) -> None:
    """Emits NumPy calls for out += weight * (end - out), in place (torch's lerp)."""
    emit(move_towards, out, end, constant(weight, [out], out), np.empty_like(out))


def add_product(emit: Emit, out: Array, first: Array, second: Array, value: float = 1.0) -> None:
    """Emits NumPy calls for out += value * first * second, in place (torch's addcmul)."""
    step = np.empty_like(out)
    if place_of(first) == place_of(second):
        emit(add_square, out, first, constant(value, [out], out), step)
        return
    emit(np.multiply, first, second, step)
    emit(np.multiply, step, constant(value, [out], out), step)
    emit(np.add, out, step, out)


def in_place(function: np.ufunc) -> Kernel:
    """Creates, from a NumPy ufunc, the kernel of a binary operation that overwrites its first operand."""

    def kernel(emit: Emit, out: Array, other: Any) -> None:
        emit(function, out, constant(other, [out], out), out)

    return kernel


_ATEN = torch.ops.aten

UFUNCS: dict[Any, Kernel] = {
    operation: ufunc_kernel(function)
    for function, operations in {
        np.add: (_ATEN.add.Tensor, _ATEN.add.Scalar),
        np.subtract: (_ATEN.sub.Tensor, _ATEN.sub.Scalar),
        np.multiply: (_ATEN.mul.Tensor, _ATEN.mul.Scalar),
        np.divide: (_ATEN.div.Tensor, _ATEN.div.Scalar),
        np.maximum: (_ATEN.maximum.default,),
        np.minimum: (_ATEN.minimum.default,),
        np.exp: (_ATEN.exp.default,),
        np.log: (_ATEN.log.default,),
        np.log1p: (_ATEN.log1p.default,),
        np.tanh: (_ATEN.tanh.default,),
        np.sqrt: (_ATEN.sqrt.default,),
        np.floor: (_ATEN.floor.default,),
        np.reciprocal: (_ATEN.reciprocal.default,),
        np.negative: (_ATEN.neg.default,),
        np.abs: (_ATEN.abs.default,),
        np.sign: (_ATEN.sgn.default, _ATEN.sign.default),
        np.equal: (_ATEN.eq.Tensor, _ATEN.eq.Scalar),
        np.not_equal: (_ATEN.ne.Tensor, _ATEN.ne.Scalar, torch.ops.prims.ne.default),
        np.greater: (_ATEN.gt.Tensor, _ATEN.gt.Scalar),
        np.greater_equal: (_ATEN.ge.Tensor, _ATEN.ge.Scalar),
        np.less: (_ATEN.lt.Tensor, _ATEN.lt.Scalar),
        np.less_equal: (_ATEN.le.Tensor, _ATEN.le.Scalar),
        np.logical_and: (_ATEN.logical_and.default,),
        np.logical_or: (_ATEN.logical_or.default,),
        np.logical_not: (_ATEN.logical_not.default,),
        np.bitwise_and: (_ATEN.bitwise_and.Tensor,),
        np.bitwise_or: (_ATEN.bitwise_or.Tensor, _ATEN.__or__.Tensor),
        np.invert: (_ATEN.bitwise_not.default,),
        np.power: (_ATEN.pow.Scalar,),
    }.items()
    for operation in operations
}
"""Kernels of operations that are a single NumPy ufunc."""

IN_ITS_PLACE: dict[Any, Kernel] = {
    **UFUNCS,
    _ATEN.rsub.Scalar: reversed_subtract,
    _ATEN.relu.default: relu,
}
"""Kernels of elementwise operations whose result may overwrite an operand."""

KERNELS: dict[Any, Kernel] = {
    **IN_ITS_PLACE,
    _ATEN.rsqrt.default: reciprocal_root,
    _ATEN.clamp.default: clamp,
    _ATEN.clamp.Tensor: clamp,
    _ATEN.pow.Tensor_Scalar: power,
    _ATEN.mm.default: product,
    _ATEN.bmm.default: product,
    _ATEN.addmm.default: layer_outputs,
    _ATEN.tanh_backward.default: loop_kernel(write_tanh_gradient),
    _ATEN.sigmoid.default: loop_kernel(write_sigmoid),
    _ATEN.sigmoid_backward.default: loop_kernel(write_sigmoid_gradient),
    _ATEN.threshold_backward.default: threshold_backward,
    _ATEN.softplus.default: softplus,
    _ATEN.softplus_backward.default: softplus_backward,
    _ATEN.elu.default: elu,
    _ATEN.elu_backward.default: elu_backward,
    _ATEN.silu.default: silu,
    _ATEN.silu_backward.default: silu_backward,
    _ATEN._log_softmax.default: log_softmax,
    _ATEN._log_softmax_backward_data.default: log_softmax_backward,
    _ATEN._softmax.default: softmax,
    _ATEN._softmax_backward_data.default: softmax_backward,
    _ATEN.sum.default: total,
    _ATEN.sum.dim_IntList: total,
    _ATEN.amin.default: reduction_kernel(np.minimum),
    _ATEN.amax.default: reduction_kernel(np.maximum),
    _ATEN.any.default: reduction_kernel(np.logical_or),
    _ATEN.mean.default: mean,
    _ATEN.mean.dim: mean,
    _ATEN.cumsum.default: cumulative(np.add),
    _ATEN.cumprod.default: cumulative(np.multiply),
    _ATEN.searchsorted.Tensor: places,
    _ATEN.index.Tensor: index_first,
    _ATEN.linalg_vector_norm.default: norm,
    _ATEN.argmax.default: argmax,
    _ATEN.cat.default: concatenate,
    _ATEN.stack.default: stack,
    _ATEN.flip.default: flip,
    _ATEN._to_copy.default: cast,
    _ATEN.clone.default: cast,
    _ATEN.where.self: choice,
    torch.ops.prims.where.default: choice,
    _ATEN.masked_fill.Scalar: filled,
    _ATEN.gather.default: gather,
    _ATEN.scatter_add.default: scatter_add,
    _ATEN.slice_backward.default: slice_backward,
    _ATEN.select_backward.default: select_backward,
}
"""Kernels of operations that write a new tensor."""

KERNELS_OF_SEVERAL: dict[Any, Kernel] = {_ATEN.sort.default: sort, _ATEN.sort.stable: sort}
"""Kernels of operations that write several new tensors."""

KERNELS_IN_PLACE: dict[Any, Kernel] = {
    _ATEN.add_.Tensor: in_place(np.add),
    _ATEN.sub_.Tensor: in_place(np.subtract),
    _ATEN.mul_.Tensor: in_place(np.multiply),
    _ATEN.logical_and_.default: in_place(np.logical_and),
    _ATEN.copy_.default: cast,
    _ATEN.masked_fill_.Scalar: fill_where,
    _ATEN.lerp_.Scalar: interpolate,
    _ATEN.addcmul_.default: add_product,
}
"""Kernels of operations that modify their first argument in place."""

CONSTANTS = frozenset(
    {
        _ATEN.ones_like.default,
        _ATEN.zeros_like.default,
        _ATEN.full_like.default,
        _ATEN.new_zeros.default,
        _ATEN.new_ones.default,
        _ATEN.zeros.default,
        _ATEN.ones.default,
        _ATEN.full.default,
        _ATEN.arange.default,
        _ATEN.arange.start,
        _ATEN.arange.start_step,
        _ATEN.scalar_tensor.default,
    }
)
"""Operations whose result does not depend on tensor values."""
