"""Checks of this machine for ``rlrun doctor``: packages, CPUs, bfloat16, memory, disk, ports, GPU, compiler, Ray."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from rlrun.engine.actors.private_ray import LOOPBACK_VARIABLE
from rlrun.experiments.cluster.resources import machine_cpus

GIB = 1024**3
LOW_DISK_BYTES = 2 * GIB
LOW_SHARED_MEMORY_BYTES = 1 * GIB

NEEDED_PACKAGES = (
    "torch", "ray", "gymnasium", "numpy", "pydantic", "PyYAML", "click", "rich", "safetensors", "tensorboard",
)  # fmt: skip
# Maps each extra to the modules that it installs.
EXTRAS: dict[str, tuple[str, ...]] = {
    "atari": ("ale_py",),
    "box2d": ("Box2D",),
    "mujoco": ("mujoco",),
    "video": ("imageio", "imageio_ffmpeg", "pygame"),
    "plot": ("matplotlib",),
    "optuna": ("optuna",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
    "marl": ("pettingzoo", "mpe2", "lbforaging"),
    "popgym": ("popgym",),
    "minigrid": ("minigrid",),
    "minari": ("h5py",),
    "serve": ("starlette", "uvicorn"),
    "openenv": ("websockets",),
    "export": ("onnx", "onnxruntime"),
    "docs": ("furo", "myst_parser", "sphinx"),
    "test": ("hypothesis", "pytest", "pytest_timeout"),
}

COMPILATION_TIMEOUT_S = 60.0
"""Timeout of the test compilation in seconds; on an idle machine it takes about 15 s, including torch's import."""

RAY_TIMEOUT_S = 60.0

BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16")
"""CPU flags in Linux that indicate bfloat16 instructions, for AVX-512, AMX and ARM."""

NOT_FINISHED = "did not finish within"

# This program compiles a function like an update; it fails if a compiler, its headers or a library is missing.
TRY_COMPILATION = """
import tempfile, torch
from pathlib import Path
from rlrun.engine.learner.executors.compilation import loaded, traced
numbers = torch.ones(64)
with tempfile.TemporaryDirectory() as folder:
    loaded(traced(lambda x: x.mul_(2).sin_(), [numbers], Path(folder), print))([numbers])
assert torch.allclose(numbers, torch.full((64,), 2.0).sin())
"""
TRY_RAY = """
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 1024**2)
assert ray.get(ray.put(1)) == 1
"""


@dataclass(frozen=True)
class CheckResult:
    """Result of one check of this machine.

    Attributes:
        subject: Subject of the check, such as "torch".
        verdict: "ok", "note" (works without it) or "missing" (training does not work without it).
        value: The version, amount or problem that was found.
        advice: Advice on fixing the problem; "" if there is no problem.
    """

    subject: str
    verdict: Literal["ok", "note", "missing"]
    value: str
    advice: str = ""


