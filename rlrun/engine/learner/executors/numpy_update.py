"""Execution of parameter updates in NumPy: a traced update becomes a list of calls on preallocated arrays.

For small networks, torch spends more time on dispatch than on arithmetic. This executor dispatches once, at
translation: views are bound, buffers assigned and common subexpressions eliminated. The result is a list of calls.
"""

from __future__ import annotations

import inspect
import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.fx import Graph, Node, map_arg
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakTensorKeyDictionary
from typing_extensions import override

from rlrun.engine.kernels.operation_mode import OperationMode
from rlrun.engine.kernels.steps import Array, NoKernel, ReadByPython, require
from rlrun.engine.learner.executors.decompositions import decomposition_of, is_view
from rlrun.engine.learner.executors.numpy_kernels import (
    CONSTANTS,
    IN_ITS_PLACE,
    KERNELS,
    KERNELS_IN_PLACE,
    KERNELS_OF_SEVERAL,
    Kernel,
)
from rlrun.engine.settings.registry import load_internal

READ_BY_PYTHON = "rlrun.engine.learner.executors.own_code:read_by_python"
"""Import path of the function that reports where a loss turns a tensor into a number."""

LARGEST_TRACE_GIB = 4
"""Maximum size in GiB of an update that is traced: the total memory of its operations' results.

Tracing a larger update takes long and gains little, since most of its time is spent in matrix products anyway.
"""

TYPES = frozenset({torch.float32, torch.float64, torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64})
"""Dtypes with equal arithmetic in NumPy and torch."""


def in_numpy(function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], num_kept: int = 0) -> NumpyUpdate:
    """Translates a parameter update, written in torch, into a list of NumPy calls.

    Args:
        function: Update as a function of tensors, without data-dependent control flow.
        arguments: Example tensors, with the shapes and dtypes of later calls; not modified.
        num_kept: Number of leading arguments that are the same tensors in every call.

    Raises:
        NoKernel: An operation has no kernel; the message names it.
    """
    return NumpyUpdate(BoundUpdate(recorded(function, arguments), arguments, num_kept))


def recorded(function: Callable[..., list[Tensor]], arguments: Sequence[Tensor]) -> Graph:
    """Traces a function and its backward pass into a graph; each node's `meta` holds its result's shape and dtype.

    Torch's `make_fx` would trace equivalently, but imports torch's compiler, which takes seconds.

    Args:
        function: Function to trace.
        arguments: Arguments of the function; not modified.

    Raises:
        NoKernel: The function has data-dependent control flow, or passes tensor values to Python in another way.
    """
    copies = [argument.clone() for argument in arguments]
    recorder = OperationTracer(copies)
    with recorder, NoHostReads():
        results = function(*copies)
    recorder.graph.output([recorder.node_of(result) for result in results])
    return recorder.graph


def require_same(function: Callable[..., list[Tensor]], arguments: Sequence[Tensor]) -> None:
    """Validates that two traces of a function are equal, so that it depends only on its arguments.

    Raises:
        NoKernel: The traces differ, for example because the function reads a counter or draws noise in Python.
    """
    graph, again = (recorded(function, arguments) for _ in range(2))
    held = ([node.meta["result"] for node in each.nodes if node.op == "get_attr"] for each in (graph, again))
    if str(graph) != str(again) or not all(map(torch.equal, *held)):
        raise NoKernel("a loss that changes between calls")


