"""Runs all speed benchmarks against other frameworks and writes one table of them into docs/performance.md.

    python scripts/bench_all.py [--only ppo-a1,dqn,...] [--repeats N] [--again] [--page FILE]

Each pair is measured by the benchmark that it belongs to, in which both sides take turns; `PAIRS` names them. What a
pair measured is kept under `.bench/all/` as soon as it is there, so that a call goes on where one before was ended;
`--again` measures anew. After each pair the table is written from all that is kept. It says which target was missed,
and at which load of the machine each pair began: figures of a busy machine are not worth publishing.

What is learned rather than how fast is not here: see `bench_masks.py` and `bench_pbt.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_peers import BENCH, ROOT
from results import described_commit

RECORDS = BENCH / "all"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- pairs: written by scripts/bench_all.py -->", "<!-- pairs: end -->"
WIDTH = 120
HEADER = (
    "| pair | unit | other side | rlrun | ratio (range) | by CPU time | target | load | commit |",
    "|---|---|---|---|---|---|---|---|---|",
)

Measurement = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """One part of a benchmark.

    Attributes:
        script: The benchmark, beside this script.
        part: What its `--only` calls the part.
        targets: Title of a comparison in it, or the name of rlrun's side, -> the ratio that rlrun is to reach. A
            title that is not here has the aim that its benchmark wrote, if it wrote one.
        has_compiler: Whether rlrun finds a C++ compiler.
    """

    script: str
    part: str
    targets: Mapping[str, float]
    has_compiler: bool = True


A1 = "A1: 8 envs x 256, minibatch 64, 10 epochs"
PAIRS = {
    "ppo-a1": Pair("bench_ppo.py", "A1", {}),
    "ppo-a1-without-compiler": Pair("bench_ppo.py", "A1", {A1: 5.0}, has_compiler=False),
    "ppo-a2": Pair("bench_ppo.py", "A2", {}),
    "ppo-sampling": Pair("bench_ppo.py", "sampling", {}),
    "ppo-wide": Pair("bench_ppo.py", "wide", {}),
    "ppo-half-cheetah": Pair("bench_ppo.py", "half_cheetah", {}),
    "ppo-pong": Pair("bench_ppo.py", "pong", {}),
    "ppo-solve": Pair("bench_ppo.py", "solve", {}),
    "recurrent-ppo-zoo": Pair("bench_recurrent.py", "zoo", {}),
    "recurrent-ppo-longer": Pair("bench_recurrent.py", "longer", {}),
    "ars-linear": Pair("bench_evolution.py", "linear", {}),
    "ars-dense": Pair("bench_evolution.py", "dense", {}),
    "dqn": Pair("bench_offpolicy.py", "dqn", {"rlrun": 5.0}),
    "dqn-8-envs": Pair("bench_offpolicy.py", "dqn8", {"rlrun": 5.0}),
    "sac": Pair("bench_offpolicy.py", "sac", {"rlrun": 2.0}),
    "td3": Pair("bench_offpolicy.py", "td3", {"rlrun": 2.0}),
    "qmix-two-step": Pair("bench_qmix.py", "two_step", {"rlrun": 3.0}),
    "qmix-simple-spread": Pair("bench_qmix.py", "simple_spread", {"rlrun": 3.0}),
    "impala-cartpole": Pair("bench_impala.py", "cartpole", {"rlrun IMPALA": 8.0}),
    "impala-pong": Pair("bench_impala.py", "pong", {"rlrun IMPALA": 2.5}),
    "sweep": Pair("bench_sweep.py", "sweep", {"rlrun": 5.0}),
}


@dataclass(frozen=True)
class Comparison:
    """What two sides of a pair measured, in turn.

    Attributes:
        title: What was measured.
        unit: `env steps/s`, of which more is better, or `s`, of which less is.
        peer: Name of the other side.
        theirs: Its figures, one for each repetition.
        ours: Those of rlrun.
        by_cpu_time: The ratio of env steps per second of CPU, which a busy machine changes less; None for wall times.
        target: The ratio that rlrun is to reach; None for none.
    """

    title: str
    unit: str
    peer: str
    theirs: Sequence[float]
    ours: Sequence[float]
    by_cpu_time: float | None
    target: float | None

    @property
    def ratio(self) -> float:
        """How many times as fast rlrun is, by the medians."""
        return self._ratio(statistics.median(self.ours), statistics.median(self.theirs))

    @property
    def ratios(self) -> list[float]:
        """The same of each repetition."""
        return [self._ratio(one, other) for one, other in zip(self.ours, self.theirs, strict=True)]

    def _ratio(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.unit == "s" else ours / theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--only", default=",".join(PAIRS), help=f"comma-separated pairs of {', '.join(PAIRS)}")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each side")
    parser.add_argument("--again", action="store_true", help="measure anew what is there already")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose table is written")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PAIRS):
        parser.error(f"--only knows {', '.join(PAIRS)}, not {', '.join(sorted(unknown))}")
    for name in chosen:
        if options.again or not record_of(name).exists():
            print(f"== {name}", flush=True)
            measure(name, options.repeats)
        write_table(options.page)


def record_of(name: str) -> Path:
    """Returns where a pair's measurements are kept."""
    return RECORDS / f"{name}.json"


