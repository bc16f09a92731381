"""Ahead-of-time compilation of updates with torch Inductor, cached on disk; used for bfloat16 on the CPU.

Updates in float32 on the CPU run as C kernels instead (`rlrun.engine.learner.executors.c_update`), and updates on GPUs
as CUDA graphs.

Tracing turns the update, its backward pass and its optimizer into one graph. The cached package is identified by the
graph's code, the shapes and the library versions. The first compilation of a graph takes half a minute, or minutes if a
recurrent network is unrolled over a sequence.
"""

from __future__ import annotations

import hashlib
import platform
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.kernels.cache import alone_with, cache_directory, installed_compiler
from rlrun.engine.learner.executors.own_operations import QUANTILE_PAIRS, quantile_pairs_in_torch

CompiledUpdate = Callable[[list[Tensor]], Sequence[Tensor]]


def compiler() -> str | None:
    """Returns the path of the C++ compiler; None if none is installed."""
    return installed_compiler("CXX", "g++", "clang++", "c++")


def compiled(
    function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], announce: Callable[[str], None]
) -> CompiledUpdate:
    """Compiles a parameter update to machine code, or loads it from the cache on disk.

    Args:
        function: Update as a function of tensors, without data-dependent control flow.
        arguments: Example tensors, with the shapes and dtypes of later calls; not modified.
        announce: Callback that receives a message before a compilation.

    Returns:
        Compiled function of a list of tensors; each call empties the list.
    """
    return loaded(traced(function, arguments, cache_directory() / "compiled", announce))


def traced(
    function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], directory: Path, announce: Callable[[str], None]
) -> Path:
    """Traces a function to a graph, which is compiled unless cached; returns the path of the compiled package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.fx.experimental.proxy_tensor import make_fx

        graph = make_fx(function, {QUANTILE_PAIRS: quantile_pairs_in_torch})(
            *(argument.clone() for argument in arguments)
        )
        constants = [f"{name} {tensor.tolist()}" for name, tensor in graph.named_buffers()]
        package = directory / f"{cache_key(' '.join([graph.code, *constants]), arguments)}.pt2"
        if not package.exists():
            with alone_with(package):
                if not package.exists():  # otherwise another process has compiled it in the meantime
                    announce(
                        "compiling the update (once for these settings; takes about half a minute, or minutes "
                        "for recurrent networks)"
                    )
                    write_package(graph, arguments, package)
    return package


def loaded(package: Path) -> CompiledUpdate:
    """Loads a package that torch Inductor compiled ahead of time, as a Python function.

    Torch's public `aoti_load_package` would first check the processor, which runs a C++ compiler for seconds. This
    check is unnecessary, since the processor is part of the package's name.
    """
    loader = torch._C._aoti.AOTIModelPackageLoader(str(package), "model", True, 1, -1)
    run: CompiledUpdate = loader.boxed_run
    return run


def cache_key(code: str, arguments: Sequence[Tensor]) -> str:
    """Returns the file name of a compiled computation: a hash of its code, shapes, library versions and processor."""
    parts = [
        code,
        *(f"{argument.dtype} {tuple(argument.shape)}" for argument in arguments),
        torch.__version__,
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
        f"{torch.get_num_threads()} threads",
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def write_package(graph: torch.fx.GraphModule, arguments: Sequence[Tensor], package: Path) -> None:
    """Compiles a graph with torch Inductor, and writes the package file atomically."""
    from torch._inductor import aoti_compile_and_package

    exported = torch.export.export(graph, tuple(argument.clone() for argument in arguments), strict=False)
    with tempfile.TemporaryDirectory() as directory:
        written = aoti_compile_and_package(exported, package_path=str(Path(directory) / "update.pt2"))
        write_file(package, Path(written).read_bytes())
