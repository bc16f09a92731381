"""Loads the C kernels, which are compiled once per machine; NumPy's BLAS computes their largest products."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from numpy._core import _multiarray_umath  # type: ignore[attr-defined]
from threadpoolctl import threadpool_info

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.kernels.cache import alone_with, cache_directory, installed_compiler, make_private, writable_by_others
from rlrun.engine.messages.errors import CompilerMissing

SOURCE = Path(__file__).with_name("kernels.c")

ONLY_GCC = (
    *("-fvect-cost-model=dynamic", "-fno-tree-vrp", "-fno-version-loops-for-strides"),
    *("-fno-tree-pre", "-fno-code-hoisting", "-fno-thread-jumps"),
)
"""Flags that Clang does not support."""

FLAGS = (
    # -O3 would take half as long again to compile and speed up nothing; neither do the passes that are switched off.
    # -O1 would compile even faster than -O2 without these passes, but slows down products with few terms.
    *("-O2", "-ftree-vectorize", "-fno-tree-slp-vectorize", *ONLY_GCC, "-march=native"),
    # Never -ffast-math: it assumes that there are no NaNs, and changes the processor's mode for the whole process.
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-shared", "-fPIC"),
)

PRODUCTS = (
    ("scipy_cblas_sgemm64_", 64),
    ("cblas_sgemm64_", 64),
    ("cblas_sgemm$NEWLAPACK$ILP64", 64),
    ("scipy_cblas_sgemm", 32),
    ("cblas_sgemm", 32),
)
"""Names of the float32 matrix product in the BLAS libraries that NumPy ships with, with the width of its integers."""

COMPILATION_TIMEOUT_S = 120.0


class NoLibrary(Exception):
    """Error for C kernels that cannot be compiled or loaded on this machine; the message is the reason."""


@cache
def why_no_library() -> str:
    """Returns the reason why this process cannot use the C kernels; "" if it can."""
    try:
        library()
    except NoLibrary as reason:
        return str(reason)
    return ""


def why_no_library_after(meanwhile: Callable[[], object]) -> str:
    """Returns the reason why this process cannot use the C kernels; "" if it can.

    Args:
        meanwhile: Function that is called while the compiler runs, or not at all if the kernels are compiled already.
    """
    with suppress(NoLibrary):  # `why_no_library` reports the error
        compiled(meanwhile)
    return why_no_library()


@cache
def library() -> ctypes.CDLL:
    """Loads the C kernels, and compiles them first unless an earlier process did.

    Raises:
        NoLibrary: There is no compiler or no BLAS, or other users can write to the cache directory.
    """
    function, bits = product()
    found = compiled()
    found.use_product(ctypes.c_void_p(function), bits == 64)
    return found


def compiled(meanwhile: Callable[[], object] | None = None) -> ctypes.CDLL:
    """Loads the C kernels, without NumPy's matrix product, and compiles them first unless an earlier process did.

    Args:
        meanwhile: Function that is called while the compiler runs, or not at all if the kernels are compiled already.

    Raises:
        NoLibrary: There is no compiler, or other users can write to the cache directory.
    """
    path = cache_directory() / "kernels" / f"{key()}.so"
    require_safe(path.parent)
    found = loaded(path)
    if found is None:
        with alone_with(path):
            found = loaded(path)  # another process may have compiled it in the meantime
            if found is None:
                compile_to(path, meanwhile)
                found = loaded(path)
    if found is None:
        raise NoLibrary(f"cannot load {path}")
    return found


def required_library(what: str, machine: str) -> ctypes.CDLL:
    """Loads the C kernels for a run that was started with them and cannot continue without them.

    Args:
        what: Beginning of the message, such as "updates of this run are computed".
        machine: End of "every machine that ..." in the message, such as "learns".

    Raises:
        CompilerMissing: The kernels cannot be used on this machine.
    """
    try:
        return library()
    except NoLibrary as reason:
        advice = (
            f"install a C compiler and check the cache folder on every machine that {machine}, or set compile: false"
        )
        raise CompilerMissing(f"{what} by C kernels, but {reason}: {advice}") from None


@cache
def product() -> tuple[int, int]:
    """Returns the address of the matrix product function in NumPy's BLAS, and the bit width of the BLAS's integers.

    Raises:
        NoLibrary: NumPy's BLAS has no function with a known name, or several.
    """
    linked = ctypes.CDLL(_multiarray_umath.__file__)
    found = [(name, bits) for name, bits in PRODUCTS if hasattr(linked, name)]
    if len(found) != 1:
        raise NoLibrary(
            f"NumPy's BLAS has {len(found) or 'none'} of the matrix products that rlrun knows; it needs exactly one"
        )
    (name, bits), *_ = found
    return ctypes.cast(getattr(linked, name), ctypes.c_void_p).value or 0, bits


@cache
def compiler() -> str:
    """Returns the path of the installed C compiler.

    Raises:
        NoLibrary: No C compiler is installed.
    """
    found = installed_compiler("CC", "gcc", "clang", "cc")
    if found is None:
        raise NoLibrary("no C compiler was found")
    return found


def compiler_version() -> str:
    """Returns name and version of the C compiler, as the compiler prints them."""
    return subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=False).stdout


def flags(version: str, machine: str) -> tuple[str, ...]:
    """Returns the flags for the C compiler, GCC or Clang.

    Args:
        version: Version text that the compiler prints; it distinguishes GCC from Clang (`gcc` is Clang on macOS).
        machine: Name of the processor's architecture; Clang refuses `-march=native` on some ARM processors.
    """
    if "clang" not in version:
        return FLAGS
    native = "-mcpu=native" if machine in ("arm64", "aarch64") else "-march=native"
    return tuple(native if flag == "-march=native" else flag for flag in FLAGS if flag not in ONLY_GCC)


@cache
def key() -> str:
    """Returns the file name of the compiled kernels, a hash of everything that they depend on.

    It covers the source code, flags, compiler, processor, C library and BLAS.
    """
    return _hash(*_software(), processor(), blas())


@cache
def common_key() -> str:
    """Returns a hash of everything that affects results without BLAS on processors with fused multiply-add.

    It covers the source code, flags, compiler and C library.
    """
    return _hash(*_software())


def _software() -> tuple[object, ...]:
    text, place, version = SOURCE.read_text("utf-8"), os.path.realpath(compiler()), compiler_version()
    return text, flags(version, platform.machine()), place, version, platform.libc_ver(), sys.platform


def _hash(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


@cache
def processor() -> str:
    """Returns name and instruction sets of the processor, which determine whether compiled kernels can be reused."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


@cache
def blas() -> str:
    """Returns version and processor type of NumPy's BLAS, which determine whether compiled kernels can be reused."""
    linked = [each for each in threadpool_info() if each["user_api"] == "blas" and "numpy" in each["filepath"]]
    return "; ".join(f"{each['internal_api']} {each['version']} {each.get('architecture', '')}" for each in linked)


def compile_to(path: Path, meanwhile: Callable[[], object] | None = None) -> None:
    """Compiles the kernels to a library file, which is written atomically together with its digest.

    Args:
        path: The library file.
        meanwhile: Function that is called while the compiler runs.

    Raises:
        NoLibrary: The compiler fails.
    """
    partial = path.with_suffix(f".{os.getpid()}.so")
    command = [compiler(), *flags(compiler_version(), platform.machine()), str(SOURCE), "-o", str(partial), "-lm"]
    try:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as compiling:
            try:
                if meanwhile is not None:
                    meanwhile()
                _, errors = compiling.communicate(timeout=COMPILATION_TIMEOUT_S)
            finally:
                compiling.kill()  # has no effect if the compiler has ended
        if compiling.returncode != 0:
            raise NoLibrary(f"the compiler {command[0]} failed: {(errors.splitlines() or ['without a message'])[0]}")
        content = partial.read_bytes()
        write_file(path.with_suffix(".sha256"), hashlib.sha256(content).hexdigest().encode())
        write_file(path, content)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoLibrary(f"the compiler {command[0]} failed: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def loaded(path: Path) -> ctypes.CDLL | None:
    """Loads compiled kernels from a file; None if the file is missing or damaged."""
    try:
        if reason := writable_by_others(path):
            raise NoLibrary(reason)
        if hashlib.sha256(path.read_bytes()).hexdigest() != path.with_suffix(".sha256").read_text("utf-8"):
            return None
        return ctypes.CDLL(str(path))
    except OSError:
        return None


def require_safe(directory: Path) -> None:
    """Creates the cache directory for this user only, and validates that no one else can write to it.

    Raises:
        NoLibrary: Another user can write to the directory, or files in it cannot be executed.
    """
    try:
        if reason := make_private(directory):
            raise NoLibrary(reason)
        if sys.platform == "linux" and os.statvfs(directory).f_flag & os.ST_NOEXEC:  # macOS does not report this flag
            raise NoLibrary(f"{directory} is mounted noexec")
    except OSError as error:
        raise NoLibrary(f"{directory}: {error.strerror}") from error
