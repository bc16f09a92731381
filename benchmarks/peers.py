"""Shared code of the benchmarks: other frameworks' venvs, alternating sides, time windows, and the table.

It does not import rlrun, so that the sides of other frameworks can import it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / ".bench"
CACHE = BENCH / "rlrun-cache"
TIMEOUT_S = 1800.0
LOOK_EVERY_S = 0.05
CORE_VARIABLE = "OPENBLAS_CORETYPE"
"""Overrides OpenBLAS's choice of kernels; some machines set it, which halves the speed of NumPy's products."""
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
SB3, RLLIB, SAMPLE_FACTORY, SHEEPRL = "Stable-Baselines3", "RLlib", "Sample Factory", "SheepRL"
SBX, REJAX, D3RLPY = "SBX", "rejax", "d3rlpy"
RSL_RL, SKRL = "rsl_rl", "skrl"
VENVS: Mapping[str, Sequence[str]] = {
    SB3: (
        "stable-baselines3==2.9.2",
        "sb3-contrib==2.9.2",
        "opencv-python-headless==5.*",
        *("torch", "gymnasium[box2d,mujoco]", "numpy", "mujoco", "imageio", "packaging", "ale-py"),
    ),
    RLLIB: ("ray[rllib,tune]==2.60.0", "opencv-python-headless==5.*", "torch", "numpy", "ale-py"),
    SAMPLE_FACTORY: ("sample-factory==2.1.1", "torch", "ale-py"),
    SHEEPRL: ("sheeprl==0.8.*", "torch"),
    SBX: (
        *("sbx-rl==0.28.0", "jax==0.10.2", "stable-baselines3==2.9.2", "torch", "gymnasium[mujoco]", "numpy"),
        *("mujoco", "imageio", "packaging", "ale-py"),
    ),
    D3RLPY: ("d3rlpy==2.8.1", "torch"),
    RSL_RL: ("rsl-rl-lib==5.5.1", "torch", "gymnasium", "numpy", "tensorboard"),
    SKRL: ("skrl==2.1.1", "torch", "gymnasium", "numpy", "tensorboard"),
    REJAX: ("rejax==0.1.3", "gymnax==0.0.9", "jax==0.10.2", "numpy"),
}
"""Packages to install for each framework. A package without a version gets the version that rlrun uses here."""

VERSIONS = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""

PRODUCTS = """
import ctypes, json, numpy
from contextlib import suppress
from importlib.util import find_spec
blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
library, core = ctypes.CDLL(numpy._core._multiarray_umath.__file__), ""
for name in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename"):
    with suppress(AttributeError):
        call = getattr(library, name)
        call.restype = ctypes.c_char_p
        core = f", {call().decode()}"
said = [f"NumPy: {blas['name']} {blas['version']}{core}"]
if find_spec("torch") is not None:
    import torch
    mkl = "MKL, " if torch.backends.mkl.is_available() else ""
    said.append(f"torch: {mkl}oneDNN, {torch.backends.cpu.get_cpu_capability()}")
if find_spec("jax") is not None:
    said.append("JAX: XLA's own")
print(json.dumps({"products": "; ".join(said)}))
"""
"""Prints which libraries compute matrix products, and with which instructions."""

T = TypeVar("T")
Measurement = dict[str, Any]


# --- Venvs and processes


def python_of(peer: str | None) -> str:
    """Returns the Python of a framework's venv under ``.bench/``, creating it if needed; None is rlrun's own Python."""
    if peer is None:
        return sys.executable
    folder = BENCH / peer.lower().replace(" ", "-")
    python, stamp = str(folder / "bin" / "python"), folder / "packages.txt"
    packages = [package if "==" in package else same_version(package) for package in VENVS[peer]]
    if not stamp.exists() or stamp.read_text().split() != packages:
        print(f"installing {' '.join(packages)} into {folder.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{peer} could not be installed:\n{done.stderr}")
        stamp.write_text("\n".join(packages))
    return python


def same_version(package: str) -> str:
    """Returns a requirement for the version of a package that rlrun uses here."""
    return f"{package}=={version(bare_name(package)).partition('+')[0]}"


def bare_name(requirement: str) -> str:
    """Returns a package's name without extras and version."""
    return requirement.partition("=")[0].partition("[")[0]


def environment(cache: Path = CACHE, tree: Path = ROOT) -> dict[str, str]:
    """Returns the environment of all sides: one thread, OpenBLAS's own choice of kernels, and the import path.

    Args:
        cache: Where rlrun keeps compiled updates.
        tree: The checkout whose rlrun is measured.
    """
    threads = dict.fromkeys(THREAD_VARIABLES, "1")
    kept = {name: value for name, value in os.environ.items() if name != CORE_VARIABLE}
    return {**kept, **threads, "RLRUN_CACHE": str(cache), "PYTHONPATH": f"{tree}{os.pathsep}{ROOT}"}


def on_one_cpu() -> None:
    """Keeps this process on one CPU, for libraries such as XLA that start as many threads as there are CPUs."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])


def answer_of(command: Sequence[str], tree: Path = ROOT) -> Measurement:
    """Runs a command and returns the JSON in its last line of output.

    Args:
        command: The command.
        tree: The folder in which to run it.

    Raises:
        SystemExit: The command failed.
    """
    try:
        done = subprocess.run(
            command, env=environment(tree=tree), cwd=tree, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(command)}\ntook longer than {TIMEOUT_S:g} s") from None
    said = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not said:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    measurement: Measurement = json.loads(said[-1])
    return measurement


def answer(measured: Callable[[Measurement], Measurement]) -> None:
    """Prints the measurements for the order on the command line; runs in a process that a benchmark has started."""
    print(json.dumps(measured(json.loads(sys.argv[1]))))


# --- Measurement


def mark(cpu_clock: Callable[[], float] = time.process_time, **counts: float) -> Measurement:
    """Returns the current `seconds` and `cpu_seconds`, together with the counts."""
    return {"seconds": time.perf_counter(), "cpu_seconds": cpu_clock(), **counts}


def between(first: Measurement, last: Measurement) -> Measurement:
    """Returns the differences between two marks."""
    return {name: last[name] - first[name] for name in first}


def in_window(
    work: Measurement, step: Callable[[], T], cpu_clock: Callable[[], float] = time.process_time
) -> tuple[list[T], Measurement]:
    """Repeats a step for the duration of the warm-up, and then for the duration of the window.

    Returns:
        The results of the last warm-up step and of all steps in the window; `seconds` and `cpu_seconds` of the window.
    """
    began = time.perf_counter()
    found = [step()]
    while time.perf_counter() - began < work["warm_up_s"]:
        found = [step()]
    first = mark(cpu_clock)
    while time.perf_counter() - first["seconds"] < work["window_s"]:
        found.append(step())
    return found, between(first, mark(cpu_clock))


def fastest(
    turns: Mapping[str, Callable[[], object]],
    stretches: int,
    calls: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Returns the seconds per call in the fastest stretch of each candidate.

    The candidates take turns, so that other work on the machine slows down all of them.
    """
    found = dict.fromkeys(turns, float("inf"))
    for _ in range(stretches):
        for name, turn in turns.items():
            began = clock()
            for _ in range(calls):
                turn()
            found[name] = min(found[name], (clock() - began) / calls)
    return found


def cpu_seconds_of_tree() -> float:
    """Returns the CPU seconds that this process and all of its descendants have used so far.

    Processes that have ended do not count. Linux only.
    """
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended in the meantime
            continue
        process = int(stat.parent.name)
        parents[process] = int(fields[1])
        used[process] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    own = {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in own} - own:
        own |= found
    return sum(used.get(process, 0.0) for process in own)


def rates(runs: Sequence[Measurement], clock: str = "seconds") -> list[float]:
    """Returns the env steps (in worlds, agent steps) per second of each run, by the wall clock or `cpu_seconds`."""
    return [run["env_steps"] / run[clock] for run in runs]


