"""What the benchmarks against other frameworks share: a venv for the peer, the machine's name, fair surroundings."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / ".bench"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def make_venv(name: str, packages: Sequence[str]) -> str:
    """Makes a venv below ``.bench/``, or installs into the one that is there what it has not got yet.

    Several benchmarks share a venv: each names the packages that it needs.

    Returns:
        The path of its Python.
    """
    venv = BENCH / name
    python, stamp = str(venv / "bin" / "python"), venv / "packages.txt"
    installed = stamp.read_text().split() if stamp.exists() else []
    missing = [package for package in packages if package not in installed]
    if not missing:
        return python
    print(f"installing {' '.join(missing)} into {venv.relative_to(ROOT)}", flush=True)
    if not installed:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{packages[0]} could not be installed:\n{done.stderr}")
    named = {re.split(r"[\[=<>~!]", package)[0] for package in packages}
    kept = [package for package in installed if re.split(r"[\[=<>~!]", package)[0] not in named]
    stamp.write_text("\n".join([*kept, *packages]))
    return python


def same_version(package: str) -> str:
    """Returns the requirement of the version that rlrun runs with here."""
    return f"{package}=={version(package).partition('+')[0]}"


def one_thread(cache: Path) -> dict[str, str]:
    """Returns the environment of both sides: one thread, and where rlrun keeps compiled updates."""
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), "RLRUN_CACHE": str(cache)}


def machine() -> str:
    """Returns what the benchmark runs on, and how busy it is."""
    return (
        f"{processor()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )


def processor() -> str:
    """Returns the processor's name, or its architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def cpu_seconds_of_tree() -> float:
    """Returns the CPU seconds that this process and all that it has started, and those have, have used so far.

    Processes that are over do not count. Linux only.
    """
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        process = int(stat.parent.name)
        parents[process] = int(fields[1])
        used[process] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    own = {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in own} - own:
        own |= found
    return sum(used.get(process, 0.0) for process in own)


def spread(numbers: Sequence[float], digits: int = 1) -> str:
    """Returns the range of several numbers in brackets, "" for a lone one."""
    return f"({min(numbers):.{digits}f} to {max(numbers):.{digits}f})" if len(numbers) > 1 else ""