class NoHostReads(TorchFunctionMode):
    """Torch mode that raises an error if Python or NumPy reads tensor values, which a trace cannot record."""

    @override
    def __torch_function__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls a torch function, unless it passes tensor values to Python or NumPy."""
        if func in (Tensor.numpy, Tensor.tolist, Tensor.__array__):
            raise NoKernel(f"Tensor.{func.__name__}")
        return func(*args, **(kwargs or {}))


class OperationTracer(OperationMode):
    """Torch mode that records, as nodes of a graph, all operations that run within its `with` block.

    Args:
        arguments: Arguments of the traced function.

    Attributes:
        graph: Operations so far; each node's `meta` holds the shape and dtype of its result, or a constant's tensor.
    """

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._num_held = 0
        self._size_bytes = 0
        self._nodes = WeakTensorKeyDictionary()  # by identity; tensors that are no longer needed are freed
        for i, argument in enumerate(arguments):
            self._note(argument, self.graph.placeholder(f"argument_{i}"))

    @override
    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs an operation and appends it to the graph, or the operations into which it decomposes."""
        decomposition = decomposition_of(func)
        if decomposition is not None:
            with self:
                return decomposition(*args, **(kwargs or {}))
        given, settings = tree_map(self._as_node, args), tree_map(self._as_node, kwargs or {})
        result = func(*args, **(kwargs or {}))
        node = self.graph.call_function(func, given, settings)
        if isinstance(result, Tensor):
            self._note(result, node)
        else:
            if func is torch.ops.aten._local_scalar_dense.default:
                raise ReadByPython(load_internal(READ_BY_PYTHON)(inspect.currentframe(), until=recorded.__code__))
            if not (isinstance(result, list | tuple) and all(isinstance(each, Tensor) for each in result)):
                raise NoKernel(str(func))
            node.meta["results"] = [shaped_like(each) for each in result]
            for i, each in enumerate(result):
                self._note(each, self.graph.call_function(operator.getitem, (node, i)))
        return result

    def node_of(self, tensor: Tensor) -> Node:
        """Returns the graph node of a tensor; a tensor from outside the traced function gets a constant node."""
        node: Node | None = self._nodes.get(tensor)  # type: ignore[no-untyped-call]
        if node is None:
            self._num_held += 1
            node = self.graph.get_attr(f"held_{self._num_held}")
            self._note(tensor, node)
            node.meta["result"] = tensor
        return node

    def _as_node(self, value: Any) -> Any:
        return self.node_of(value) if isinstance(value, Tensor) else value

    def _note(self, tensor: Tensor, node: Node) -> None:
        node.meta["result"] = shaped_like(tensor)
        self._nodes[tensor] = node
        self._size_bytes += tensor.nbytes
        if self._size_bytes > LARGEST_TRACE_GIB * 2**30:
            raise NoKernel(f"an update whose results fill more than {LARGEST_TRACE_GIB} GiB")


def shaped_like(tensor: Tensor) -> Tensor:
    """Returns a tensor with the same shape, strides and dtype, but without memory."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


class BoundUpdate:
    """Parameter update as a list of NumPy calls on preallocated arrays, which NumPy or C kernels can run.

    Args:
        graph: Traced operations of the update; modified in place.
        arguments: Example tensors, with the shapes and dtypes of later calls.
        num_kept: Number of leading arguments that are the same tensors in every call, and are used without copying.

    Attributes:
        calls: The NumPy calls, in order.
        read: Pairs (index, array): before each run, the update's argument with this index is copied to the array.
        changed: The pairs in `read` whose arrays the calls modify.
        results: Arrays of the results.
        num_kept: Number of leading arguments that are used without copying.
        filled_with: The list `others` (see `fill`) that was copied last; None if other arguments were copied since.

    Raises:
        NoKernel: An operation, or the variant that the graph uses, has no kernel.
    """

    def __init__(self, graph: Graph, arguments: Sequence[Tensor], num_kept: int = 0) -> None:
        eliminate_common_subexpressions(graph)
        plan = Plan(graph)
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        for i, (node, argument) in enumerate(zip(inputs, arguments, strict=True)):
            if argument.dtype not in TYPES:
                raise NoKernel(f"columns of {argument.dtype}")
            plan.tensors[node] = argument if i < num_kept else torch.empty(argument.shape, dtype=argument.dtype)
        for index, node in enumerate(graph.nodes):
            if node.op == "get_attr":
                plan.hold(node)
            elif node.op == "call_function":
                try:
                    plan.add(index, node)
                except NoKernel:
                    raise NoKernel(str(node.target)) from None
        (returned,) = (node.args[0] for node in graph.nodes if node.op == "output")
        self.calls = plan.calls
        arrays = [(i, node, plan.tensors[node].numpy()) for i, node in enumerate(inputs) if i >= num_kept]
        self.read = [(i, array) for i, node, array in arrays if node.users]
        self.changed = [(i, array) for i, node, array in arrays if node in plan.changed]
        self.num_kept = num_kept
        self.results = [plan.tensors[node].numpy() for node in returned]
        self.filled_with: Sequence[Tensor] | None = None

    def fill(self, leaves: Sequence[Array], rows: NDArray[np.int64] | None, others: Sequence[Tensor]) -> None:
        """Copies the selected rows of a batch to the arrays that the update's calls read.

        Args:
            leaves: Columns of the batch: the update's arguments after the first `num_kept`.
            rows: Indices of the rows; None for all.
            others: Arguments of the update that follow the columns; not copied if they are the same list as last time.
        """
        first_other = self.num_kept + len(leaves)
        are_filled = others is self.filled_with and not self.changed
        self.filled_with = others
        for i, array in self.read:
            if i >= first_other:
                if not are_filled:
                    np.copyto(array, others[i - first_other].numpy())
            elif rows is None:
                array[...] = leaves[i - self.num_kept]
            else:
                leaves[i - self.num_kept].take(rows, 0, array, "clip")  # "clip" writes to the array without a copy


class NumpyUpdate:
    """Parameter update that runs as a list of NumPy calls.

    Args:
        bound: The NumPy calls of the update, and the arrays on which they work.
    """

    def __init__(self, bound: BoundUpdate) -> None:
        self._bound = bound

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Runs the update, which modifies tensors in place as the traced function does."""
        self._bound.filled_with = None
        for i, array in self._bound.read:
            np.copyto(array, arguments[i].numpy())
        results = self._run()
        for i, array in self._bound.changed:
            np.copyto(arguments[i].numpy(), array)
        return results

    def run_rows(
        self, leaves: Sequence[Array], rows: NDArray[np.int64] | None, others: Sequence[Tensor]
    ) -> list[Tensor]:
        """Runs the update on selected rows of a batch, gathering only the columns that it reads."""
        self._bound.fill(leaves, rows, others)
        return self._run()

    def _run(self) -> list[Tensor]:
        with np.errstate(all="ignore"):  # as in torch, which does not warn
            for call in self._bound.calls:
                call()
        return [torch.from_numpy(result.copy()) for result in self._bound.results]


