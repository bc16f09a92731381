"""The compiled kernels: where they are kept, and when they are not used."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlrun.engine.kernels import library as kernel_library
from rlrun.engine.kernels.library import (
    FLAGS,
    NoLibrary,
    compiler,
    flags,
    key,
    library,
    loaded,
    product,
    require_safe,
    why_no_library,
    why_no_library_after,
)

CACHED = (why_no_library, library, key, compiler, product)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starts without kernels; they compile in half a second, without optimizations."""
    monkeypatch.setattr(kernel_library, "FLAGS", (*FLAGS, "-O0"))
    for each in CACHED:
        each.cache_clear()
    yield
    for each in CACHED:
        each.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_kernels_are_compiled_once_and_recompiled_if_the_file_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path / "cache"))
    library()
    (path,) = (tmp_path / "cache" / "kernels").glob("*.so")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    written = path.stat().st_mtime_ns
    library.cache_clear()
    library()
    assert path.stat().st_mtime_ns == written
    content = path.read_bytes()
    path.unlink()  # this process has the old file in memory
    path.write_bytes(content[:-1000])
    assert loaded(path) is None
    library.cache_clear()
    assert isinstance(library(), ctypes.CDLL)
    assert path.stat().st_mtime_ns > written


@pytest.mark.usefixtures("fresh")
def test_kernels_are_not_loaded_from_folders_or_files_that_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(0o777)
    (tmp_path / "cache").chmod(0o777)
    assert why_no_library() == wording(tmp_path / "cache")
    (tmp_path / "cache").chmod(0o755)
    require_safe(tmp_path / "cache" / "kernels")
    file = tmp_path / "cache" / "kernels" / "some.so"
    file.write_bytes(b"")
    file.chmod(0o666)
    with wording.raised(NoLibrary, "some.so"):
        loaded(file)


@pytest.mark.usefixtures("fresh")
def test_a_failing_compiler_is_reported_as_the_reason_for_the_lack_of_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no header here >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(broken))
    assert why_no_library() == wording(broken)
    assert not list((tmp_path / "cache" / "kernels").glob("*.so"))


@pytest.mark.usefixtures("fresh")
def test_a_blas_with_no_or_several_known_product_functions_is_not_used(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(kernel_library, "PRODUCTS", (("no_such_product", 64),))
    assert why_no_library() == wording("NumPy")
    for each in CACHED:
        each.cache_clear()
    monkeypatch.setattr(kernel_library, "PRODUCTS", (("memcpy", 64), ("memset", 64)))
    assert why_no_library() == wording("NumPy")


@pytest.mark.usefixtures("fresh")
def test_the_cache_key_depends_on_the_processor_and_the_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {key()}
    for name in ("processor", "blas"):
        monkeypatch.setattr(kernel_library, name, lambda: "another")
        key.cache_clear()
        keys.add(key())
    assert len(keys) == 3


def test_clang_is_given_no_flag_that_it_rejects() -> None:
    apple, gnu = "Apple clang version 17.0.0", "gcc (GCC) 14.2.0"
    assert flags(gnu, "x86_64") == flags(gnu, "aarch64") == FLAGS
    only_gcc = {"-fvect-cost-model=dynamic", "-fno-tree-vrp", "-fno-version-loops-for-strides"}
    only_gcc |= {"-fno-tree-pre", "-fno-code-hoisting", "-fno-thread-jumps"}
    assert set(FLAGS) - set(flags(apple, "x86_64")) == only_gcc
    assert set(flags(apple, "arm64")) - set(FLAGS) == {"-mcpu=native"}


@pytest.mark.usefixtures("fresh")
def test_a_platform_without_the_noexec_flag_is_considered_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "ST_NOEXEC")  # as on macOS
    monkeypatch.setattr("rlrun.engine.kernels.library.sys.platform", "darwin")
    require_safe(tmp_path / "cache" / "kernels")


@pytest.mark.usefixtures("fresh")
def test_parallel_work_runs_during_compilation_and_is_skipped_once_kernels_are_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = tmp_path / "started", tmp_path / "go on"
    slow = tmp_path / "cc"
    waits = f'touch "{started}"; while [ ! -e "{go_on}" ]; do sleep 0.01; done'
    slow.write_text(f'#!/bin/sh\n[ "$1" = --version ] || {{ {waits}; }}\nexec {compiler()} "$@"\n')
    slow.chmod(0o755)
    compiler.cache_clear()
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(slow))
    calls = []

    def meanwhile() -> None:
        while not started.exists():
            time.sleep(0.01)
        go_on.touch()  # the compiler waits for this file
        calls.append("done")

    assert why_no_library_after(meanwhile) == ""
    library.cache_clear()
    why_no_library.cache_clear()
    assert why_no_library_after(meanwhile) == ""
    assert calls == ["done"]


@pytest.mark.usefixtures("fresh")
def test_an_error_in_parallel_work_stops_the_compiler_and_leaves_no_files_but_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path / "cache"))

    def fails() -> None:
        raise ModuleNotFoundError("torch")

    with pytest.raises(ModuleNotFoundError):
        why_no_library_after(fails)
    assert {path.suffix for path in (tmp_path / "cache" / "kernels").iterdir()} == {".lock"}
