"""Compiles an update as a whole and keeps the result on disk (torch, ahead-of-time Inductor).

Tracing turns the update, its backward pass and its optimizer into one graph; the graph's own text, the shapes and the
versions are the key of a package in the cache, which loads in milliseconds in every later process. The first
compilation of a graph
takes 15 to 30 seconds of a C++ compiler.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

CompiledUpdate = Callable[[list[Tensor]], Sequence[Tensor]]


def cache_directory() -> Path:
    """Returns where compiled updates are kept: $RLRUN_CACHE, or `rlrun` under the user's cache directory."""
    root = os.environ.get("RLRUN_CACHE")
    if root:
        return Path(root)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlrun"


def compiler() -> str | None:
    """Returns the path of the C++ compiler that would be used, None where there is none."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if name and (found := shutil.which(name)):
            return found
    return None


def compiled(
    function: Callable[..., Tensor], arguments: Sequence[Tensor], announce: Callable[[str], None]
) -> CompiledUpdate:
    """Compiles a function of tensors that changes some of them in place.

    Args:
        function: The function; it must not depend on values, only on shapes.
        arguments: Tensors of the shapes and types to come; they are not changed.
        announce: Called with one sentence before a compilation that takes long.

    Returns:
        The compiled function of one list of tensors; the list is emptied by a call.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = make_fx(function)(*(argument.clone() for argument in arguments))
        package = cache_directory() / "compiled" / f"{cache_key(graph.code, arguments)}.pt2"
        if not package.exists():
            announce("compiling the update (once for these shapes; about 20 s)")
            write_package(graph, arguments, package)
        from torch._inductor import aoti_load_package

        loader = aoti_load_package(str(package), run_single_threaded=True).loader
    run: CompiledUpdate = loader.boxed_run
    return run


def cache_key(code: str, arguments: Sequence[Tensor]) -> str:
    """Returns the name of a package: a digest of the graph, its shapes and whatever the machine code depends on."""
    device = arguments[0].device
    parts = [
        code,
        *(f"{argument.dtype} {tuple(argument.shape)} {argument.device}" for argument in arguments),
        torch.__version__,
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
        f"{torch.get_num_threads()} threads",
        torch.cuda.get_device_name(device) if device.type == "cuda" else "",
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def write_package(graph: torch.fx.GraphModule, arguments: Sequence[Tensor], package: Path) -> None:
    """Compiles a graph into a package; it appears at its place whole or not at all."""
    from torch._inductor import aoti_compile_and_package

    package.parent.mkdir(parents=True, exist_ok=True)
    exported = torch.export.export(graph, tuple(argument.clone() for argument in arguments), strict=False)
    with tempfile.TemporaryDirectory(dir=package.parent) as directory:
        written = aoti_compile_and_package(exported, package_path=str(Path(directory) / "update.pt2"))
        os.replace(written, package)