class Plan:
    """Assigns memory and NumPy calls to the operations of a traced graph.

    Args:
        graph: The traced operations.

    Attributes:
        calls: NumPy calls so far, each with its arrays.
        tensors: Result of each node; its buffer is reused only after the last operation that reads it.
        changed: Nodes whose memory is modified in place.
    """

    def __init__(self, graph: Graph) -> None:
        self.calls: list[partial[object]] = []
        self.tensors: dict[Node, Any] = {}
        self._owners = owners(graph)
        self.changed = changed_owners(graph, self._owners)
        self._last_use = {self._owners[used]: i for i, node in enumerate(graph.nodes) for used in node.all_input_nodes}
        self._read_last: defaultdict[int, list[Node]] = defaultdict(list)
        for owner, i in self._last_use.items():
            self._read_last[i].append(owner)
        self._constants: set[Node] = set()
        self._buffers: dict[Node, Tensor] = {}  # flat buffers in use, by owner
        self._free: dict[tuple[int, torch.dtype], list[Tensor]] = {}

    def hold(self, node: Node) -> None:
        """Adds a constant: a tensor that the traced function uses but does not take as an argument.

        Raises:
            NoKernel: The constant is modified in place, or its dtype is not supported.
        """
        held = node.meta["result"]
        require(held.dtype in TYPES and node not in self.changed)
        self.tensors[node] = held.detach()
        self._constants.add(node)

    def add(self, index: int, node: Node) -> None:
        """Assigns memory and NumPy calls to the operation with the given index in the graph.

        Raises:
            NoKernel: There is no kernel for the node's operation.
        """
        self._release(index)
        arguments: Any = map_arg(node.args, lambda each: self.tensors[each])
        settings: Any = map_arg(node.kwargs, lambda each: self.tensors[each])
        require(node.target in KERNELS_IN_PLACE or not is_impure(node))
        if node.target is operator.getitem or is_view(node.target):
            self.tensors[node] = node.target(*arguments, **settings)  # type: ignore[operator]
            if all(used in self._constants for used in node.all_input_nodes):
                self._constants.add(node)
        elif node.target in KERNELS_IN_PLACE:
            changed, *others = arguments
            self._emit_kernel(KERNELS_IN_PLACE[node.target], changed, others, settings)
            self.tensors[node] = changed
        elif self._is_constant(node):
            self._constants.add(node)
            self.tensors[node] = node.target(*arguments, **settings)  # type: ignore[operator]
        elif node.target in KERNELS:
            self.tensors[node] = self._result(index, node)
            self._emit_kernel(KERNELS[node.target], self.tensors[node], arguments, settings)
        elif node.target in KERNELS_OF_SEVERAL:
            self.tensors[node] = [torch.empty_like(each, device="cpu") for each in node.meta["results"]]
            self._emit_kernel(KERNELS_OF_SEVERAL[node.target], self.tensors[node], arguments, settings)
        else:
            raise NoKernel(str(node.target))

    def _is_constant(self, node: Node) -> bool:
        known = node.target in CONSTANTS or (
            bool(node.all_input_nodes) and all(used in self._constants for used in node.all_input_nodes)
        )
        return known and node not in self.changed

    def _emit_kernel(self, kernel: Kernel, result: Tensor | list[Tensor], arguments: Any, settings: Any) -> None:
        def emit(function: Callable[..., object], *operands: object, out: Array | None = None) -> None:
            self.calls.append(partial(function, *operands) if out is None else partial(function, *operands, out=out))

        given = [as_arrays(argument) for argument in arguments]
        named = {name: as_arrays(setting) for name, setting in settings.items()}
        try:
            inspect.signature(kernel).bind(emit, result, *given, **named)
        except TypeError:  # the operation has a keyword that the kernel lacks
            raise NoKernel(str(kernel)) from None
        kernel(emit, as_arrays(result), *given, **named)

    def _result(self, index: int, node: Node) -> Tensor:
        """Allocates a result's tensor, reusing the memory of an operand that is no longer read if possible."""
        noted = node.meta["result"]
        size = noted.numel()
        require(noted.dtype in TYPES)
        reach = 1 + sum((length - 1) * stride for length, stride in zip(noted.shape, noted.stride(), strict=True))
        require(size > 0 and reach == size)
        buffer = self._given_up(index, node) if node.target in IN_ITS_PLACE else None
        if buffer is None:
            known = self._free.get((size, noted.dtype))
            buffer = known.pop() if known else torch.empty(size, dtype=noted.dtype)
        self._buffers[node] = buffer
        return torch.as_strided(buffer, noted.shape, noted.stride())

    def _given_up(self, index: int, node: Node) -> Tensor | None:
        """Returns a reusable buffer, an operand with the result's layout that is last read here; None if none is."""
        noted = node.meta["result"]
        for used in node.all_input_nodes:
            owner, tensor = self._owners[used], self.tensors[used]
            same = (tensor.shape, tensor.stride(), tensor.dtype) == (noted.shape, noted.stride(), noted.dtype)
            if owner in self._buffers and self._last_use[owner] == index and same:
                others = [self._owners[other] for other in node.all_input_nodes if other is not used]
                if owner not in others and tensor.numel() == self._buffers[owner].numel():
                    return self._buffers.pop(owner)
        return None

    def _release(self, index: int) -> None:
        """Releases buffers that are not read after the operation with the given index."""
        for owner in self._read_last[index - 1]:
            buffer = self._buffers.pop(owner, None)  # None: an argument, a constant, or passed on to another node
            if buffer is not None:
                self._free.setdefault((buffer.numel(), buffer.dtype), []).append(buffer)


