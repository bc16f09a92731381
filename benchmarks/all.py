"""Runs all speed benchmarks against other frameworks and writes one table of them into docs/performance.md.

    python -m benchmarks.all [--only ppo-a1,dqn,...] [--repeats N] [--again] [--page FILE]

Each pair is measured by the benchmark that it belongs to, in which both sides take turns; `PAIRS` names them. What a
pair measured is kept under `.bench/all/` as soon as it is there, so that a call goes on where one before was ended;
`--again` measures it again. After each pair the table is written from all that is kept. It says which target was
missed, and at which load of the machine each pair began: figures of a busy machine are not worth publishing.

What is learned rather than how fast is not here: see `masks` and `pbt`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers import BENCH, ROOT, Measurement, by_cpu_time, parser_of, rates
from tools.results import described_commit

RECORDS = BENCH / "all"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- pairs: written by benchmarks/all.py -->", "<!-- pairs: end -->"
WIDTH = 120
HEADER = (
    "| pair | unit | other side | rlrun | ratio (range) | by CPU time | target | load | commit |",
    "|---|---|---|---|---|---|---|---|---|",
)


class Pair(NamedTuple):
    """One part of a benchmark.

    Attributes:
        topic: The benchmark's folder.
        part: What its `--only` calls the part.
        target: The ratio that rlrun is to reach without a C++ compiler; None where it has one, and the benchmark says.
    """

    topic: str
    part: str
    target: float | None = None


PAIRS = {
    "ppo-a1": Pair("ppo", "A1"),
    "ppo-a1-without-compiler": Pair("ppo", "A1", target=5.0),
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
    "qmix-two-step": Pair("qmix", "two_step"),
    "qmix-simple-spread": Pair("qmix", "simple_spread"),
    "impala-cartpole": Pair("impala", "cartpole"),
    "impala-pong": Pair("impala", "pong"),
    "sweep": Pair("sweep", "sweep"),
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
    """Measures the pairs that are not kept yet, and writes the table."""
    parser = parser_of(str(__doc__), PAIRS)
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each side")
    parser.add_argument("--again", action="store_true", help="measure again what is there already")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose table is written")
    options = parser.parse_args()
    for name in options.only:
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
        command = [sys.executable, "-m", f"benchmarks.{pair.topic}.run", *arguments]
        surroundings = dict(os.environ)
        if pair.target is not None:
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
    """Yields what a pair's benchmark compared: each of rlrun's sides with the first of another framework."""
    for compared in found["comparisons"]:
        title = compared["title"] if pair.target is None else f"{compared['title']}; no C++ compiler"
        sides = compared["measured"]
        peer = next(name for name in sides if not name.startswith("rlrun"))
        for side, ours in sides.items():
            if side.startswith("rlrun"):
                theirs = sides[peer][: len(ours)]  # what is measured with an empty cache is measured once
                target = compared["aims"].get(side) if pair.target is None else pair.target
                yield comparison(title if side == "rlrun" else f"{title}: {side}", peer, theirs, ours, target)


def comparison(
    title: str, peer: str, theirs: Sequence[Measurement], ours: Sequence[Measurement], target: float | None
) -> Comparison:
    """Returns how the env steps per second of two sides compare, or their seconds from Enter to the end."""
    if "total_s" in ours[0]:
        their_s, our_s = ([run["total_s"] for run in runs] for runs in (theirs, ours))
        return Comparison(title, "s", peer, their_s, our_s, None, target)
    return Comparison(title, "env steps/s", peer, rates(theirs), rates(ours), by_cpu_time(ours, theirs), target)


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
