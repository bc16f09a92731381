"""Writes the table in docs/performance.md from the measurements of `benchmarks.all`.

    python -m benchmarks.page FILE [--page FILE]

It accepts only measurements of a single commit, without uncommitted changes and with at least three repetitions. A row
contains the medians of rlrun and of another framework, their ratio, and the distance to the floor: the speed that the
env steps and the matrix products of this work would reach alone on the same core (`benchmarks.floor`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.all import PAIRS, Pair
from benchmarks.peers import FLOOR, ROOT, SB3, Measurement, by_cpu_time, rates

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- pairs: written by benchmarks/page.py -->", "<!-- pairs: end -->"
WIDTH = 120
LEAST_REPEATS = 3
HEADER = (
    "| work | other side | rlrun | ratio (range) | by CPU time | to reach | floor / rlrun | load |",
    "| -- | -- | -- | -- | -- | -- | -- | -- |",
)


@dataclass(frozen=True)
class Comparison:
    """Measurements of two sides of a pair, which took turns.

    Attributes:
        title: What was measured.
        unit: `env steps/s`, where more is better, or `s`, where less is better.
        peer: Name of the other side.
        theirs: Measurements of the other side, one for each repetition.
        ours: Measurements of rlrun.
        by_cpu_time: The ratio of env steps per second of CPU, which a busy machine affects less; None for wall times.
        target: The ratio that rlrun should reach; None if there is no target.
        floor: Measurements of the floor; empty if it is not measured.
    """

    title: str
    unit: str
    peer: str
    theirs: Sequence[float]
    ours: Sequence[float]
    by_cpu_time: float | None = None
    target: float | None = None
    floor: Sequence[float] = ()

    @property
    def ratio(self) -> float:
        """How many times as fast rlrun is, comparing medians."""
        return self._ratio(statistics.median(self.ours), statistics.median(self.theirs))

    @property
    def ratios(self) -> list[float]:
        """How many times as fast rlrun is in each repetition."""
        return [self._ratio(one, other) for one, other in zip(self.ours, self.theirs, strict=True)]

    def _ratio(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.unit == "s" else ours / theirs


def main() -> None:
    """Replaces the table between the page's markers with the table of a file's measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="file that `benchmarks.all --json` has written")
    parser.add_argument("--page", type=Path, default=PAGE, help="page that contains the table")
    options = parser.parse_args()
    before, _, rest = options.page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    written = table(json.loads(options.file.read_text()))
    options.page.write_text(f"{before}{BEGIN}\n\n{written}\n\n{END}{after}")


def table(kept: Measurement) -> str:
    """Returns the table of all measured pairs, below a list of the machine and the versions.

    Raises:
        SystemExit: There were uncommitted changes, or a pair has too few repetitions.
    """
    if "+" in kept["commit"]:
        raise SystemExit(f"measured at {kept['commit']}: commit first, and measure then")
    lines, about = list(HEADER), [f"- commit: {kept['commit']}"]
    for name, pair in PAIRS.items():
        if name in kept["pairs"]:
            record = kept["pairs"][name]
            told = {key: value for key, value in record["found"]["about"].items() if key != "how"}
            told["machine"] = told["machine"].partition(", load")[0]
            about += [f"- {key}: {value}" for key, value in told.items()]
            lines += [row(each, record["load"]) for each in comparisons(name, pair, record["found"])]
    if missing := [name for name in PAIRS if name not in kept["pairs"]]:
        about.append(f"- not measured: {', '.join(missing)}")
    wrapped = [
        textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in dict.fromkeys(about)
    ]
    return "\n".join([*wrapped, "", *lines])


def comparisons(name: str, pair: Pair, found: Measurement) -> Iterator[Comparison]:
    """Yields a pair's comparisons: each of rlrun's sides with each side of another framework.

    Raises:
        SystemExit: There are fewer than three repetitions.
    """
    for compared in found["comparisons"]:
        title = compared["title"] if pair.target is None else f"{compared['title']}; no C++ compiler"
        sides, aims = compared["measured"], compared["aims"]
        # Sides that start with an empty cache are measured only once.
        repeated = {side: runs for side, runs in sides.items() if len(runs) >= LEAST_REPEATS}
        if not repeated:
            raise SystemExit(f"{name} was repeated fewer than {LEAST_REPEATS} times, which is not enough")
        ours = {side: runs for side, runs in repeated.items() if side.startswith("rlrun")}
        for peer, theirs in repeated.items():
            if peer not in ours and peer != FLOOR.name:
                for side, runs in ours.items():
                    own = title if side == "rlrun" else f"{title}: {side}"
                    target = aim_of(aims.get(side, {}), peer, pair)
                    yield comparison(own, peer, theirs, runs, target, repeated.get(FLOOR.name, ()))


def aim_of(aims: Mapping[str, float], peer: str, pair: Pair) -> float | None:
    """Returns the target ratio to a framework; None if there is none."""
    if pair.target is None:
        return aims.get(peer)
    return pair.target if peer == SB3 else None


def comparison(
    title: str,
    peer: str,
    theirs: Sequence[Measurement],
    ours: Sequence[Measurement],
    target: float | None = None,
    floor: Sequence[Measurement] = (),
) -> Comparison:
    """Returns the comparison of two sides, by env steps per second or by the seconds from Enter to the end."""
    if "total_s" in ours[0]:
        their_s, our_s = ([run["total_s"] for run in runs] for runs in (theirs, ours))
        return Comparison(title, "s", peer, their_s, our_s, target=target)
    cpu = by_cpu_time(ours, theirs)
    return Comparison(title, "env steps/s", peer, rates(theirs), rates(ours), cpu, target, rates(floor))


def row(comparison: Comparison, load: float) -> str:
    """Returns a row of the table."""
    few, ratios, floor = comparison.unit == "s", comparison.ratios, comparison.floor
    cells = [
        comparison.title,
        f"{comparison.peer}: {spelled(comparison.theirs, few)}",
        spelled(comparison.ours, few),
        f"{comparison.ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        "" if comparison.by_cpu_time is None else f"{comparison.by_cpu_time:.2f}",
        "" if comparison.target is None else judged(comparison.ratio, comparison.target),
        f"{statistics.median(floor) / statistics.median(comparison.ours):.1f}" if floor else "",
        f"{load:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def spelled(figures: Sequence[float], few: bool) -> str:
    """Returns the median and the range of the measurements."""
    digits = 1 if few else 0
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(figures), statistics.median(figures), max(figures)))
    return f"{middle}{' s' if few else ''} ({low} to {high})"


def judged(ratio: float, target: float) -> str:
    """Returns a target, and whether it was reached."""
    return f"{target:g}, reached" if ratio >= target else f"{target:g}, **missed**"


if __name__ == "__main__":
    main()