def findings(runs_dir: Path, *, compile_update: bool, start_ray: bool) -> Iterator[CheckResult]:
    """Yields the results of all checks of this machine; slow checks (torch, a compilation, Ray) come last.

    Args:
        runs_dir: The folder that holds the runs.
        compile_update: Whether to compile an update with torch's compiler, which takes 15 s or more.
        start_ray: Whether to start and stop Ray, which takes about ten seconds.
    """
    yield CheckResult("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from (_package(name) for name in NEEDED_PACKAGES)
    yield from (_extra(name, modules) for name, modules in EXTRAS.items())
    yield CheckResult("CPUs", "ok", f"{machine_cpus()} usable of {os.cpu_count()}")
    yield from _bfloat16()
    yield _memory()
    yield from _shared_memory()
    yield _disk(runs_dir)
    yield _ports()
    yield from _torch()
    yield from _kernels()
    yield _compiled_updates(compile_update)
    yield (_ray_starts() if start_ray else CheckResult("ray start", "note", "not tried", "to test it, pass --ray"))


def _package(name: str) -> CheckResult:
    try:
        return CheckResult(name, "ok", version(name))
    except PackageNotFoundError:
        return CheckResult(name, "missing", "not installed", f"pip install {name}")


def _extra(name: str, modules: tuple[str, ...]) -> CheckResult:
    absent = [module for module in modules if find_spec(module) is None]
    if absent:
        return CheckResult(f"extra {name}", "note", f"no {', '.join(absent)}", f"pip install 'rlrun[{name}]'")
    return CheckResult(f"extra {name}", "ok", "installed")


def _bfloat16() -> Iterator[CheckResult]:
    """Checks whether the CPU has bfloat16 instructions; yields nothing if the kernel does not list CPU flags."""
    flags = next((line.split() for line in _lines("/proc/cpuinfo") if line.startswith(("flags", "Features"))), [])
    if not flags:
        return
    found = [name for name in BFLOAT16_INSTRUCTIONS if name in flags]
    if found:
        value = f"{', '.join(found)}: precision: bfloat16 is fast for images and wide nets"
        yield CheckResult("bfloat16", "ok", value)
    else:
        value = f"no {', '.join(BFLOAT16_INSTRUCTIONS)}"
        yield CheckResult("bfloat16", "note", value, "precision: bfloat16 is slower than float32 on this CPU")


def _memory() -> CheckResult:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in _lines("/sys/fs/cgroup/memory.max"):
        total = total if limit == "max" else min(total, int(limit))
    available = next((int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if "MemAvailable" in line), None)
    free = "" if available is None else f", {min(available, total) / GIB:.1f} GiB available"
    return CheckResult("memory", "ok", f"{total / GIB:.1f} GiB{free}")


def _shared_memory() -> Iterator[CheckResult]:
    """Checks the size of /dev/shm, which holds Ray's object store and is often tiny in containers."""
    if not Path("/dev/shm").is_dir():
        return
    free = shutil.disk_usage("/dev/shm").free
    if free < LOW_SHARED_MEMORY_BYTES:
        advice = "Ray uses slow files instead; start the container with --shm-size=2g, or set num_workers: 0"
        yield CheckResult("shared memory", "note", f"{free / GIB:.2f} GiB free in /dev/shm", advice)
    else:
        yield CheckResult("shared memory", "ok", f"{free / GIB:.1f} GiB free in /dev/shm")


def _disk(runs_dir: Path) -> CheckResult:
    folder = runs_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    value = f"{free / GIB:.1f} GiB free in {runs_dir}"
    if not os.access(folder, os.W_OK):
        return CheckResult("disk", "missing", f"{folder} is not writable", "choose another folder with --runs-dir")
    if free < LOW_DISK_BYTES:
        return CheckResult("disk", "note", value, "checkpoints need more space; choose another folder with --runs-dir")
    return CheckResult("disk", "ok", value)


def _ports() -> CheckResult:
    """Checks whether processes can listen on free ports of this machine, as Ray's processes do."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            if os.environ.get(LOOPBACK_VARIABLE, "0") != "0":
                value = "a run's private Ray listens on all interfaces, protected by a token"
                return CheckResult("ports", "note", value, f"unset {LOOPBACK_VARIABLE}")
            value = "processes can listen on 127.0.0.1, the only interface that a run's private Ray uses"
            return CheckResult("ports", "ok", value)
    except OSError as error:
        advice = "Ray cannot start; set num_workers: 0 and use --executor local"
        return CheckResult("ports", "note", f"no port can be opened on 127.0.0.1: {error.strerror or error}", advice)


def _torch() -> Iterator[CheckResult]:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library that does not fit this machine
        yield CheckResult("torch import", "missing", str(error), "pip install --force-reinstall torch")
        return
    threads = f"torch's default is {torch.get_num_threads()}; a spec sets torch_threads (default 1)"
    yield CheckResult("threads", "ok", threads)
    if torch.cuda.is_available():
        cards = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        yield CheckResult("GPU", "ok", ", ".join(f"{card.name} ({card.total_memory / GIB:.0f} GiB)" for card in cards))
    else:
        yield CheckResult("GPU", "note", "torch finds none; training runs on the CPU")


def _kernels() -> Iterator[CheckResult]:
    """Checks whether C kernels work, and whether results of runs that use them depend on the processor."""
    from rlrun.engine.kernels.library import blas, compiler, library, why_no_library
    from rlrun.engine.training.rounding import ALL_PROCESSORS

    if why_not := why_no_library():
        advice = "fix this for faster updates; without C kernels, NumPy computes them"
        yield CheckResult("C kernels", "note", why_not, advice)
        yield CheckResult("results", "note", "depend on processor and BLAS, because there are no C kernels")
        return
    yield CheckResult("C kernels", "ok", f"working, with {compiler()} and {blas()}")
    if library().has_fused_products():
        yield CheckResult("results", "ok", f"{ALL_PROCESSORS}, where C kernels compute all; see rlrun plan -f SPEC")
    else:
        reason = "because this processor has no fused multiply-add"
        yield CheckResult("results", "note", f"depend on processor and BLAS, {reason}")


def _compiled_updates(compile_update: bool) -> CheckResult:
    from rlrun.engine.learner.executors.compilation import compiler

    found = compiler()
    if found is None:
        advice = "install g++ or clang++ for faster updates in bfloat16, which otherwise run uncompiled"
        return CheckResult("compiled updates", "note", "no C++ compiler", advice)
    if not compile_update:
        return CheckResult("compiled updates", "note", f"not tried; found {found}", "to test it, pass --compile")
    problem = _problem_of(TRY_COMPILATION, COMPILATION_TIMEOUT_S)
    if problem == NOT_FINISHED:
        advice = "a busy machine takes longer; try again later, or set compile: false"
        return CheckResult("compiled updates", "note", f"{found}: {problem} {COMPILATION_TIMEOUT_S:.0f} s", advice)
    if problem:
        return CheckResult("compiled updates", "note", f"{found}: {problem}", "set compile: false until this works")
    return CheckResult("compiled updates", "ok", f"working, with {found}")


def _ray_starts() -> CheckResult:
    problem = _problem_of(TRY_RAY, RAY_TIMEOUT_S)
    if problem == NOT_FINISHED:
        problem = f"{problem} {RAY_TIMEOUT_S:.0f} s"
    if problem:
        return CheckResult("ray start", "note", problem, "trials without workers or a search do not need Ray")
    return CheckResult("ray start", "ok", "starts")


def _problem_of(code: str, timeout_s: float) -> str:
    """Runs Python code in a child process; returns the last line of its error, "" on success.

    After a timeout, the child and all processes that it started are killed, and the result is `NOT_FINISHED`.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return NOT_FINISHED
    finally:
        if child.poll() is None:  # after the timeout, or an interrupt by the user
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    if child.returncode == 0:
        return ""
    return (errors.strip().splitlines() or [f"exit code {child.returncode}"])[-1]


def _lines(path: str) -> list[str]:
    """Lines of a kernel file (in /proc or /sys), [] on systems without the file."""
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []
