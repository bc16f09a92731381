"""Shows whether a change affects any number in training: trains at two revisions and compares the runs bit for bit.

    python -m scripts.golden_runs check                      # the working tree, with uncommitted changes, against main
    python -m scripts.golden_runs check --base HEAD --only dqn --only sac
    python -m scripts.golden_runs record main --set full
    python -m scripts.golden_runs compare main . --set full

The runs are listed in golden_runs.yaml. The small set takes a few minutes, the full set an hour (20k env steps, two
seeds, a resume in the middle). The record of a run contains the rows of its result.json without times, and a digest of
its final parameters. A revision is anything that git accepts, or "." for the working tree; its files are unpacked into
a temporary folder and run there with this Python. Records are stored by the contents of `rlrun/`, so a revision that
changes only documentation or tests needs no new record. Numbers differ between machines and torch versions, so records
are reused and compared only within one machine.

If a later revision has renamed settings or results, `SETTINGS` and `RESULTS` map the old names to the new ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[1]
RUNS = Path(__file__).with_suffix(".yaml")
STORE = Path.home() / ".cache" / "rlrun-golden"
WORKING_TREE = "."

SETTINGS: tuple[tuple[frozenset[str], str, str], ...] = ()
"""Renamed settings: the algorithms affected, the path below `config` in golden_runs.yaml, and the new path.

A revision that does not know the old path gets the new one.
"""
DATA = "golden-data"
"""Data set that is recorded in the unpacked revision, for runs with this name as `input`."""
RESULTS: Mapping[str, str] = {}
"""Former names of results, mapped to their current names."""

Record = dict[str, Any]
"""Record of a run: `machine`, `spec`, and `trials`, each with `seed`, `status`, `rows` and `parameters`."""


def main() -> int:
    """Runs the command; returns 1 if records differ or if a run fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=STORE, help=f"folder of the records; {STORE} by default")
    commands = parser.add_subparsers(dest="command", required=True)
    record_parser = commands.add_parser("record", help="train all seeds that have no record yet")
    record_parser.add_argument("revision")
    compare_parser = commands.add_parser("compare", help="compare two records")
    compare_parser.add_argument("before")
    compare_parser.add_argument("after")
    check_parser = commands.add_parser("check", help="record the working tree and its base, and compare them")
    check_parser.add_argument("--base", help="by default the commit at which the branch left main; required on main")
    for command in (record_parser, compare_parser, check_parser):
        command.add_argument("--set", dest="which", choices=["small", "full"], default="small")
        command.add_argument("--only", action="append", metavar="RUN", help="only this run; can be repeated")
    child = commands.add_parser("train-here")  # called by `record` in the unpacked revision
    child.add_argument("work", type=Path)
    asked = parser.parse_args()
    if asked.command == "train-here":
        return train_here(json.loads(asked.work.read_text()), asked.store)
    runs = chosen_runs(asked.which, asked.only)
    if asked.command == "record":
        return record(asked.revision, runs, asked.store / asked.which)
    if asked.command == "compare":
        before, after = asked.before, asked.after
    else:
        before, after = asked.base or git("merge-base", "HEAD", "main"), WORKING_TREE
        if code_of(tree_of(before)) == code_of(tree_of(after)):
            sys.exit(f"{before[:12]} has the same rlrun/ as the working tree; name an earlier revision with --base")
        failed = [record(revision, runs, asked.store / asked.which) for revision in (before, after)]
        if any(failed):
            return 1
    folders = [asked.store / asked.which / code_of(tree_of(revision)) for revision in (before, after)]
    return report_differences(folders[0], folders[1], runs)


# --- The runs


def chosen_runs(which: str, names: Sequence[str] | None) -> dict[str, Record]:
    """Returns the entries of golden_runs.yaml by name, as in spec files, except for `counts` and `halfway`.

    Args:
        which: The small or the full set.
        names: Names of the runs, None for all.
    """
    import yaml

    entries = yaml.safe_load(RUNS.read_text())
    del entries["anchors"]
    chosen = {}
    for name, entry in entries.items():
        clock = "sgd_steps" if "sgd_steps" in entry else "env_steps"
        steps = entry.pop(clock)
        if which == "small" and len(steps) == 1:
            continue
        if which == "full":
            entry |= {"seeds": 2, "halfway": steps[-1] // 2}
        evaluation = {"every": 4, "episodes": 2}
        stop = {clock: steps[-1 if which == "full" else 0]}
        chosen[name] = {**entry, "stop": stop, "evaluation": evaluation, "checkpoint": {"at_end": True}}
    if unknown := set(names or ()) - set(chosen):
        sys.exit(f"no such runs in the {which} set: {', '.join(sorted(unknown))}; there are {', '.join(chosen)}")
    return {name: entry for name, entry in chosen.items() if not names or name in names}


def record(revision: str, runs: Mapping[str, Record], store: Path) -> int:
    """Trains the runs of a revision that have no record yet; returns 1 if one of them fails.

    Args:
        revision: A name that git accepts, or "." for the working tree.
        runs: The runs, by name.
        store: Folder of the records, with a subfolder for each state of the code.
    """
    tree = tree_of(revision)
    folder = store / code_of(tree)
    folder.mkdir(parents=True, exist_ok=True)
    missing = {name: spec for name, spec in runs.items() if not is_recorded(folder / f"{name}.json", spec)}
    print(f"{revision}: {len(missing)} of {len(runs)} runs to record in {folder}", flush=True)
    if not missing:
        return 0
    with unpacked(tree) as directory:
        work = directory / "work.json"
        work.write_text(json.dumps(missing))
        words = [sys.executable, str(Path(__file__).resolve()), "--store", str(folder), "train-here", str(work)]
        environment = {**os.environ, "PYTHONPATH": str(directory), "RLRUN_RUNS": str(directory / "runs")}
        return subprocess.run(words, cwd=directory, env=environment, check=False).returncode


def is_recorded(path: Path, spec: Record) -> bool:
    """Whether there is a record of this run with this spec on this machine."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return False
    return bool(found["spec"] == spec and found["machine"] == machine())


def machine() -> str:
    """Describes everything outside the code that affects rounding."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    return f"{cpu.rpartition(': ')[2]}, Python {platform.python_version()}, torch {version('torch')}"


# --- Revisions


def git(*words: str, **environment: str) -> str:
    """Returns the output of a git command in this repository."""
    command = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def tree_of(revision: str) -> str:
    """Returns the hash of a revision's tree; for ".", first stores the working tree as git objects."""
    if revision != WORKING_TREE:
        return git("rev-parse", "--verify", f"{revision}^{{tree}}")
    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder) / "index")
        git("read-tree", "HEAD", GIT_INDEX_FILE=index)
        git("add", "--all", GIT_INDEX_FILE=index)
        return git("write-tree", GIT_INDEX_FILE=index)


def code_of(tree: str) -> str:
    """Returns the hash of `rlrun/` in a tree; runs depend on nothing else."""
    return git("rev-parse", "--verify", f"{tree}:rlrun")


@contextmanager
def unpacked(tree: str) -> Iterator[Path]:
    """Unpacks a tree into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        archive = Path(folder) / "tree.tar"
        git("archive", "--output", str(archive), tree, "rlrun", "configs")
        subprocess.run(["tar", "-xf", str(archive), "-C", folder], check=True)
        yield Path(folder)


# --- In the unpacked revision


def train_here(runs: Mapping[str, Record], store: Path) -> int:
    """Trains the runs with the rlrun that is imported here, and records each of them; returns 1 if one fails."""
    from rlrun.engine.messages.errors import Interrupted

    if DATA in json.dumps(runs):
        record_data(Path(DATA))
    failed = []
    for name, spec in runs.items():
        try:
            trials = trained(name, spec)
        except Interrupted as interrupted:
            print(f"  {name}: {interrupted}")
            return interrupted.exit_code
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        path = store / f"{name}.json"
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({"machine": machine(), "spec": spec, "trials": trials}, indent=1))
        partial.replace(path)
        print(f"  {name}: {', '.join(str(len(trial['rows'])) for trial in trials)} rows", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def record_data(folder: Path) -> None:
    """Records three episodes of random actions in Pendulum, from which the runs with `DATA` as input learn."""
    import rlrun

    entry = {"algorithm": "random", "env": "Pendulum-v1", "output": str(folder), "stop": {"env_steps": 600}}
    rlrun.run({"data": entry}, executor="local")


def trained(name: str, spec: Record) -> list[Record]:
    """Trains a run, and resumes it if it stops halfway; returns the records of its trials."""
    import rlrun

    entry = entry_here(spec)
    ((clock, end),) = entry["stop"].items()
    if "halfway" in spec:
        entry["stop"] = {clock: spec["halfway"]}
    needs_ray = any(entry.get("config", {}).get(key) for key in ("num_workers", "num_learners"))
    executor: Literal["local"] | None = None if needs_ray else "local"
    found = rlrun.run({name: entry}, executor=executor)
    if "halfway" in spec:
        found = rlrun.resume(found[0].directory.parent, executor=executor, extend={clock: end})
    return [
        {
            "seed": trial.seed,
            "status": trial.status,
            "rows": [without_times(row) for row in trial.results()],
            "parameters": parameter_digest(trial.checkpoint),
        }
        for trial in found
    ]


def entry_here(spec: Record) -> Record:
    """Returns a run as an entry of a spec file, with setting names that the imported rlrun knows."""
    entry = {key: value for key, value in spec.items() if key not in ("counts", "halfway")}
    for part in learning_parts(entry):
        part["config"] = renamed_settings(part["algorithm"], part["config"], known_settings(part["algorithm"]))
    return dict(entry)


def learning_parts(entry: Record) -> list[Record]:
    """Returns the parts of an entry with `algorithm` and `config`: the policies of a world, or the entry itself."""
    return list(entry["policies"].values()) if "policies" in entry else [entry]


@cache
def known_settings(algorithm: str) -> dict[str, Any]:
    """Returns the settings that the imported rlrun prints for an algorithm, with their defaults."""
    from click.testing import CliRunner

    from rlrun.cli.main import cli

    done = CliRunner().invoke(cli, ["config", algorithm, "--json"], catch_exceptions=False)
    return dict(json.loads(done.stdout)["settings"])


def renamed_settings(algorithm: str, config: Record, known: Record) -> Record:
    """Returns a config with the setting names of a revision whose settings are `known`."""
    config = json.loads(json.dumps(config))
    for algorithms, old, new in SETTINGS:
        (*above, last), (*new_above, new_last) = old.split("."), new.split(".")
        section, is_known = _section(config, above), last in _section(known, above)
        if algorithm in algorithms and last in section and not is_known:
            value = section.pop(last)
            target = config
            for key in new_above:
                target = target.setdefault(key, {})
            target[new_last] = value
    return dict(config)


def _section(config: Record, path: Sequence[str]) -> Record:
    for key in path:
        config = config.get(key) or {}
    return config


def without_times(row: Record) -> Record:
    """Returns a row of result.json without results that depend on the clock, under former or current names."""
    return {
        name: value for name, value in row.items() if "time" not in name and "per_s" not in name and name[-2:] != "_s"
    }


def parameter_digest(checkpoint: Path | None) -> str:
    """Returns a digest of the policies' parameters that ignores their names and order."""
    from safetensors.numpy import load_file

    if checkpoint is None:
        raise ValueError("the trial has no checkpoint")
    files = sorted((checkpoint / "policies").rglob("*.safetensors"))
    tensors = [tensor for path in files for tensor in load_file(path).values()]
    if not all(math.isfinite(float(abs(tensor).sum())) for tensor in tensors) or not tensors:
        raise ValueError(f"{checkpoint}: no parameters, or none that are finite")
    digests = sorted(hashlib.sha256(tensor.tobytes()).hexdigest() for tensor in tensors)
    return hashlib.sha256("".join(digests).encode()).hexdigest()


