"""Measures how often `rlrun diagnose` and `rlrun env check` find planted mistakes, and what they find in healthy runs.

    python -m benchmarks.faults run [NAME ...]    # train, diagnose and check the named entries, by default all
    python -m benchmarks.faults write             # write the tables of README.md from the records

The entries are in `env_faults.yaml` and `healthy_runs.yaml`. `run` uses only rlrun's commands. It does not repeat
training with the same spec unless you pass `--again`, so measuring a new version of the detectors takes only minutes.
`records.json` contains everything that the commands printed for each entry. `frozen_records.json` contains the same for
the second half, from before the detectors were changed because of it, and is never written again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.peers import ROOT

HERE = Path(__file__).parent
FAULTS, HEALTHY = HERE / "env_faults.yaml", HERE / "healthy_runs.yaml"
RECORDS, FROZEN = HERE / "records.json", HERE / "frozen_records.json"
WORK = ROOT / ".bench" / "faults"
PAGE = ROOT / "benchmarks" / "faults" / "README.md"
BEGIN, END = "<!-- faults: written by benchmarks/faults -->", "<!-- faults: end -->"
OF_ENV = "env: "
"""Prefix of the names of findings about the env."""
UNUSABLE = 6
"""Exit code of `rlrun env check` if something is wrong."""


@dataclass(frozen=True)
class Entry:
    """Training with a known diagnosis: with one planted mistake, or healthy.

    Attributes:
        name: Name of the entry.
        half: The half that the entry belongs to; the second one was written after the detectors were frozen.
        spec: Spec of the experiment, or the name of a spec that ships with rlrun.
        seeds: Seeds of the trials.
        mistake: What is wrong; "" for a healthy run.
        expected: Name of the finding for this mistake; "" for a healthy run.
        why: Why this finding is the cause.
        same_as: Name of the entry with the same mistake in another algorithm family; "" if there is none. Both count as
            one mistake, with the worse rank.
    """

    name: str
    half: int
    spec: Mapping[str, Any] | str
    seeds: Sequence[int]
    mistake: str = ""
    expected: str = ""
    why: str = ""
    same_as: str = ""

    @property
    def title(self) -> str:
        """Algorithm and env, or the name of the shipped spec."""
        if isinstance(self.spec, str):
            return f"`{self.spec}`"
        env = self.spec["env"]
        return f"{self.spec['algorithm']}, {(env if isinstance(env, str) else env['id']).rpartition(':')[2]}"

    @property
    def file_text(self) -> str:
        """Text of a spec file with this experiment."""
        if not isinstance(self.spec, str):
            return yaml.safe_dump({self.name: {**self.spec, "seeds": list(self.seeds)}}, sort_keys=False)
        shipped = ROOT / "rlrun" / "configs" / f"{self.spec}.yaml"
        (experiment,) = yaml.safe_load(shipped.read_text()).values()
        data = experiment.get("config", {}).get("input")
        if data is not None:
            experiment["config"]["input"] = str(shipped.parent / data)
        return yaml.safe_dump({self.name: {**experiment, "seeds": list(self.seeds)}}, sort_keys=False)


def entries() -> list[Entry]:
    """Reads all entries: mistakes first, then healthy runs."""
    return [Entry(name, **own) for file in (FAULTS, HEALTHY) for name, own in yaml.safe_load(file.read_text()).items()]


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train, diagnose and check")
    run.add_argument("names", nargs="*", metavar="NAME", help="all entries by default")
    run.add_argument("--again", action="store_true", help="train again even if there is a record")
    commands.add_parser("write", help="write the tables from the records")
    options = parser.parse_args()
    known = {entry.name: entry for entry in entries()}
    if options.command == "run":
        if unknown := set(options.names) - set(known):
            parser.error(f"no entry is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        chosen = options.names or list(known)
        for name in chosen:
            train(known[name], again=options.again)
        for name in chosen:
            record = measured(known[name])
            print(f"{name}: {line(known[name], record)}", flush=True)
            records = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
            kept = {**records, name: record}
            RECORDS.write_text(json.dumps({name: kept[name] for name in known if name in kept}, indent=1) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    written = tables(known, json.loads(RECORDS.read_text()), json.loads(FROZEN.read_text()))
    PAGE.write_text(f"{before}{BEGIN}\n\n{written}\n\n{END}{rest.partition(END)[2]}")


def train(entry: Entry, *, again: bool) -> None:
    """Trains an entry, unless it has already been trained with the same spec."""
    file, run = WORK / f"{entry.name}.yaml", WORK / "runs" / entry.name
    if again or not run.exists() or not file.exists() or file.read_text() != entry.file_text:
        shutil.rmtree(run, ignore_errors=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(entry.file_text)
        started = time.monotonic()
        _printed("train", str(file), "--name", entry.name, "--executor", "local", "--quiet", "--json")
        print(f"{entry.name}: trained in {time.monotonic() - started:.0f} s", flush=True)


def measured(entry: Entry) -> dict[str, Any]:
    """The output of `rlrun diagnose` for a trained entry and, for a mistake, of `rlrun env check` for its env."""
    file = WORK / f"{entry.name}.yaml"
    diagnosis = json.loads(_printed("diagnose", entry.name, "--json"))
    checked: dict[str, Any] = {"envs": []}
    if entry.expected.startswith(OF_ENV):
        checked = json.loads(_printed("env", "check", str(file), "--json", runs=False))
    return {
        "entry": asdict(entry),
        "findings": diagnosis["findings"],
        "random_policy": (diagnosis["random_policy"] or {}).get("mean"),
        "env_check": [one for env in checked["envs"] for one in env["findings"] if one["verdict"] != "ok"],
    }


def _printed(*arguments: str, runs: bool = True) -> str:
    """Output of an rlrun command; exit codes for failed runs and unusable envs count as results too."""
    place = ("--runs-dir", str(WORK / "runs")) if runs else ()
    command = (sys.executable, "-m", "rlrun", *arguments, *place)
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3, 4, UNUSABLE):
        sys.exit(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def rank(record: Mapping[str, Any]) -> int | None:
    """Rank of the expected finding among all findings, from 1; None if it is missing."""
    names = [one["name"] for one in record["findings"]]
    expected = record["entry"]["expected"]
    return names.index(expected) + 1 if expected in names else None


def seen_by_check(record: Mapping[str, Any]) -> bool | None:
    """Whether the env check alone finds the mistake; None if the mistake is not in the env."""
    expected = record["entry"]["expected"]
    if not expected.startswith(OF_ENV):
        return None
    return any(one["topic"] == expected.removeprefix(OF_ENV) for one in record["env_check"])


def line(entry: Entry, record: Mapping[str, Any]) -> str:
    """Sentence that describes what was found."""
    names = ", ".join(one["name"] for one in record["findings"]) or "nothing"
    if not entry.expected:
        return f"healthy; found: {names}"
    return f"expected {entry.expected}, rank {rank(record)}, env check {seen_by_check(record)}; found: {names}"


Records = Mapping[str, Mapping[str, Any]]
"""What the commands printed, by entry."""


def tables(known: Mapping[str, Entry], records: Records, frozen: Records) -> str:
    """Markdown for both halves: a summary, the mistakes with ranks, and the findings in healthy runs.

    Args:
        known: The entries.
        records: Records of the entries.
        frozen: Records of entries from before the detectors were changed because of these entries.
    """
    halves = []
    for half in (1, 2):
        own = {name: one for name, one in known.items() if one.half == half and name in records}
        if own:
            before = {name: frozen[name] for name in own if name in frozen}
            halves.append("\n".join([*_summaries(half, own, records, before), "", *_rows(own, records, before)]))
    return "\n\n".join(halves)


def _rows(known: Mapping[str, Entry], records: Records, frozen: Records) -> list[str]:
    """Rows of the tables of mistakes and of healthy runs; frozen records get separate columns."""
    words = {True: "finds it", False: "no", None: ""}
    versions = [frozen, records] if frozen else [records]
    when = ["with frozen detectors", "today"] if frozen else [""]
    ranks = " | ".join(f"rank {one}".strip() for one in when)
    founds = " | ".join(f"findings {one}".strip() for one in when)
    rows = [f"| mistake | run | seeds | expected finding | {ranks} | env check |", "| --" * (5 + len(when)) + " |"]
    healthy = [f"| healthy run | seeds | {founds} |", "| --" * (2 + len(when)) + " |"]
    for name, entry in known.items():
        own, seeds = [version.get(name) for version in versions], ", ".join(map(str, entry.seeds))
        if entry.expected:
            found = " | ".join("" if one is None else str(rank(one) or "none") for one in own)
            checked = words[seen_by_check(records[name])]
            rows.append(
                f"| `{name}`: {entry.mistake} | {entry.title} | {seeds} | {entry.expected} | {found} | {checked} |"
            )
        else:
            found = " | ".join("" if one is None else _names_of(one) for one in own)
            healthy.append(f"| `{name}`: {entry.title} | {seeds} | {found} |")
    return [*rows, "", *healthy]


def _names_of(record: Mapping[str, Any]) -> str:
    return ", ".join(one["name"] for one in record["findings"]) or "none"


def _summaries(half: int, known: Mapping[str, Entry], records: Records, frozen: Records) -> list[str]:
    """Sentences with the number of mistakes found in a half, and the number of healthy runs without findings."""
    if not frozen:
        return [f"Half {half}: {_counts(known, records)}"]
    return [
        f"Half {half} with frozen detectors: {_counts({name: known[name] for name in frozen}, frozen)}",
        f"Half {half} today: {_counts(known, records)}",
    ]


def _counts(known: Mapping[str, Entry], records: Records) -> str:
    """Numbers of mistakes found (a mistake in two families counts once) and of healthy runs without findings."""
    worst: dict[str, float] = {}
    for name, entry in known.items():
        if entry.expected:
            mistake = entry.same_as or name
            worst[mistake] = max(worst.get(mistake, 0), rank(records[name]) or math.inf)
    quiet = [not records[name]["findings"] for name, entry in known.items() if not entry.expected]
    first, third = sum(one == 1 for one in worst.values()), sum(one <= 3 for one in worst.values())
    return (
        f"first in {first} of {len(worst)} mistakes, in the first three in {third}; no finding in {sum(quiet)} of "
        f"{len(quiet)} healthy runs."
    )


if __name__ == "__main__":
    main()