def measure(name: str, repeats: int) -> None:
    """Runs a pair's benchmark, which prints as it goes, and keeps what it measured.

    Raises:
        SystemExit: The benchmark failed.
    """
    pair = PAIRS[name]
    RECORDS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        measured = Path(directory) / "measured.json"
        arguments = ["--only", pair.part, "--repeats", str(repeats), "--json", str(measured)]
        command = [sys.executable, str(ROOT / "scripts" / pair.script), *arguments]
        surroundings = dict(os.environ)
        if not pair.has_compiler:
            surroundings["PATH"] = directory
            surroundings.pop("CXX", None)
        load = os.getloadavg()[0]
        if subprocess.run(command, env=surroundings, cwd=ROOT).returncode != 0:
            raise SystemExit(f"{name}: {' '.join(command)} failed; what was measured before it is kept")
        record = {"found": json.loads(measured.read_text()), "load": load, "commit": described_commit()}
    partial = record_of(name).with_suffix(".partial")
    partial.write_text(json.dumps(record))
    os.replace(partial, record_of(name))


def comparisons(pair: Pair, found: Measurement) -> Iterator[Comparison]:
    """Yields what a pair's benchmark compared, from what it wrote."""
    if pair.script in ("bench_ppo.py", "bench_recurrent.py", "bench_evolution.py"):
        for row in found["rates"]:
            (peer, theirs), (_, ours) = row["measured"].items()
            title = row["title"] if pair.has_compiler else f"{row['title']}; no C++ compiler"
            yield from_rates(title, peer, theirs, ours, pair.targets.get(row["title"], row["aim"]))
        if found.get("solve"):
            yield from from_enter(found["solve"], pair)
    elif pair.script == "bench_sweep.py":
        yield from from_enter(found["sweep"], pair)
    else:
        (peer, theirs), *others = found[pair.part].items()
        for side, runs in others:
            if side.startswith("rlrun"):
                yield from_rates(f"{pair.part}: {side}", peer, theirs, runs, pair.targets.get(side))


def from_rates(
    title: str, peer: str, theirs: Sequence[Measurement], ours: Sequence[Measurement], target: float | None
) -> Comparison:
    """Returns how the env steps per second of two sides compare."""
    by_cpu_time = statistics.median(rates(ours, "cpu_seconds")) / statistics.median(rates(theirs, "cpu_seconds"))
    return Comparison(title, "env steps/s", peer, rates(theirs), rates(ours), by_cpu_time, target)


def from_enter(sides: Mapping[str, Sequence[Measurement]], pair: Pair) -> Iterator[Comparison]:
    """Yields the seconds from Enter to the end, each of rlrun's sides against the first of another framework."""
    totals = {name: [run["total_s"] for run in runs] for name, runs in sides.items()}
    peer = next(name for name in totals if not name.startswith("rlrun"))
    for name, ours in totals.items():
        if name.startswith("rlrun"):
            theirs = totals[peer][: len(ours)]  # what is measured with an empty cache is measured once
            yield Comparison(f"{pair.part}: {name}", "s", peer, theirs, ours, None, pair.targets.get(name))


def rates(runs: Sequence[Measurement], clock: str = "seconds") -> list[float]:
    """Returns env steps per second of each run, by the wall clock or `cpu_seconds`."""
    return [run["env_steps"] / run[clock] for run in runs]


def row(comparison: Comparison, load: float, commit: str) -> str:
    """Returns a line of the table."""
    few, ratios = comparison.unit == "s", comparison.ratios
    cells = [
        comparison.title,
        comparison.unit,
        f"{comparison.peer}: {spelled(comparison.theirs, few)}",
        spelled(comparison.ours, few),
        f"{comparison.ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        "" if comparison.by_cpu_time is None else f"{comparison.by_cpu_time:.2f}",
        "" if comparison.target is None else judged(comparison.ratio, comparison.target),
        f"{load:.1f}",
        commit,
    ]
    return f"| {' | '.join(cells)} |"


def spelled(figures: Sequence[float], few: bool) -> str:
    """Returns the median of figures and their range."""
    digits = 1 if few else 0
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(figures), statistics.median(figures), max(figures)))
    return f"{middle} ({low} to {high})"


def judged(ratio: float, target: float) -> str:
    """Returns a target and whether it was reached."""
    return f"{target:g}, reached" if ratio >= target else f"{target:g}, **missed**"


def table() -> str:
    """Returns the table of all pairs that were measured, with the machines and versions they were measured with."""
    lines, about = list(HEADER), []
    for name, pair in PAIRS.items():
        if record_of(name).exists():
            record = json.loads(record_of(name).read_text())
            told = {key: value for key, value in record["found"]["about"].items() if key != "how"}
            told["machine"] = told["machine"].partition(", load")[0]
            about += [f"- {key}: {value}" for key, value in told.items()]
            lines += [row(each, record["load"], record["commit"]) for each in comparisons(pair, record["found"])]
    wrapped = [textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in dict.fromkeys(about)]
    return "\n".join([*wrapped, "", *lines])


def write_table(page: Path) -> None:
    """Puts the table in the place of the one between the page's marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}")


if __name__ == "__main__":
    main()