def as_arrays(argument: Any) -> Array | Any:
    """Replaces the tensors in an operation's argument with NumPy arrays that share their memory."""
    if isinstance(argument, Tensor):
        return argument.numpy()
    if isinstance(argument, list | tuple):
        return [as_arrays(each) for each in argument]
    return argument


def is_impure(node: Node) -> bool:
    """Whether an operation draws random numbers or modifies an operand, so that it must not be removed or merged."""
    operation: Any = node.target
    if operation is operator.getitem:
        return False
    return operation._schema.is_mutable or torch.Tag.nondeterministic_seeded in operation.tags


def owners(graph: Graph) -> dict[Node, Node]:
    """Maps each node of a traced graph to the node that owns the memory of its result (itself unless it is a view)."""
    found: dict[Node, Node] = {}
    for node in graph.nodes:
        is_within = node.op == "call_function" and (
            node.target is operator.getitem or node.target in KERNELS_IN_PLACE or is_view(node.target)
        )
        found[node] = found[node.all_input_nodes[0]] if is_within else node
    return found


def changed_owners(graph: Graph, owner_of: dict[Node, Node]) -> set[Node]:
    """Returns the nodes of a traced graph whose memory an operation of the graph modifies in place."""
    return {owner_of[node] for node in graph.nodes if node.target in KERNELS_IN_PLACE}


def eliminate_common_subexpressions(graph: Graph) -> None:
    """Reuses an earlier operation's result for each repeated operation, unless memory is modified in place."""
    owner_of = owners(graph)
    changed = changed_owners(graph, owner_of)
    known: dict[str, Node] = {}
    for node in list(graph.nodes):
        involved = [node, *node.all_input_nodes]
        if node.op != "call_function" or any(owner_of[each] in changed for each in involved):
            continue
        first = known.setdefault(f"{node.target} {node.args} {node.kwargs}", node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
