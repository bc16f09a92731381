"""Measures all pairs of rlrun and another framework at one commit, and collects the measurements in one file.

    python -m benchmarks.all --json FILE [--only ppo-a1,dqn,...] [--repeats N] [--again]
    python -m benchmarks.page FILE                                  # writes the table of docs/performance.md

Each pair names a part of a benchmark, in which all sides take turns; see `PAIRS`. The file is updated after each pair,
so you can interrupt the script and run it again: it skips the pairs in the file, unless you pass `--again`. A file
belongs to one commit; the script rejects it at another commit or if there are uncommitted changes. It records the
machine's load with each pair, because measurements on a busy machine are not worth publishing.

Benchmarks that compare returns rather than speed are not included; see `masks` and `pbt`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers import ROOT, Measurement, parser_of
from scripts.results import described_commit


class Pair(NamedTuple):
    """One part of a benchmark.

    Attributes:
        topic: Folder of the benchmark.
        part: Name of the part for `--only`.
        target: Target ratio to Stable-Baselines3 without a C++ compiler; None if there is a compiler, in which case the
            benchmark sets the targets.
    """

    topic: str
    part: str
    target: float | None = None


PAIRS = {
    "ppo-a1": Pair("ppo", "A1"),
    "ppo-a1-without-compiler": Pair("ppo", "A1", target=7.0),
    "ppo-a2": Pair("ppo", "A2"),
    "ppo-sampling": Pair("ppo", "sampling"),
    "ppo-wide": Pair("ppo", "wide"),
    "ppo-half-cheetah": Pair("ppo", "half_cheetah"),
    "ppo-pong": Pair("ppo", "pong"),
    "ppo-solve": Pair("ppo", "solve"),
    "recurrent-ppo-zoo": Pair("recurrent", "zoo"),
    "recurrent-ppo-longer": Pair("recurrent", "longer"),
    "ars-linear": Pair("evolution", "linear"),
    "ars-dense": Pair("evolution", "dense"),
    "dqn": Pair("off_policy", "dqn"),
    "dqn-8-envs": Pair("off_policy", "dqn8"),
    "sac": Pair("off_policy", "sac"),
    "td3": Pair("off_policy", "td3"),
    "offline-bc": Pair("offline", "bc"),
    "offline-iql": Pair("offline", "iql"),
    "offline-cql": Pair("offline", "cql"),
    "recording": Pair("offline", "recording"),
    "qmix-two-step": Pair("qmix", "two_step"),
    "qmix-simple-spread": Pair("qmix", "simple_spread"),
    "impala-cartpole": Pair("impala", "cartpole"),
    "impala-pong": Pair("impala", "pong"),
    "sweep": Pair("sweep", "sweep"),
}


def main() -> None:
    """Measures the pairs that are not yet in the file."""
    parser = parser_of(str(__doc__), PAIRS)
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each side")
    parser.add_argument("--again", action="store_true", help="measure again even if there is a result")
    options = parser.parse_args()
    if options.json is None:
        parser.error("name the file of the measurements with --json")
    kept = kept_in(options.json, described_commit())
    for name in options.only:
        if options.again or name not in kept["pairs"]:
            print(f"== {name}", flush=True)
            kept["pairs"][name] = measure(name, options.repeats)
            write(options.json, kept)


def kept_in(file: Path, commit: str) -> Measurement:
    """Returns a file's contents: the `commit`, and the measurements of `pairs` by name; empty if there is no file.

    Raises:
        SystemExit: The file belongs to another commit.
    """
    if not file.exists():
        return {"commit": commit, "pairs": {}}
    kept: Measurement = json.loads(file.read_text())
    if kept["commit"] != commit:
        raise SystemExit(f"{file} was measured at commit {kept['commit']}, not at {commit}; choose another file")
    return kept


def write(file: Path, kept: Measurement) -> None:
    """Writes the measurements atomically."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(kept, indent=1) + "\n")
    os.replace(partial, file)


def measure(name: str, repeats: int) -> Measurement:
    """Runs a pair's benchmark and shows its output; returns its JSON as `found`, and the `load` at the start.

    Raises:
        SystemExit: The benchmark failed.
    """
    pair = PAIRS[name]
    with tempfile.TemporaryDirectory() as directory:
        measured = Path(directory) / "measured.json"
        arguments = ["--only", pair.part, "--repeats", str(repeats), "--json", str(measured)]
        command = [sys.executable, "-m", f"benchmarks.{pair.topic}.run", *arguments]
        surroundings = dict(os.environ)
        if pair.target is not None:
            surroundings["PATH"] = directory
            for compiler in ("CC", "CXX"):
                surroundings.pop(compiler, None)
        load = os.getloadavg()[0]
        if subprocess.run(command, env=surroundings, cwd=ROOT).returncode != 0:
            raise SystemExit(f"{name}: {' '.join(command)} failed; what was measured before it is kept")
        return {"found": json.loads(measured.read_text()), "load": load}


if __name__ == "__main__":
    main()
