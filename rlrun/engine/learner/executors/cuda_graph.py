"""Parameter updates as CUDA graphs: one launch starts all GPU operations of an update (torch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typing_extensions import override

from rlrun.engine.kernels.steps import NoKernel


class CapturedUpdate:
    """Parameter update that is captured once as a CUDA graph, then replayed for each minibatch.

    The operations are torch's, in the same order, so results equal those of eager updates. The graph saves the host's
    time for launching each operation, which dominates for small networks.

    Args:
        function: Update as a function of tensors, without data-dependent control flow.
        arguments: Example tensors on the GPU, with the shapes and dtypes of later calls; not modified.
        num_kept: Number of leading arguments that are identical tensors in every call, used in place.

    Raises:
        NoKernel: An operation waits for the GPU or reads the host's memory; the message names it.
    """

    def __init__(self, function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], num_kept: int) -> None:
        _warm_up(function, arguments)
        self._num_kept = num_kept
        self._given = [argument.clone() for argument in arguments[num_kept:]]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):  # capturing computes nothing yet
            self._results = function(*arguments[:num_kept], *self._given)

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Runs the update on further arguments of the same shapes."""
        torch._foreach_copy_(self._given, list(arguments[self._num_kept :]))
        self._graph.replay()
        return [result.clone() for result in self._results]  # the next replay overwrites them


class OnTheGpu(TorchDispatchMode):  # type: ignore[no-untyped-call]
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
            is_read = any(tensor.is_cpu and tensor.dim() for tensor in given)  # a scalar becomes part of the launch
            if is_read or any(all(tensor.is_cpu for tensor in side) for side in (given, made)):
                raise NoKernel(f"{func} between host and GPU")
        return result


def _warm_up(function: Callable[..., list[Tensor]], arguments: Sequence[Tensor]) -> None:
    """Runs an update once on copies, so that libraries make their handles and workspaces before the capture."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    present = torch.cuda.current_stream()
    stream.wait_stream(present)
    with torch.cuda.stream(stream), OnTheGpu():  # type: ignore[no-untyped-call]
        function(*(argument.clone() for argument in arguments))
    present.wait_stream(stream)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
