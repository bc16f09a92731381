"""Runs the numerical tests with the matrix kernels of other processors, if this one supports their instructions.

It then runs the tests of rlrun's own C kernels in a build with sanitizers; checks that these kernels give the same bits
in 200 updates of whole algorithms when compiled for vectors of other widths (and for aarch64, if its compiler and QEMU
are installed); and verifies the shipped specs that have digests, as on a processor without AVX-512.

    python -m scripts.test_under_kernels            # all sets of kernels: a quarter of an hour
    python -m scripts.test_under_kernels --quick    # only tests that compare NumPy with torch, with AVX2: seconds

NumPy's OpenBLAS and torch choose kernels by the processor. Each kernel sums in its own order, so results differ in
their last bits. If a test passes here and fails on another machine, its tolerance is smaller than the rounding errors;
see `tests/rounding.py`. Kernels whose instructions this processor lacks would crash with an illegal instruction, so the
script skips them and names them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ("actor_q/test_soft_policy", "dqn/test_policy", "dreamer/test_policy", "dreamer/test_world_model")
FOLDERS = (
    *(f"tests/unit/engine/{room}" for room in ("functional", "nn", "policy", "learner")),
    *(f"tests/unit/algorithms/{file}.py" for file in FAMILIES),
)
QUICK = (
    "tests/unit/engine/nn/test_executors.py",
    "tests/unit/algorithms/evolution/test_population_network.py",
    "tests/unit/engine/learner/test_numpy_kernels.py",
    "tests/unit/engine/learner/test_numpy_update.py",
    "tests/unit/engine/policy/test_action_embeddings.py",
    "tests/unit/algorithms/dqn/test_policy.py",
)
"""Tests that compare NumPy with torch, or two ways to compute the same product."""
OWN = (
    "tests/unit/engine/kernels",
    "tests/unit/engine/learner/test_c_update.py",
    "tests/unit/engine/learner/test_replay_update.py",
    "tests/unit/engine/policy/test_acting_in_kernels.py",
    "tests/unit/engine/replay/test_custom_samplers.py",
    "tests/unit/engine/replay/test_transition_reader.py",
)
"""Tests that run rlrun's own C kernels."""

RECORDED_UPDATES = "200"
SAME_BITS = "tests/unit/engine/kernels/test_same_bits.py"

SANITIZERS = ("-g", "-fsanitize=undefined,float-cast-overflow,address", "-fno-sanitize-recover=undefined")
COMPILER = """#!/bin/sh
exec env -u LD_PRELOAD gcc "$@" {flags}
"""
"""Removes the sanitizers' runtimes from the compiler itself, which would otherwise exceed its time limit."""

NUMPY_AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"
"""NumPy's names for its instruction sets beyond AVX2."""

BUILT = "from rlrun.engine.kernels.library import library; library()"
"""Fails if the kernels cannot be built; their tests would only be skipped."""

LOADED = """
import numpy, torch
from threadpoolctl import threadpool_info
print(*[own["architecture"] for own in threadpool_info() if own["internal_api"] == "openblas"] or ["no OpenBLAS"])
print(torch.backends.cpu.get_cpu_capability())
"""


@dataclass(frozen=True)
class Kernels:
    """The kernels of a generation of x86 processors.

    Attributes:
        openblas: Kernels of NumPy's OpenBLAS (`OPENBLAS_CORETYPE`).
        aten: Kernels of torch (`ATEN_CPU_CAPABILITY`).
        flags: Instructions that they need, named as in /proc/cpuinfo.
        reported: The kernels that OpenBLAS reports it has loaded.
    """

    openblas: str
    aten: str
    flags: frozenset[str]
    reported: str

    def __str__(self) -> str:
        return f"OPENBLAS_CORETYPE={self.openblas} ATEN_CPU_CAPABILITY={self.aten}"

    def environment(self) -> dict[str, str]:
        """Returns the environment of a process that uses these kernels."""
        return {**os.environ, "OPENBLAS_CORETYPE": self.openblas, "ATEN_CPU_CAPABILITY": self.aten}


AVX2 = Kernels("Haswell", "avx2", frozenset({"avx2", "fma"}), "Haswell")
ALL = (
    Kernels("Prescott", "default", frozenset({"pni"}), "Katmai"),  # OpenBLAS reports its SSE kernels by this name
    Kernels("Sandybridge", "default", frozenset({"avx"}), "Sandybridge"),
    AVX2,
    Kernels("SkylakeX", "avx512", AVX2.flags | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, "SkylakeX"),
)


def flags_of(cpuinfo: str) -> frozenset[str]:
    """Returns a processor's instruction-set flags, from the text of /proc/cpuinfo."""
    return frozenset(flag for line in cpuinfo.splitlines() if line.startswith("flags") for flag in line.split()[2:])


def usable(kernels: tuple[Kernels, ...], flags: Set[str]) -> list[Kernels]:
    """Returns the kernels whose instructions a processor has, and prints the ones that are skipped."""
    for own in kernels:
        if lacking := own.flags - flags:
            print(f"{own}: skipped, because this processor lacks {', '.join(sorted(lacking))}", flush=True)
    return [own for own in kernels if own.flags <= flags]


def are_loaded(kernels: Kernels) -> bool:
    """Whether NumPy and torch have loaded the requested kernels; prints a message if not."""
    found = subprocess.run(
        [sys.executable, "-c", LOADED], env=kernels.environment(), check=True, capture_output=True, text=True
    ).stdout.splitlines()
    expected = [kernels.reported, kernels.aten.upper()]
    if found != expected:
        print(f"{kernels}: expected {expected} and found {found}", flush=True)
    return found == expected


def are_sound() -> bool:
    """Whether rlrun's own kernels pass their tests without undefined behavior or invalid memory accesses."""
    if shutil.which("gcc") is None:
        print("sanitizers: left out, there is no gcc", flush=True)
        return True
    runtimes = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}.so"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan", "libubsan")
    ]
    with tempfile.TemporaryDirectory() as folder:
        compiler = Path(folder, "cc")
        compiler.write_text(COMPILER.format(flags=" ".join(SANITIZERS)))
        compiler.chmod(0o700)
        own = {"CC": str(compiler), "RLRUN_CACHE": f"{folder}/cache", "LD_PRELOAD": " ".join(runtimes)}
        environment = {**os.environ, **own, "ASAN_OPTIONS": "detect_leaks=0"}  # Python does not free all memory at exit
        steps = (["-c", BUILT], ["-m", "pytest", "-q", "-n0", "-rs", *OWN])
        return all(subprocess.run([sys.executable, *step], cwd=ROOT, env=environment).returncode == 0 for step in steps)


def are_equal_in_bits() -> bool:
    """Whether many updates of whole algorithms give the same bits with kernels for vectors of any width."""
    tests = [sys.executable, "-m", "pytest", "-q", "-n0", "-rs", SAME_BITS]
    return subprocess.run(tests, cwd=ROOT, env={**os.environ, "RECORDED_UPDATES": RECORDED_UPDATES}).returncode == 0


def unverified() -> list[str]:
    """Returns the shipped specs whose published digests cannot be reproduced as on a processor with AVX2 only."""
    with tempfile.TemporaryDirectory() as folder:
        compiler = Path(folder, "cc")
        compiler.write_text(COMPILER.format(flags="-march=haswell"))
        compiler.chmod(0o700)
        own = {"CC": str(compiler), "RLRUN_CACHE": f"{folder}/cache", "NPY_DISABLE_CPU_FEATURES": NUMPY_AVX512}
        specs = [str(path).replace(".digest.json", ".yaml") for path in sorted(ROOT.glob("configs/*/*.digest.json"))]
        verify = [sys.executable, "-m", "rlrun", "verify", "--quiet", "--runs-dir", f"{folder}/runs"]
        environment = {**AVX2.environment(), **own}
        return [spec for spec in specs if subprocess.run([*verify, spec], cwd=ROOT, env=environment).returncode]


def main() -> int:
    """Returns 0 if all tests passed with all kernels and sanitizers and all digests were reproduced, otherwise 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only AVX2, and only the tests that compare different ways to compute a result",
    )
    quick = parser.parse_args().quick
    cpuinfo = Path("/proc/cpuinfo")
    flags = flags_of(cpuinfo.read_text()) if cpuinfo.exists() else frozenset()
    failed = []
    for kernels in usable((AVX2,) if quick else ALL, flags):
        print(kernels, flush=True)
        tests = [sys.executable, "-m", "pytest", "-q", *(QUICK if quick else FOLDERS)]
        if not are_loaded(kernels) or subprocess.run(tests, cwd=ROOT, env=kernels.environment()).returncode:
            failed.append(kernels)
    for kernels in failed:
        print(f"{kernels}: failed", flush=True)
    if quick:
        return 1 if failed else 0
    print(" ".join(SANITIZERS), flush=True)
    outcomes = {"sanitizers": are_sound(), "the same bits": are_equal_in_bits(), "published digests": not unverified()}
    wrong = [what for what, holds in outcomes.items() if not holds]
    for what in wrong:
        print(f"{what}: failed", flush=True)
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