def by_cpu_time(ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> float:
    """Returns the ratio of median env steps per second of CPU, which a busy machine affects less."""
    return statistics.median(rates(ours, "cpu_seconds")) / statistics.median(rates(theirs, "cpu_seconds"))


# --- Alternating sides


@dataclass(frozen=True)
class Side:
    """A way to do a piece of work with one framework.

    Attributes:
        name: Its name in the table.
        module: The module that runs it, below `benchmarks`.
        changes: Additions to the order of a `Work`.
        aims: Target ratios to other sides, by their names.
        peer: The framework in whose venv it runs, None for rlrun's own.
    """

    name: str
    module: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    aims: Mapping[str, float] = field(default_factory=dict)
    peer: str | None = None

    def measured(self, order: Measurement) -> Measurement:
        """Runs the side once, and returns its measurements."""
        words = json.dumps({**order, **self.changes})
        load = os.getloadavg()[0]
        return {**answer_of([python_of(self.peer), "-m", f"benchmarks.{self.module}", words]), "load": load}


@dataclass(frozen=True)
class Work:
    """A piece of work that several sides do.

    Attributes:
        part: Its name for `--only`; several `Work` objects may share one.
        title: Its name in the table.
        order: The parameters that every side gets.
        sides: The sides; ratios are relative to the first.
    """

    part: str
    title: str
    order: Mapping[str, Any]
    sides: Sequence[Side]


FLOOR = Side("floor", "floor")
"""The side that measures env steps and matrix products alone; see `benchmarks.floor`."""


def benchmark(
    description: str,
    works: Sequence[Work],
    packages: Sequence[str],
    *,
    repeats: int = 3,
    unasked: Sequence[str] = (),
    others: Mapping[str, Callable[[int], Measurement]] = MappingProxyType({}),
    told: Callable[[Mapping[str, Sequence[Measurement]]], None] = lambda measured: None,
) -> None:
    """Runs the parts that the command line names, prints the tables, and optionally writes them to a file.

    Args:
        description: The benchmark's docstring.
        works: The available work.
        packages: Packages whose versions are printed in addition to rlrun's.
        repeats: Repetitions of each side, unless the command line sets them.
        unasked: Parts that run only if they are named.
        others: Functions for parts that are not a `Work`; they get the number of repetitions.
        told: Function that prints more about the measurements of a work; it gets them by side.
    """
    parser = parser_of(description, [*(work.part for work in works), *others], unasked)
    parser.add_argument("--repeats", type=int, default=repeats, help="repetitions of each side")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a value of an order, to try things out",
    )
    options = parser.parse_args()
    changes = {key: json.loads(value) for key, _, value in (word.partition("=") for word in options.set)}
    chosen = [work for work in works if work.part in options.only]
    peers = {side.peer: None for work in chosen for side in work.sides if side.peer}
    about = surroundings(packages, peers, f"one thread each, in turn, {options.repeats} repetitions")
    found = []
    for work in chosen:
        found.append(compared(work, {**work.order, **changes}, options.repeats))
        told(found[-1]["measured"])
    found += [measured(options.repeats) for part, measured in others.items() if part in options.only]
    write_json(options.json, {"about": about, "comparisons": found})


