"""Conversion of torch functions to ONNX graphs: torch's basic operations (ATen) run on arrays that record them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from rlrun.deploy.export.graph import Graph, Untraceable
from rlrun.deploy.export.traced import Traced, apply, broadcast, reshaped
from rlrun.engine.data.tree import leaves, map_tree

ATEN = torch.ops.aten


def recorded(graph: Graph, function: Callable[..., Any], *inputs: Any) -> Any:
    """Records a torch function as ONNX operators; its control flow must not depend on the values of its inputs.

    Args:
        graph: The graph.
        function: Function that takes trees of tensors and returns a tuple of tensors.
        inputs: Trees of traced arrays.

    Returns:
        The function's results as traced arrays.

    Raises:
        Untraceable: The function branches on values of its inputs, or uses an operation without a counterpart in ONNX.
    """
    flat = leaves(inputs)

    def on_leaves(*tensors: Tensor) -> Any:
        given = iter(tensors)
        return function(*map_tree(lambda _: next(given), inputs))

    tensors = [torch.from_numpy(np.array(each.array)) for each in flat]
    with torch.no_grad(), _Recording(graph, tensors, flat) as recording:
        results = on_leaves(*tensors)
    return [recording.traced(each) for each in results]


class _Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records torch's basic operations as they are executed; operations on constants alone do not enter the graph.

    Args:
        graph: The graph.
        tensors: The inputs.
        arrays: The traced arrays for the inputs.
    """

    def __init__(self, graph: Graph, tensors: Sequence[Tensor], arrays: Sequence[Traced]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = graph
        # Keeps the tensors alive, so that no other tensor gets the same id.
        self._found = {id(tensor): (tensor, array) for tensor, array in zip(tensors, arrays, strict=True)}

    def traced(self, tensor: Tensor) -> Traced:
        """The traced array of a result."""
        if id(tensor) in self._found:
            return self._found[id(tensor)][1]
        return TracedCall(self._graph, tensor.numpy().dtype).traced(tensor.numpy())

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        settings = kwargs or {}
        results = func(*args, **settings)
        if not any(id(each) in self._found for each in _flat((*args, *settings.values()))):
            return results
        if func.overloadpacket not in OPERATIONS:
            raise Untraceable(f"torch's operation {func}")
        dtype = results.numpy().dtype if isinstance(results, Tensor) else None
        call = TracedCall(self._graph, dtype)
        found = OPERATIONS[func.overloadpacket](call, *self._arrays(args), **self._arrays(settings))
        for tensor, array in zip(_flat(results), _flat(found), strict=True):
            if isinstance(tensor, Tensor) and array is not None:
                self._found[id(tensor)] = tensor, array
        return results

    def _arrays(self, arguments: Any) -> Any:
        """Arguments with traced arrays in place of tensors."""
        if isinstance(arguments, dict):
            return {name: self._arrays(each) for name, each in arguments.items()}
        if isinstance(arguments, list | tuple):
            return type(arguments)(self._arrays(each) for each in arguments)
        if not isinstance(arguments, Tensor):
            return arguments
        return self._found[id(arguments)][1] if id(arguments) in self._found else arguments.detach().numpy()


class TracedCall:
    """Translation of a call of a torch operation into ONNX operators, which are added to a graph.

    Args:
        graph: The graph.
        dtype: Dtype of the result; None if the operation has several results.
    """

    def __init__(self, graph: Graph, dtype: Any) -> None:
        self.graph = graph
        self.dtype = dtype

    def own(self, value: Any) -> Any:
        """Converts a value (a traced array or a number) to the dtype of the operation's result."""
        return value.astype(self.dtype) if isinstance(value, Traced | np.ndarray) else self.dtype.type(value)

    def arithmetic(self, ufunc: np.ufunc, *values: Any) -> Any:
        """Applies a ufunc to values, in the dtype of the operation's result."""
        return apply(self.graph, ufunc, [self.own(value) for value in values])

    def traced(self, value: Any) -> Traced:
        """Converts a value to a traced array, whose operations are recorded in the graph."""
        if isinstance(value, Traced):
            return value
        array = np.asarray(value)
        return broadcast(self.graph, array, array.shape, array.dtype)


def _flat(arguments: Any) -> list[Any]:
    if isinstance(arguments, list | tuple):
        return [each for argument in arguments for each in _flat(argument)]
    return [arguments]


def _arithmetic(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda call, *values: call.arithmetic(ufunc, *values)


def _scaled(ufunc: np.ufunc) -> Callable[..., Any]:
    """Addition or subtraction, whose second operand may have a factor."""

    def scaled(call: TracedCall, x: Any, y: Any, alpha: float = 1) -> Any:
        return call.arithmetic(ufunc, x, y if alpha == 1 else call.own(y) * alpha)

    return scaled


def _comparison(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda call, x, y: ufunc(x, y)


def _addmm(call: TracedCall, bias: Any, x: Any, y: Any) -> Any:
    return x @ y + bias


def _reshape(call: TracedCall, x: Traced, sizes: Sequence[int]) -> Traced:
    return reshaped(x, x.array.reshape(tuple(sizes)).shape)


def _expand(call: TracedCall, x: Traced, sizes: Sequence[int]) -> Traced:
    lead = len(sizes) - x.ndim
    whole = tuple(x.shape[i - lead] if size == -1 else size for i, size in enumerate(sizes))
    return broadcast(call.graph, x, whole, x.dtype)


def _permute(call: TracedCall, x: Traced, order: Sequence[int]) -> Traced:
    return x.transpose(*order)


def _swapped(call: TracedCall, x: Traced, first: int = 0, second: int = 1) -> Traced:
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return x.transpose(*order)


def _slice(
    call: TracedCall, x: Traced, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _select(call: TracedCall, x: Traced, dim: int, index: int) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


def _unbind(call: TracedCall, x: Traced, dim: int = 0) -> list[Traced]:
    return [_select(call, x, dim, i) for i in range(x.shape[dim])]


def _split(call: TracedCall, x: Traced, sizes: int | Sequence[int], dim: int = 0) -> Any:
    places = range(sizes, x.shape[dim], sizes) if isinstance(sizes, int) else np.cumsum(sizes)[:-1]
    return np.split(x, list(places), dim)


def _unsqueeze(call: TracedCall, x: Traced, dim: int) -> Any:
    return np.expand_dims(x, dim)


def _squeeze(call: TracedCall, x: Traced, dim: Any) -> Traced:
    dims = [axis % x.ndim for axis in _flat(dim)]
    return reshaped(x, tuple(size for axis, size in enumerate(x.shape) if axis not in dims or size != 1))


def _cat(call: TracedCall, parts: Sequence[Any], dim: int = 0) -> Any:
    return np.concatenate([call.own(part) for part in parts], dim)


def _stack(call: TracedCall, parts: Sequence[Any], dim: int = 0) -> Any:
    return np.stack([call.traced(part) for part in parts], dim)


def _sum(call: TracedCall, x: Traced, dims: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _over(call.own(x), dims, keepdim, lambda part, axis: part.sum(axis, keepdims=True))


def _mean(call: TracedCall, x: Traced, dims: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _over(call.own(x), dims, keepdim, lambda part, axis: part.mean(axis, keepdims=True))


def _amax(call: TracedCall, x: Traced, dims: Any = (), keepdim: bool = False) -> Any:
    return _over(x, dims, keepdim, lambda part, axis: part.max(axis, keepdims=True))


def _over(x: Traced, dims: Any, keepdim: bool, reduced: Callable[[Traced, int], Traced]) -> Traced:
    axes = [axis % x.ndim for axis in _flat(dims)]
    for axis in axes:
        x = reduced(x, axis)
    return x if keepdim else reshaped(x, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))


def _clamp(call: TracedCall, x: Any, low: Any = None, high: Any = None) -> Any:
    return call.own(x).clip(None if low is None else call.own(low), None if high is None else call.own(high))


def _sigmoid(call: TracedCall, x: Any) -> Any:
    return call.traced(x).made("Sigmoid", [x.name], torch.sigmoid(torch.from_numpy(x.array)).numpy())


def _gelu(call: TracedCall, x: Traced, approximate: str = "none") -> Any:
    if approximate != "none":
        raise Untraceable(f"the GELU approximation {approximate}")
    scaled = x * np.float32(math.sqrt(0.5))
    erf = scaled.made("Erf", [scaled.name], torch.erf(torch.from_numpy(scaled.array)).numpy())
    return x * np.float32(0.5) * (erf + np.float32(1))


def _elu(call: TracedCall, x: Traced, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return np.where(x > 0, x * scale, alpha * scale * np.expm1(np.minimum(x * input_scale, 0)))


def _layer_norm(call: TracedCall, x: Traced, sizes: Sequence[int], weight: Any, bias: Any, epsilon: float) -> Any:
    if len(sizes) != 1:
        raise Untraceable("layer normalization over several dimensions")
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered * centered).mean(-1, keepdims=True)
    normalized: Any = centered / np.sqrt(variance + np.float32(epsilon))
    return [(normalized if weight is None else normalized * weight) + (0 if bias is None else bias), None, None]


def _softmax(call: TracedCall, x: Traced, dim: int, half_to_float: bool = False) -> Any:
    result = torch.softmax(torch.from_numpy(x.array), dim).numpy()
    return x.made("Softmax", [x.name], result, axis=dim % x.ndim)


def _attention(
    call: TracedCall, q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, **settings: Any
) -> Any:
    if settings.get("attn_mask") is not None or settings.get("scale") is not None:
        raise Untraceable("attention with a mask or a custom scale")
    scores = q @ _swapped(call, k, -2, -1) / np.float32(math.sqrt(q.shape[-1]))
    if causal:
        hidden = np.triu(np.full(scores.shape[-2:], -np.inf, np.float32), 1)
        scores = scores + hidden
    return [_softmax(call, scores, -1) @ v, None]


def _convolution(
    call: TracedCall,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *rest: Any,
) -> Any:
    *_, groups = rest
    if transposed or x.ndim != 4:
        raise Untraceable("a transposed convolution, or one that is not two-dimensional")
    given = [each for each in (weight, bias) if each is not None]
    image, kernels = torch.from_numpy(x.array), torch.from_numpy(np.array(weight))
    shifts = None if bias is None else torch.from_numpy(np.array(bias))
    result = torch.conv2d(image, kernels, shifts, stride, padding, dilation, groups).numpy()
    names = [x.name, *(call.traced(each).name for each in given)]
    settings = {"strides": list(stride), "pads": [*padding, *padding], "dilations": list(dilation), "group": groups}
    return x.made("Conv", names, result, **settings)


def _max_pool(call: TracedCall, x: Traced, kernel: Any, stride: Any = (), padding: Any = (0, 0), *rest: Any) -> Any:
    if rest and (list(rest[0]) != [1, 1] or any(rest[1:])):
        raise Untraceable("pooling with dilation or ceil_mode")
    steps = list(stride) or list(kernel)
    result = torch.max_pool2d(torch.from_numpy(x.array), kernel, steps, padding).numpy()
    pads = [*padding, *padding]
    return [x.made("MaxPool", [x.name], result, kernel_shape=list(kernel), strides=steps, pads=pads), None]


def _gather(call: TracedCall, x: Any, dim: int, index: Any) -> Any:
    indices: Any = call.traced(index)
    sizes = tuple(x.shape[axis] if axis == dim % x.ndim else size for axis, size in enumerate(indices.shape))
    if sizes != x.shape:
        raise Untraceable("a gather along an axis from a part of an array")
    return np.take_along_axis(call.traced(x), indices, dim % x.ndim)


def _embedding(call: TracedCall, table: Any, indices: Traced, *settings: Any) -> Traced:
    result = np.asarray(table)[indices.array]
    return indices.made("Gather", [call.traced(table).name, indices.name], result, axis=0)


def _cumsum(call: TracedCall, x: Traced, dim: int) -> Any:
    return call.own(x).cumsum(dim)


def _where(call: TracedCall, condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, call.own(x), call.own(y))


def _like(value: float) -> Callable[..., Any]:
    return lambda call, x, *_, **settings: broadcast(call.graph, value, x.shape, call.dtype)


OPERATIONS: dict[Any, Callable[..., Any]] = {
    ATEN.add: _scaled(np.add),
    ATEN.sub: _scaled(np.subtract),
    ATEN.rsub: lambda call, x, y, alpha=1: call.arithmetic(np.subtract, y, x),
    ATEN.mul: _arithmetic(np.multiply),
    ATEN.div: _arithmetic(np.divide),
    ATEN.neg: _arithmetic(np.negative),
    ATEN.abs: _arithmetic(np.absolute),
    ATEN.exp: _arithmetic(np.exp),
    ATEN.expm1: _arithmetic(np.expm1),
    ATEN.log: _arithmetic(np.log),
    ATEN.sqrt: _arithmetic(np.sqrt),
    ATEN.rsqrt: lambda call, x: call.own(1) / np.sqrt(call.own(x)),
    ATEN.sin: _arithmetic(np.sin),
    ATEN.cos: _arithmetic(np.cos),
    ATEN.tanh: _arithmetic(np.tanh),
    ATEN.pow: _arithmetic(np.power),
    ATEN.maximum: _arithmetic(np.maximum),
    ATEN.minimum: _arithmetic(np.minimum),
    ATEN.relu: lambda call, x: np.maximum(x, call.own(0)),
    ATEN.silu: lambda call, x: x * _sigmoid(call, x),
    ATEN.sigmoid: _sigmoid,
    ATEN.elu: _elu,
    ATEN.gelu: _gelu,
    ATEN.clamp: _clamp,
    ATEN.mm: lambda call, x, y: np.matmul(x, y),
    ATEN.bmm: lambda call, x, y: np.matmul(x, y),
    ATEN.addmm: _addmm,
    ATEN.eq: _comparison(np.equal),
    ATEN.ne: _comparison(np.not_equal),
    ATEN.lt: _comparison(np.less),
    ATEN.le: _comparison(np.less_equal),
    ATEN.gt: _comparison(np.greater),
    ATEN.ge: _comparison(np.greater_equal),
    ATEN.bitwise_and: _comparison(np.bitwise_and),
    ATEN.bitwise_or: _comparison(np.bitwise_or),
    ATEN.bitwise_not: lambda call, x: np.invert(x),
    ATEN.logical_and: _comparison(np.logical_and),
    ATEN.logical_or: _comparison(np.logical_or),
    ATEN.logical_not: lambda call, x: np.logical_not(x),
    ATEN.where: _where,
    ATEN.masked_fill: lambda call, x, mask, value: _where(call, mask, value, x),
    ATEN.view: _reshape,
    ATEN._unsafe_view: _reshape,
    ATEN.reshape: _reshape,
    ATEN.expand: _expand,
    ATEN.permute: _permute,
    ATEN.transpose: _swapped,
    ATEN.t: _swapped,
    ATEN.unsqueeze: _unsqueeze,
    ATEN.squeeze: _squeeze,
    ATEN.slice: _slice,
    ATEN.select: _select,
    ATEN.unbind: _unbind,
    ATEN.split: _split,
    ATEN.split_with_sizes: _split,
    ATEN.cat: _cat,
    ATEN.stack: _stack,
    ATEN.sum: _sum,
    ATEN.mean: _mean,
    ATEN.amax: _amax,
    ATEN.cumsum: _cumsum,
    ATEN.gather: _gather,
    ATEN.embedding: _embedding,
    ATEN._softmax: _softmax,
    ATEN.native_layer_norm: _layer_norm,
    ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    ATEN.convolution: _convolution,
    ATEN.max_pool2d_with_indices: _max_pool,
    ATEN._to_copy: lambda call, x, **settings: call.own(x),
    ATEN.clone: lambda call, x, **settings: x,
    ATEN.alias: lambda call, x: x,
    ATEN.detach: lambda call, x: x,
    ATEN.zeros_like: _like(0),
    ATEN.ones_like: _like(1),
}
"""Recording functions by the torch operation whose calls they record."""
