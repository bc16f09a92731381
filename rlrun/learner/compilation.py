"""Ahead-of-time compilation of updates with torch Inductor, cached on disk: on CUDA, and in bfloat16.

Updates in float32 on the CPU have kernels instead (`rlrun.learner.c_update`).

Tracing turns the update, its backward pass and its optimizer into one graph. The graph's code, the shapes and the
versions are the key of a package in the cache, which later processes load in milliseconds. The first compilation of a
graph takes a C++ compiler 10 to 20 seconds, and minutes where a recurrent network is unrolled over a sequence. If the
update consists of rlrun's own code only, its identity (a digest of that code and of the settings) finds the package
without tracing, which saves seconds at the start.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from rlrun.checkpoint.durable import write_file
from rlrun.learner.kernel_cache import alone_with, cache_directory, installed_compiler
from rlrun.learner.update import Computation

CompiledUpdate = Callable[[list[Tensor]], Sequence[Tensor]]


def compiler() -> str | None:
    """Path of the C++ compiler; None if none is installed."""
    return installed_compiler("CXX", "g++", "clang++", "c++")


def compiled(
    update: Computation,
    function: Callable[..., list[Tensor]],
    arguments: Sequence[Tensor],
    *,
    identity: str | None,
    announce: Callable[[str], None],
) -> CompiledUpdate:
    """Compiles an update or loads the compiled package from the cache; sets the update's result names.

    Args:
        update: Update to compile.
        function: Update as a function of tensors, without data-dependent control flow.
        arguments: Example tensors with the final shapes and dtypes; not modified.
        identity: Cache key of the update besides shapes and versions; None if only tracing determines the update.
        announce: Callback for a message before a compilation.

    Returns:
        Compiled function of a list of tensors; each call empties the list.
    """
    directory = cache_directory() / "compiled"
    shortcut = None if identity is None else directory / f"{cache_key(identity, arguments)}.json"
    if shortcut is not None and shortcut.exists():
        known = json.loads(shortcut.read_text())
        package = directory / known["package"]
        if package.exists():
            update.statistics, update.carried = tuple(known["statistics"]), tuple(known["carried"])
            return loaded(package)
    package = traced(function, arguments, directory, announce)
    if shortcut is not None:
        known = {"package": package.name, "statistics": update.statistics, "carried": update.carried}
        write_file(shortcut, json.dumps(known).encode())
    return loaded(package)


def traced(
    function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], directory: Path, announce: Callable[[str], None]
) -> Path:
    """Traces a function and returns the compiled package of the graph, from the cache if present."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.fx.experimental.proxy_tensor import make_fx

        graph = make_fx(function)(*(argument.clone() for argument in arguments))
        package = directory / f"{cache_key(graph.code, arguments)}.pt2"
        if not package.exists():
            with alone_with(package):
                if not package.exists():  # else another process has compiled it meanwhile
                    announce(f"compiling the update (once for these settings; {expected_time(len(graph.graph.nodes))})")
                    write_package(graph, arguments, package)
    return package


def expected_time(num_operations: int) -> str:
    """Estimated compilation time of a graph, as text for messages.

    Measured on one core of a cloud machine: 15 s for PPO's 400 operations, 18 s for the 900 of SAC, 156 s for the 6,700
    of R2D2.

    Args:
        num_operations: Number of nodes in the graph.
    """
    seconds = 10 + num_operations / 45
    return f"about {round(seconds, -1):.0f} s" if seconds < 55 else f"about {math.ceil(seconds / 60)} min"


def loaded(package: Path) -> CompiledUpdate:
    """Loads a compiled package as a function.

    Torch's public `aoti_load_package` first checks the processor, which runs a C++ compiler for seconds; here the
    processor is part of the package's name.
    """
    loader = torch._C._aoti.AOTIModelPackageLoader(str(package), "model", True, 1, -1)
    run: CompiledUpdate = loader.boxed_run
    return run


@cache
def own_code_digest() -> str:
    """Hash of rlrun's source files, for cache keys."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


def cache_key(code: str, arguments: Sequence[Tensor]) -> str:
    """Cache file name of a computation: hash of code, shapes, versions and processor."""
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
    """Compiles a graph with Inductor into a package file, written atomically."""
    from torch._inductor import aoti_compile_and_package

    exported = torch.export.export(graph, tuple(argument.clone() for argument in arguments), strict=False)
    with tempfile.TemporaryDirectory() as directory:
        written = aoti_compile_and_package(
            exported,
            package_path=str(Path(directory) / "update.pt2"),
            inductor_configs={"cpp.vec_isa_ok": instruction_sets_work()},
        )
        write_file(package, Path(written).read_bytes())


def instruction_sets_work() -> bool | None:
    """Whether the CPU's AVX instructions are known to work; None if torch must probe by test builds.

    Torch's ten test builds take as long as the compilation itself. They are unnecessary where torch's own kernels use
    the best of these instructions: the CPU has them, and torch's libraries hold the functions that they need.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    is_best = capability == "AVX512" or (capability == "AVX2" and not torch.cpu._is_avx512_supported())
    return True if is_best else None