def parser_of(description: str, parts: Iterable[str] = (), unasked: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Returns a parser with `--json`, and with `--only` if there are parts."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if known := list(dict.fromkeys(parts)):
        usual = [part for part in known if part not in unasked]
        parser.add_argument(
            "--only", type=partial(_named, known), default=usual, metavar="PART,...", help="only these parts"
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    return parser


def _named(known: Sequence[str], text: str) -> list[str]:
    parts = text.split(",")
    if unknown := sorted(set(parts) - set(known)):
        raise argparse.ArgumentTypeError(f"unknown part {', '.join(unknown)}; must be one of: {', '.join(known)}")
    return parts


def write_json(path: Path | None, found: object) -> None:
    """Writes measurements to the file that the command line names, if any."""
    if path is not None:
        path.write_text(json.dumps(found, indent=2) + "\n")


def compared(work: Work, order: Measurement, repeats: int) -> Measurement:
    """Measures all sides in turn, prints a row for each with its ratios to the first, and returns the measurements."""
    measured: dict[str, list[Measurement]] = {side.name: [] for side in work.sides}
    for seed in range(repeats):
        for side in work.sides:
            measured[side.name].append(side.measured({**order, "seed": seed}))
    print(f"\n{work.title}")
    heads = ("steps/s", "(range)", "per CPU s", "updates/s", "ratio", "(range)", "by CPU time", "load")
    print_row("", *heads)
    first = measured[work.sides[0].name]
    for side in work.sides:
        runs = measured[side.name]
        pairs = [one / other for one, other in zip(rates(runs), rates(first), strict=True)]
        print_row(
            side.name,
            f"{statistics.median(rates(runs)):,.0f}",
            spread(rates(runs), 0),
            f"{statistics.median(rates(runs, 'cpu_seconds')):,.0f}",
            f"{statistics.median(run['updates'] / run['seconds'] for run in runs):,.0f}"
            if "updates" in runs[0]
            else "",
            f"{statistics.median(rates(runs)) / statistics.median(rates(first)):.2f}",
            spread(pairs, 2),
            f"{by_cpu_time(runs, first):.2f}",
            f"{statistics.median(run['load'] for run in runs):.1f}",
        )
    for name, runs in measured.items():
        if "shares" in runs[0]:
            print_shares(name, runs)
    aims = {side.name: dict(side.aims) for side in work.sides}
    print_aims(aims, measured)
    return {"part": work.part, "title": work.title, "order": order, "aims": aims, "measured": measured}


def print_aims(aims: Mapping[str, Mapping[str, float]], measured: Mapping[str, Sequence[Measurement]]) -> None:
    """Prints the speed of sides relative to their targets, and their distance to the floor."""
    middle = {name: statistics.median(rates(runs)) for name, runs in measured.items()}
    for name, own in aims.items():
        said = [f"{middle[name] / middle[other]:.2f} of {other}, to reach {aim:g}" for other, aim in own.items()]
        if own and FLOOR.name in middle:
            said.append(f"the floor is {middle[FLOOR.name] / middle[name]:.1f} times as fast")
        if said:
            print(f"{name}: {'; '.join(said)}", flush=True)


def print_shares(name: str, runs: Sequence[Measurement]) -> None:
    """Prints how rlrun's learning process spends its time, largest shares first, and the policy lag."""
    shares = {part: statistics.median(run["shares"][part] for run in runs) for part in runs[0]["shares"]}
    largest = sorted(shares.items(), key=lambda item: -item[1])
    said = [f"{part} {share:.1%}" for part, share in largest if share >= 0.001]
    if "policy_lag" in runs[0]:
        lag, most = (statistics.median(run[key] for run in runs) for key in ("policy_lag", "policy_lag_max"))
        said.append(f"policy lag {lag:.2f}, at most {most:g}")
    print(f"{name}: {', '.join(said)}", flush=True)


# --- Seconds from Enter to a command's end


def timed(command: Sequence[str], has_result: Callable[[str], bool], cache: Path = CACHE) -> Measurement:
    """Runs a command, and measures the seconds from Enter to its first result and to its end, and its CPU seconds.

    Args:
        command: The command.
        has_result: Whether the output so far contains a result; called twenty times per second.
        cache: Where rlrun keeps compiled updates.

    Returns:
        `first_result_s`, `total_s`, `cpu_s`, and the last line of the output as `said`.
    """
    first, cpu_before = None, resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.NamedTemporaryFile("w+") as output:
        began = time.perf_counter()
        with subprocess.Popen(
            command, env=environment(cache), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        ) as process:
            while process.poll() is None:
                if first is None and has_result(Path(output.name).read_text()):
                    first = time.perf_counter() - began
                time.sleep(LOOK_EVERY_S)
        total, text = time.perf_counter() - began, Path(output.name).read_text()
    if process.returncode != 0 or first is None:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {process.returncode}:\n{text}")
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = cpu.ru_utime + cpu.ru_stime - cpu_before.ru_utime - cpu_before.ru_stime
    return {"first_result_s": first, "total_s": total, "cpu_s": cpu_s, "said": text.splitlines()[-1]}


def compared_times(
    part: str,
    title: str,
    sides: Mapping[str, Callable[[int], Measurement]],
    repeats: int,
    *,
    aims: Mapping[str, Mapping[str, float]] | None = None,
    before: Mapping[str, list[Measurement]] | None = None,
) -> Measurement:
    """Measures all sides in turn from Enter to the end, prints a row for each, and returns the measurements.

    Args:
        part: Its name for `--only`.
        title: Its name in the table.
        sides: Functions that run a side with a seed; ratios are relative to the first side.
        repeats: Repetitions of each side.
        aims: Target ratios to other sides, by side.
        before: Earlier measurements, which are shown but not repeated.
    """
    measured: dict[str, list[Measurement]] = {name: [] for name in sides}
    for seed in range(repeats):
        for name, side in sides.items():
            measured[name].append(side(seed))
    print(f"\n{title}: seconds from Enter")
    print_row("", "first result", "the end", "(range)", "CPU time", "env steps", "return", "ratio", name_width=60)
    peer = median(next(iter(measured.values())), "total_s")
    for name, runs in {**(before or {}), **measured}.items():
        times = [f"{median(runs, key):.1f}" for key in ("first_result_s", "total_s", "cpu_s")]
        ends = spread([run["total_s"] for run in runs])
        steps, reached = (f"{median(runs, key):,.0f}" for key in ("env_steps", "episode_return"))
        ratio = f"{peer / median(runs, 'total_s'):.2f}"
        print_row(name, *times[:2], ends, times[2], steps, reached, ratio, name_width=60)
    return {"part": part, "title": title, "aims": dict(aims or {}), "measured": {**(before or {}), **measured}}


def median(runs: Sequence[Measurement], key: str) -> float:
    """Returns the median of a measurement over several runs."""
    return float(statistics.median(run[key] for run in runs))


# --- Output


def print_row(first: str, *cells: object, width: int = 13, name_width: int = 32) -> None:
    """Prints a row of a table: a name, and right-aligned cells; ranges are twice as wide."""
    said = [f"{cell!s:>{2 * width if str(cell).startswith('(') else width}}" for cell in cells]
    print(f"{first:{name_width}}{''.join(said)}", flush=True)


def spread(numbers: Sequence[float], digits: int = 1) -> str:
    """Returns the range of several numbers in parentheses."""
    return f"({min(numbers):,.{digits}f} to {max(numbers):,.{digits}f})"


def surroundings(packages: Sequence[str], peers: Iterable[str] = (), how: str = "one thread") -> dict[str, str]:
    """Prints and returns the machine and the versions; creates the venvs of the peers that take part."""
    ours = {name: version(name) for name in packages}
    about = {"machine": machine(), "rlrun": f"{version('rlrun')}, Python {platform.python_version()}, {told(ours)}"}
    about["rlrun's matrix products"] = products_of(None)
    for peer in peers:
        names = [bare_name(package) for package in VENVS[peer]]
        about[peer] = told(answer_of([python_of(peer), "-c", VERSIONS, *names]))
        about[f"{peer}'s matrix products"] = products_of(peer)
    is_set = f"{os.environ[CORE_VARIABLE]} here, " if CORE_VARIABLE in os.environ else ""
    about[CORE_VARIABLE] = f"{is_set}unset for all sides"
    about["how"] = how
    print("\n".join(f"{name}: {value}" for name, value in about.items()), flush=True)
    return about


def products_of(peer: str | None) -> str:
    """Returns which libraries compute matrix products in a framework's venv; None means rlrun's own."""
    return str(answer_of([python_of(peer), "-c", PRODUCTS])["products"])


def told(versions: Mapping[str, str]) -> str:
    """Returns the versions of packages as text."""
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def machine() -> str:
    """Returns the machine, and its load."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    known = " ".join(name for name in INSTRUCTIONS if name in flags) or "no AVX2"
    return (
        f"{(names or [platform.machine()])[0]}, {known}, {os.cpu_count()} CPUs, "
        f"{platform.system()} {platform.release()}, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )
