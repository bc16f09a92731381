"""Functions of tensors as CUDA graphs: one launch starts all GPU operations of an update or a policy step (torch)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from typing_extensions import override

from rlrun.engine.data.tree import map_tree
from rlrun.engine.kernels.operation_mode import OperationMode
from rlrun.engine.kernels.steps import NoKernel
from rlrun.engine.messages.silent_message import SilentMessage

MAX_GRAPHS = 8
"""Number of graphs that are kept: each holds the memory of all intermediate results of its function."""


class CapturedFunction:
    """Function of tensors that is captured once as a CUDA graph, then replayed for each call.

    The operations are torch's, in the same order, so results equal those of eager calls. The graph saves the host's
    time for launching each operation, which dominates for small networks.

    Args:
        function: Function of tensors; may change its arguments in place, but must not have data-dependent control
            flow.
        arguments: Example tensors on the GPU, with the shapes and dtypes of later calls; not modified.
        num_kept: Number of leading arguments that are identical tensors in every call, used in place.

    Raises:
        NoKernel: An operation waits for the GPU or reads the host's memory; the message names it.
        torch.cuda.OutOfMemoryError: The GPU lacks memory for the graph.
    """

    def __init__(self, function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], num_kept: int) -> None:
        _warm_up(function, arguments)
        self._num_kept = num_kept
        self._given = [argument.clone() for argument in arguments[num_kept:]]
        self._graph = torch.cuda.CUDAGraph()
        # A simulator's threads may use the GPU during the capture, which itself computes nothing.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._results = function(*arguments[:num_kept], *self._given)

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Runs the function on further arguments of the same shapes."""
        torch._foreach_copy_(self._given, list(arguments[self._num_kept :]))
        self._graph.replay()
        return [result.clone() for result in self._results]  # the next replay overwrites them


class Graphs:
    """CUDA graphs of a policy's updates and steps; if there are too many, the least recently used one is released.

    A function runs eagerly if a graph cannot contain it, or if the GPU lacks the memory for its graph.

    Args:
        announce: Callback for a message when a function runs eagerly.
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._captured: OrderedDict[Hashable, CapturedFunction] = OrderedDict()  # the most recently used one is last
        self._eager: set[Hashable] = set()
        self._announced: set[str] = set()

    def made(self, key: Hashable, capture: Callable[[], CapturedFunction], what: str) -> CapturedFunction | None:
        """Returns a function's graph for arguments of given shapes, captured if needed; None if it runs eagerly.

        Args:
            key: The function and the shapes of its arguments.
            capture: Function that captures the graph.
            what: Description of the function's calls, a plural noun, for messages.
        """
        if key in self._captured:
            self._captured.move_to_end(key)
            return self._captured[key]
        if key in self._eager:
            return None
        if len(self._captured) == MAX_GRAPHS:
            self._captured.popitem(last=False)  # removed before the capture, which may need the memory
        try:
            self._captured[key] = capture()
        except NoKernel as operation:
            reason = f"{what} run as separate torch operations, not as a CUDA graph, which cannot contain {operation}"
            self._run_eagerly(key, SilentMessage(reason))
            return None
        except torch.cuda.OutOfMemoryError:
            self._run_eagerly(
                key, f"{what} run as separate torch operations: the GPU has too little free memory for a CUDA graph"
            )
            return None
        return self._captured[key]

    def _run_eagerly(self, key: Hashable, reason: str) -> None:
        self._eager.add(key)
        if reason not in self._announced:
            self._announced.add(reason)
            self._announce(reason)


def of_list(function: Callable[..., list[Tensor]], *trees: Any) -> Callable[..., list[Tensor]]:
    """Converts a function of trees to a function of all their leaves, passed as separate arguments."""

    def of_leaves(*tensors: Tensor) -> list[Tensor]:
        rest = iter(tensors)
        return function(*(map_tree(lambda _: next(rest), tree) for tree in trees))

    return of_leaves


class OnTheGpu(OperationMode):  # type: ignore[no-untyped-call]
    """Torch mode that refuses operations a CUDA graph cannot capture: waits for the GPU and copies to the host."""

    @override
    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs an operation, unless it is refused."""
        waits = bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))
        if func is torch.ops.aten.index.Tensor:  # its result has a known shape if the indices are numbers
            waits = any(index.dtype == torch.bool for index in _tensors(args[1]))
        if waits:
            raise NoKernel(str(func))
        result = func(*args, **(kwargs or {}))
        given, made = _tensors((args, kwargs)), _tensors(result)
        if len({tensor.device.type for tensor in [*given, *made]}) > 1 and given:
            is_read = any(tensor.is_cpu and tensor.dim() for tensor in given)  # scalars are passed with the launch
            if is_read or any(all(tensor.is_cpu for tensor in side) for side in (given, made)):
                raise NoKernel(f"{func} between host and GPU")
        return result


def _warm_up(function: Callable[..., list[Tensor]], arguments: Sequence[Tensor]) -> None:
    """Runs a function once on copies, so that libraries make their handles and workspaces before the capture."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    present = torch.cuda.current_stream()
    stream.wait_stream(present)
    with torch.cuda.stream(stream), OnTheGpu():  # type: ignore[no-untyped-call]
        function(*(argument.clone() for argument in arguments))
    present.wait_stream(stream)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