# --- Comparison


def report_differences(before: Path, after: Path, runs: Mapping[str, Record]) -> int:
    """Prints the differences between two folders of records; returns 1 if there are any."""
    all_equal = True
    for name in runs:
        try:
            records = [json.loads((folder / f"{name}.json").read_text()) for folder in (before, after)]
        except FileNotFoundError as error:
            found = [f"not recorded: {error.filename}"]
        else:
            found = differences(records[0], records[1], RESULTS)
        all_equal &= not found
        print(f"{name}: {'equal' if not found else ''}")
        for line in found:
            print(f"  {line}")
    print("all equal" if all_equal else f"NOT equal: {before} and {after}")
    return 0 if all_equal else 1


def differences(before: Record, after: Record, renames: Mapping[str, str]) -> list[str]:
    """Returns the differences between two records of a run, one per line; for each result, only the first difference.

    Results that only the later record has do not count as differences. If the numbers of a run depend on timing
    (`counts: true`), only the way it ended is compared.

    Args:
        before: The earlier record.
        after: The later one.
        renames: Former names of results, mapped to their current names.
    """
    for key in ("machine", "spec"):
        if before[key] != after[key]:
            return [f"recorded with another {key}: {before[key]}, {after[key]}"]
    found = []
    for first, second in zip(before["trials"], after["trials"], strict=True):
        where = f"seed {first['seed']}"
        if first["status"] != second["status"]:
            found.append(f"{where}: {first['status']} before, {second['status']} now")
        if before["spec"].get("counts"):
            found += [f"{where}: {line}" for trial in (first, second) for line in _oddities(trial, before["spec"])]
            continue
        if len(first["rows"]) != len(second["rows"]):
            found.append(f"{where}: {len(first['rows'])} rows before, {len(second['rows'])} now")
        told = set()
        for old, new in zip(first["rows"], second["rows"], strict=False):
            old, new = ({renames.get(name, name): value for name, value in row.items()} for row in (old, new))
            for name, value in old.items():
                now = new.get(name, "nothing")
                if name not in told and not _equal(value, now):
                    told.add(name)
                    found.append(f"{where}, iteration {old.get('iteration')}: {name} {value!r} before, {now!r} now")
        if first["parameters"] != second["parameters"]:
            found.append(f"{where}: other parameters")
    return found


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are identical to the last bit; NaN equals NaN, and 1 does not equal True."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)


def _oddities(trial: Record, spec: Record) -> list[str]:
    last = trial["rows"][-1]
    found = [] if last["env_steps"] >= spec["stop"]["env_steps"] else [f"ended at {last['env_steps']} env steps"]
    return found + ([] if last["sgd_steps"] > 0 else ["has not learned"])


if __name__ == "__main__":
    sys.exit(main())
