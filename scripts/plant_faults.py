"""Plants mistakes in copies of rlrun, and records which tests and regression gates find them.

    python -m scripts.plant_faults tests inverted_ratio         # run the tests of the changed code
    python -m scripts.plant_faults regress --gate ppo_cartpole  # run this gate of configs/regression/ on every mistake
    python -m scripts.plant_faults unchanged --first 1000 --number 20  # run the gates on unchanged code, other seeds
    python -m scripts.plant_faults write                        # write the tables in benchmarks/faults/code/README.md

The mistakes are the entries of benchmarks/faults/code/*.yaml. Each entry replaces one line of a file (`old`, which must
occur exactly once) with another (`new`), and names the `tests` of that code. Mistakes are planted in temporary copies,
so the checkout is never changed. The results are kept in benchmarks/faults/code/records/: a new result of a mistake and
gate replaces the old one, and the seeds of unchanged code accumulate.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rlrun.engine.functional.intervals import exact_interval

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "benchmarks" / "faults" / "code"
RECORDS = FAULTS / "records"
PAGE = FAULTS / "README.md"
BEGIN, END = "<!-- faults: written by scripts/plant_faults.py -->", "<!-- faults: end -->"


@dataclass(frozen=True)
class Fault:
    """A mistake in one line of code.

    Attributes:
        name: Name of the mistake.
        half: Name of the file that lists it, such as `first`.
        why: What the mistake does, as a sentence.
        file: The file, relative to the checkout.
        old: The text to replace, which occurs exactly once in the file.
        new: The text that replaces it.
        tests: Tests of the changed code: folders, files or single tests, relative to the checkout.
    """

    name: str
    half: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """Returns the file's text with the mistake planted.

        Raises:
            ValueError: The text to replace does not occur exactly once.
        """
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.file} has the line to replace {found} times")
        return text.replace(self.old, self.new)


def read_faults(folder: Path = FAULTS) -> dict[str, Fault]:
    """Returns all mistakes by name, in the order of the files and their entries."""
    return {
        name: Fault(name, path.stem, **{**entry, "tests": tuple(entry["tests"])})
        for path in sorted(folder.glob("*.yaml"))
        for name, entry in yaml.safe_load(path.read_text()).items()
    }


@contextmanager
def copy_of_checkout(fault: Fault | None) -> Iterator[Path]:
    """Copies the files that git tracks to a temporary folder, and plants the mistake if one is given."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="rlrun-fault-") as folder:
        copy = Path(folder) / "checkout"
        for name in listed.stdout.split("\0"):
            source, target = ROOT / name, copy / name
            if name and (source.is_symlink() or source.is_file()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        if fault is not None:
            path = copy / fault.file
            path.write_text(fault.planted(path.read_text()))
        yield copy


def run_in(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a copy of the checkout, from which it imports rlrun."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run([sys.executable, *words], cwd=copy, env=environment, capture_output=True, text=True)


def failing_tests(copy: Path, tests: Sequence[str]) -> list[str]:
    """Runs tests in a copy of the checkout, and returns the tests that fail."""
    done = run_in(copy, "-m", "pytest", "-q", "-n0", "--tb=no", "-rfE", "-p", "no:cacheprovider", *tests)
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"pytest ended with status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failures_in(done.stdout)


def failures_in(report: str) -> list[str]:
    """Returns the ids of the failed tests in pytest's summary, without parameters and duplicates."""
    return list(dict.fromkeys(re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", report, re.MULTILINE)))


def verdicts_of(copy: Path, specs: Sequence[Path], *settings: str) -> dict[str, Any]:
    """Runs gates in a copy of the checkout; returns the verdict of each, by the name of its spec.

    Raises:
        RuntimeError: The command printed no verdicts.
    """
    with tempfile.TemporaryDirectory(prefix="rlrun-runs-") as runs:
        files = [word for spec in specs for word in ("-f", str(spec.relative_to(ROOT)))]
        sets = [word for setting in settings for word in ("--set", setting)]
        command = ["-m", "rlrun", "regress", *files, *sets, "--executor", "local", "--runs-dir", runs, "--json", "-q"]
        done = run_in(copy, *command)
    try:
        verdicts = json.loads(done.stdout)["experiments"]
    except (ValueError, KeyError):
        raise RuntimeError(f"no verdicts:\n{done.stdout[-2000:]}{done.stderr[-2000:]}") from None
    return dict(zip((spec.stem for spec in specs), verdicts, strict=True))


def record(name: str, found: Mapping[str, Any]) -> None:
    """Adds results to the record of a mistake, or to the record of unchanged code."""
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps({**recorded(name), **found}, indent=1, sort_keys=True) + "\n")


def recorded(name: str) -> dict[str, Any]:
    """Returns the record of a mistake, or of unchanged code; empty if there is none."""
    path = RECORDS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def run_tests(faults: Sequence[Fault]) -> None:
    """Records and prints the tests that each mistake makes fail; finally prints the mistakes that no test finds."""
    survivors = []
    for fault in faults:
        with copy_of_checkout(fault) as copy:
            failed = failing_tests(copy, fault.tests)
        if failed:
            with copy_of_checkout(None) as copy:
                unsound = failing_tests(copy, failed)
            failed = [test for test in failed if test not in unsound]
        record(fault.name, {"tests": failed})
        print(f"{fault.name}: " + (", ".join(failed) or "no test fails"), flush=True)
        survivors += [] if failed else [fault.name]
    print(f"survivors: {', '.join(survivors) or 'none'}")


def run_gates(faults: Sequence[Fault], specs: Sequence[Path]) -> None:
    """Records and prints whether each gate is red with each mistake."""
    for fault in faults:
        with copy_of_checkout(fault) as copy:
            verdicts = verdicts_of(copy, specs)
        gates = {
            spec: {"red": not verdict["passed"], "values": [case["values"] for case in verdict["cases"]]}
            for spec, verdict in verdicts.items()
        }
        record(fault.name, {"gates": {**recorded(fault.name).get("gates", {}), **gates}})
        red = [spec for spec, gate in gates.items() if gate["red"]]
        print(f"{fault.name}: " + (", ".join(red) or "no gate is red"), flush=True)


def run_unchanged(specs: Sequence[Path], seeds: Sequence[int]) -> None:
    """Records which seeds pass each gate on unchanged code."""
    listed = f"seeds=[{', '.join(map(str, seeds))}]"
    with copy_of_checkout(None) as copy:
        for spec in specs:
            (verdict,) = verdicts_of(copy, [spec], listed, "expect.seeds=null", "expect.passes=1").values()
            reached = {str(case["seed"]): (case["outcome"] == "reached") for case in verdict["cases"]}
            known = recorded("unchanged").get(spec.stem, {})
            record("unchanged", {spec.stem: {**known, **reached}})
            print(f"{spec.stem}: {sum(reached.values())} of {len(reached)} seeds pass", flush=True)


def false_red(rate: float, seeds: int, passes: int) -> float:
    """Probability that fewer than `passes` of `seeds` independent seeds pass, if each passes with probability `rate`.

    Examples:
        >>> false_red(1.0, 3, 3), round(false_red(0.9, 3, 2), 3)
        (0.0, 0.028)
    """
    return sum(math.comb(seeds, k) * rate**k * (1 - rate) ** (seeds - k) for k in range(passes))


def lines_of_page() -> list[str]:
    """Formats the records as Markdown: a table for each half of the mistakes, and one for unchanged code."""
    faults, gates = read_faults(), quick_gates()
    lines = []
    for half in dict.fromkeys(fault.half for fault in faults.values()):
        lines += [*lines_of_half(half, [fault for fault in faults.values() if fault.half == half], len(gates)), ""]
    lines += [
        "| gate | seeds that pass | 95% interval | false alarms | mistakes that only it finds |",
        "| -- | -- | -- | -- | -- |",
    ]
    finds = {name: red_gates(name) for name in faults}
    for path in gates:
        reached = recorded("unchanged").get(path.stem, {}).values()
        expect = next(iter(yaml.safe_load(path.read_text()).values()))["expect"]
        alone = [name.replace("_", " ") for name, red in finds.items() if red == [path.stem]]
        seen, interval, alarms = "not measured", "", ""
        if reached:
            seen = f"{sum(reached)} of {len(reached)}"
            ends = exact_interval(sum(reached), len(reached))
            interval = f"{ends[0]:.1%} to {ends[1]:.0%}" if ends[1] == 1 else f"{ends[0]:.1%} to {ends[1]:.1%}"
            # By the rule of succession, the estimated rate is below 1 even if all runs reached the goal.
            rates = (sum(reached) + 1) / (len(reached) + 2), ends[0]
            likely, most = (false_red(rate, expect["seeds"], expect["passes"]) for rate in rates)
            alarms = f"{likely:.1%}, at most {most:.1%}"
        lines.append(f"| `{path.stem}` | {seen} | {interval} | {alarms} | {', '.join(alone)} |")
    return lines


def quick_gates() -> list[Path]:
    """Returns the specs in configs/regression/, in the order of their names."""
    return sorted((ROOT / "configs" / "regression").glob("*.yaml"))


def lines_of_half(half: str, faults: Sequence[Fault], gates: int) -> list[str]:
    """Formats one half of the mistakes as Markdown: how many were found, and a table."""
    red = sum(bool(red_gates(fault.name)) for fault in faults)
    tested = sum(bool(recorded(fault.name).get("tests")) for fault in faults)
    lines = [
        f"The {half} half: a gate is red for {red} of {len(faults)} mistakes, and a test fails for {tested}.",
        "",
        "| mistake | red gates | gates that ran | failing tests |",
        "| -- | -- | -- | -- |",
    ]
    for fault in faults:
        found = recorded(fault.name)
        shown = ", ".join(f"`{gate}`" for gate in red_gates(fault.name)) or "none"
        tests = found.get("tests")
        failing = "not run" if tests is None else f"`{tests[0].split('::')[-1]}`" if tests else "none"
        more = f" and {len(tests) - 1} more" if tests and len(tests) > 1 else ""
        ran = len(gates_of(fault.name))
        lines.append(f"| {sentence(fault)} | {shown} | {ran} of {gates} | {failing}{more} |")
    return lines


def sentence(fault: Fault) -> str:
    """Describes a mistake for a table cell."""
    return f"{fault.name.replace('_', ' ')}: {fault.why[0].lower()}{fault.why[1:].rstrip('.')}"


def red_gates(name: str) -> list[str]:
    """Returns the names of the gates that the record says are red with a mistake."""
    return [gate for gate, verdict in gates_of(name).items() if verdict["red"]]


def gates_of(name: str) -> dict[str, Any]:
    """Returns the recorded verdicts on a mistake, by gate, ignoring gates that no longer exist."""
    known = {path.stem for path in quick_gates()}
    return {gate: verdict for gate, verdict in recorded(name).get("gates", {}).items() if gate in known}


def write_page() -> None:
    """Writes the tables between the markers in the mistakes' README."""
    page = PAGE.read_text()
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    PAGE.write_text("\n".join([f"{before}{BEGIN}", "", *lines_of_page(), "", f"{END}{after}"]))


def main() -> None:
    """Runs the command that the first argument names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["tests", "regress", "unchanged", "write"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mistakes, all by default")
    parser.add_argument("--gate", action="append", metavar="NAME", help="specs in configs/regression/, all by default")
    parser.add_argument("--first", type=int, default=1000, help="first seed of `unchanged`")
    parser.add_argument("--number", type=int, default=10, help="number of seeds of `unchanged`")
    given = parser.parse_intermixed_args()
    known = read_faults()
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"no such mistake: {', '.join(unknown)}; there are {', '.join(known)}")
    faults = [known[name] for name in given.names or known]
    specs = [spec for spec in quick_gates() if given.gate is None or spec.stem in given.gate]
    match given.command:
        case "tests":
            run_tests(faults)
        case "regress":
            run_gates(faults, specs)
        case "unchanged":
            run_unchanged(specs, range(given.first, given.first + given.number))
        case "write":
            write_page()


if __name__ == "__main__":
    main()
