"""The NumPy executor: runs a traced update by NumPy kernels on preallocated buffers, where compiling does not pay.

For small networks, torch spends more time on dispatching operations than on arithmetic. Here that happens once: views
are taken, buffers assigned and common subexpressions eliminated. The result is a list of calls.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.fx import Graph, Node, map_arg
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from typing_extensions import override

from rlrun.learner.numpy_kernels import (
    CONSTANTS,
    IN_ITS_PLACE,
    KERNELS,
    KERNELS_IN_PLACE,
    Array,
    Kernel,
    NoKernel,
    demand,
)

TYPES = frozenset({torch.float32, torch.float64, torch.bool, torch.uint8, torch.int32, torch.int64})
"""Types with which NumPy computes like torch."""


def in_numpy(function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], num_kept: int = 0) -> NumpyUpdate:
    """Translates an update into a list of NumPy calls.

    Args:
        function: The update as a function of tensors; it must not depend on their values, only on shapes.
        arguments: Example tensors with the shapes and types to come; they are not changed.
        num_kept: Number of first arguments that are the same tensors in every call.

    Raises:
        NoKernel: An operation has no kernel; the message names it.
    """
    return NumpyUpdate(recorded(function, arguments), arguments, num_kept)


def recorded(function: Callable[..., list[Tensor]], arguments: Sequence[Tensor]) -> Graph:
    """Records a function's operations, with its backward pass, as a graph; the nodes' `meta` holds their results.

    Torch's own `make_fx` records the same, and imports torch's compiler for it, which takes seconds.

    Args:
        function: The function.
        arguments: Its arguments; they are not changed.

    Raises:
        NoKernel: It depends on values.
    """
    copies = [argument.clone() for argument in arguments]
    recorder = Recorder(copies)
    with recorder:
        results = function(*copies)
    recorder.graph.output([recorder.node_of(result) for result in results])
    return recorder.graph


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations that run within it as a graph.

    Args:
        arguments: The arguments of the recorded function.

    Attributes:
        graph: The operations so far; the `meta` of each node holds its result.
    """

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._nodes: dict[int, Node] = {}  # by the identity of tensors, all of which are kept
        for i, argument in enumerate(arguments):
            self._note(argument, self.graph.placeholder(f"argument_{i}"))

    @classmethod
    @override
    def _should_skip_dynamo(cls) -> bool:
        """Keeps torch from wrapping the next method, which would import its compiler and take seconds."""
        return False

    @override
    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs an operation and records it."""
        given, settings = tree_map(self._as_node, args), tree_map(self._as_node, kwargs or {})
        result = func(*args, **(kwargs or {}))
        node = self.graph.call_function(func, given, settings)
        if isinstance(result, Tensor):
            self._note(result, node)
        else:
            if not (isinstance(result, list | tuple) and all(isinstance(each, Tensor) for each in result)):
                raise NoKernel(str(func))
            for i, each in enumerate(result):
                self._note(each, self.graph.call_function(operator.getitem, (node, i)))
        return result

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor; a new one for a tensor that the function holds in a closure."""
        if id(tensor) not in self._nodes:
            self._note(tensor, self.graph.get_attr(f"held_{len(self._nodes)}"))
        return self._nodes[id(tensor)]

    def _as_node(self, value: Any) -> Any:
        return self.node_of(value) if isinstance(value, Tensor) else value

    def _note(self, tensor: Tensor, node: Node) -> None:
        node.meta["result"] = tensor
        self._nodes[id(tensor)] = node


class NumpyUpdate:
    """An update as a list of NumPy calls, each with its arrays bound.

    Args:
        graph: A result of `recorded`; it is changed.
        arguments: Example tensors with the shapes and types to come.
        num_kept: Number of first arguments that are the same tensors in every call: they are used in place.

    Raises:
        NoKernel: An operation has no kernel, or none for this form of it.
    """

    def __init__(self, graph: Graph, arguments: Sequence[Tensor], num_kept: int = 0) -> None:
        leave_out_repetitions(graph)
        plan = Plan(graph)
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        for i, (node, argument) in enumerate(zip(inputs, arguments, strict=True)):
            demand(argument.dtype in TYPES)
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
        self._calls = plan.calls
        arrays = [(i, node, plan.tensors[node].numpy()) for i, node in enumerate(inputs) if i >= num_kept]
        self._read = [(i, array) for i, node, array in arrays if node.users]
        self._changed = [(i, array) for i, node, array in arrays if node in plan.changed]
        self._num_kept = num_kept
        self._results = [plan.tensors[node].numpy() for node in returned]

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Runs the update; tensors that it changes are changed in place."""
        for i, array in self._read:
            np.copyto(array, arguments[i].numpy())
        results = self._run()
        for i, array in self._changed:
            np.copyto(arguments[i].numpy(), array)
        return results

    def of_rows(self, leaves: Sequence[Array], rows: NDArray[np.int64], others: Sequence[Tensor]) -> list[Tensor]:
        """Runs the update on rows of a batch, gathered only from the columns that it reads.

        Args:
            leaves: The batch's columns: the arguments after the first `num_kept`.
            rows: Numbers of the rows.
            others: The arguments after the columns.
        """
        first_other = self._num_kept + len(leaves)
        for i, array in self._read:
            if i < first_other:
                leaves[i - self._num_kept].take(rows, 0, array, "clip")  # "clip" writes to the array without a copy
            else:
                np.copyto(array, others[i - first_other].numpy())
        return self._run()

    def _run(self) -> list[Tensor]:
        with np.errstate(all="ignore"):  # like torch, which does not warn
            for call in self._calls:
                call()
        return [torch.from_numpy(result.copy()) for result in self._results]


class Plan:
    """Assigns buffers to the results of a graph's operations, and lists the calls that compute them.

    Args:
        graph: The graph.

    Attributes:
        calls: The calls so far.
        tensors: Results by node; their buffers are not reused before the last read.
        changed: Nodes whose memory is changed in place.
    """

    def __init__(self, graph: Graph) -> None:
        self.calls: list[Callable[[], object]] = []
        self.tensors: dict[Node, Any] = {}
        self._owners = owners(graph)
        self.changed = changed_owners(graph, self._owners)
        self._last_use = {self._owners[used]: i for i, node in enumerate(graph.nodes) for used in node.all_input_nodes}
        self._constants: set[Node] = set()
        self._buffers: dict[Node, Tensor] = {}  # in use, flat, by owner
        self._free: dict[tuple[int, torch.dtype], list[Tensor]] = {}

    def hold(self, node: Node) -> None:
        """Adds a constant tensor from the recorded function's closure.

        Raises:
            NoKernel: It is changed in place, or of a type that NumPy does not support.
        """
        held = node.meta["result"]
        demand(held.dtype in TYPES and node not in self.changed)
        self.tensors[node] = held.detach()
        self._constants.add(node)

    def add(self, index: int, node: Node) -> None:
        """Plans the index-th node of the graph.

        Raises:
            NoKernel: It has no kernel.
        """
        self._release(index)
        arguments: Any = map_arg(node.args, lambda each: self.tensors[each])
        settings: Any = map_arg(node.kwargs, lambda each: self.tensors[each])
        if node.target is operator.getitem or is_view(node):
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
        else:
            raise NoKernel(str(node.target))

    def _is_constant(self, node: Node) -> bool:
        known = node.target in CONSTANTS or (
            bool(node.all_input_nodes) and all(used in self._constants for used in node.all_input_nodes)
        )
        return known and node not in self.changed

    def _emit_kernel(self, kernel: Kernel, result: Tensor, arguments: Any, settings: Any) -> None:
        def emit(function: Callable[..., object], *operands: object, out: Array | None = None) -> None:
            self.calls.append(partial(function, *operands) if out is None else partial(function, *operands, out=out))

        given = [as_arrays(argument) for argument in arguments]
        named = {name: as_arrays(setting) for name, setting in settings.items()}
        try:
            inspect.signature(kernel).bind(emit, result, *given, **named)
        except TypeError:  # a keyword of the operation that the kernel does not have
            raise NoKernel(str(kernel)) from None
        kernel(emit, result.numpy(), *given, **named)

    def _result(self, index: int, node: Node) -> Tensor:
        """Allocates a result's tensor, in an operand's memory if the kernel allows that and nothing reads it later."""
        noted = node.meta["result"]
        size = noted.numel()
        demand(noted.dtype in TYPES)
        reach = 1 + sum((length - 1) * stride for length, stride in zip(noted.shape, noted.stride(), strict=True))
        demand(size > 0 and reach == size)
        buffer = self._given_up(index, node) if node.target in IN_ITS_PLACE else None
        if buffer is None:
            known = self._free.get((size, noted.dtype))
            buffer = known.pop() if known else torch.empty(size, dtype=noted.dtype)
        self._buffers[node] = buffer
        return torch.as_strided(buffer, noted.shape, noted.stride())

    def _given_up(self, index: int, node: Node) -> Tensor | None:
        """The buffer of an operand with the result's layout that is read here for the last time, or None."""
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
        """Frees the buffers that are not read from here on."""
        for owner in [owner for owner in self._buffers if self._last_use.get(owner, -1) < index]:
            buffer = self._buffers.pop(owner)
            self._free.setdefault((buffer.numel(), buffer.dtype), []).append(buffer)


def as_arrays(argument: Any) -> Array | Any:
    """An argument of an operation, with arrays over the memory of its tensors."""
    if isinstance(argument, Tensor):
        return argument.numpy()
    if isinstance(argument, list | tuple):
        return [as_arrays(each) for each in argument]
    return argument


def is_view(node: Node) -> bool:
    """Whether a node's result is a view of its first operand."""
    if node.target is torch.ops.aten._unsafe_view.default:  # its operand is not used otherwise
        return True
    returned = node.target._schema.returns  # type: ignore[union-attr]
    return bool(returned) and all(each.alias_info is not None and not each.alias_info.is_write for each in returned)


def owners(graph: Graph) -> dict[Node, Node]:
    """For each node, the node whose memory its result is in."""
    found: dict[Node, Node] = {}
    for node in graph.nodes:
        is_within = node.op == "call_function" and (
            node.target is operator.getitem or node.target in KERNELS_IN_PLACE or is_view(node)
        )
        found[node] = found[node.all_input_nodes[0]] if is_within else node
    return found


def changed_owners(graph: Graph, owner_of: dict[Node, Node]) -> set[Node]:
    """The nodes whose memory is changed in place."""
    return {owner_of[node] for node in graph.nodes if node.target in KERNELS_IN_PLACE}


def leave_out_repetitions(graph: Graph) -> None:
    """Computes operations with the same operands once, unless the memory of either is changed in place."""
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
