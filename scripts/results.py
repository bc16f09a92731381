"""Trains all shipped specs that have targets, on seeds that were not used for tuning, and writes the tables.

    python -m scripts.results train                       # everything without a record, one spec after another; hours
    python -m scripts.results train configs/cartpole/ppo.yaml --seeds 3
    python -m scripts.results write                       # docs/results.md from the records

A record holds one seed of one experiment: the score of the last policy (or the mean of the last evaluations, if the
spec says so), the curve, the time in seconds, and the commit. Records are kept in docs/results/learning.jsonl. If a
spec changes, all of its seeds are trained again. If the training code changes, only the first seed is trained again; if
its numbers match the old record to the last digit, the records of the other seeds stay valid. You can interrupt the
script and run it again; it skips the seeds that have records. Settings are tuned on seeds from 100 on, and results are
measured on seeds 0 to 9, or 0 to 4 if a seed takes more than five minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import yaml

from rlrun.engine.functional.intervals import t_quantile
from rlrun.engine.messages.errors import Interrupted, RlrunError
from rlrun.experiments.spec.load import load_experiments
from rlrun.experiments.trial.results import read_results
from rlrun.report.regression.suite import regress
from rlrun.report.regression.verdicts import Case
from rlrun.report.statistics import bootstrapped, iqm
from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS, STEP_NAMES

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "results" / "learning.jsonl"
PUBLISHED = Path(__file__).with_name("results_published.yaml")
PAGE = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- learning: written by scripts/results.py -->", "<!-- learning: end -->"
PUBLISHED_BEGIN, PUBLISHED_END = "<!-- published: written by scripts/results.py -->", "<!-- published: end -->"

MANY, FEW = 10, 5
"""Seeds per spec, and seeds per spec whose seeds take longer than `LONG_S`."""
LONG_S = 300.0

FLOOR = re.compile(r",? *regression_floor: [-0-9.e+]+")
EXPECT = re.compile(r"^( +expect: \{[^}\n]*)\}", re.MULTILINE)

BLOCKS = "▁▂▃▄▅▆▇█"
CURVE_POINTS = 16
FEWEST_SEEDS = 3
"""Rows with fewer seeds are marked."""

NO_NUMBERS = (
    "cli",
    "deploy",
    "report",
    "bridges",
    "experiments/launch",
    "experiments/tune",
    "experiments/search",
    "experiments/cluster",
    "experiments/runs",
    "engine/messages",
)
"""Folders that cannot change the numbers of a curve: they surround the training of a trial, or only word messages."""

Record = dict[str, Any]


def main() -> int:
    """Runs the command; returns 1 if a seed failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    train_parser = commands.add_parser("train", help="train all seeds that have no record yet")
    train_parser.add_argument("specs", nargs="*", type=Path, help="all specs with targets by default")
    train_parser.add_argument(
        "--seeds", type=int, help=f"number of seeds per spec; {MANY} by default, {FEW} for specs that take long"
    )
    commands.add_parser("write", help="write the tables from the records")
    asked = parser.parse_args()
    if asked.command == "write":
        write(read_records())
        return 0
    return train([path.resolve() for path in asked.specs] or specs_that_expect(), asked.seeds)


# --- Training


def specs_that_expect() -> list[Path]:
    """Returns the shipped specs that have targets, sorted by path."""
    found = sorted((ROOT / "configs").glob("*/*.yaml"))
    return [path for path in found if re.search(r"^ +expect:", path.read_text(), re.MULTILINE)]


def train(specs: Sequence[Path], seeds: int | None) -> int:
    """Trains the seeds of specs that have no record for the current code; returns 1 if one failed."""
    failed = 0
    for spec in specs:
        key, seed = key_of(spec), 0
        former = [record for record in records_of(spec) if record["settings"] == key["settings"]]
        while seed < (seeds or number_of_seeds(spec, key)):
            if not any(record["seed"] == seed for record in recorded(spec, key)):
                try:
                    confirm(former, keep(spec, seed, key), key)
                except Interrupted as interrupted:
                    sys.exit(str(interrupted))
                except RlrunError as error:
                    print(f"{spec.name} seed {seed}: {error}", file=sys.stderr, flush=True)
                    failed = 1
            seed += 1
    return failed


def number_of_seeds(spec: Path, key: Mapping[str, str]) -> int:
    """Returns the number of seeds for a spec, based on how long its recorded seeds took."""
    return FEW if any(record["seconds"] > LONG_S for record in recorded(spec, key)) else MANY


def confirm(former: list[Record], new: Sequence[Record], key: Mapping[str, str]) -> None:
    """Keeps a spec's records from older code if a seed trained with the current code has reproduced its old record.

    Args:
        former: The spec's older records; cleared, because one seed decides.
        new: The records of the seed that was trained again.
        key: The digests that the new records were made with.
    """
    numbers = ("experiment", "seed", "metric", "value", ENV_STEPS, SGD_STEPS, "curve")
    same = [
        record for record in former for other in new if all(record.get(name) == other.get(name) for name in numbers)
    ]
    if len(same) == len(new):
        others = [{**record, **key} for record in former if record["seed"] != new[0]["seed"]]
        add(others)
        print(f"{new[0]['spec']}: the numbers of {len(others)} other records stand", flush=True)
    former.clear()


def keep(spec: Path, seed: int, key: Mapping[str, str]) -> list[Record]:
    """Trains one seed of a spec and adds its records, one for each experiment and target; returns them."""
    commit = described_commit()
    experiments = load_experiments([spec], [f"seeds=[{seed}]", "expect.seeds=null", "expect.passes=1"])
    records = []
    with tempfile.TemporaryDirectory(prefix="results-") as runs:
        for verdict in regress(experiments, runs_dir=Path(runs)):
            for case in verdict.cases:
                about = {"spec": str(spec.relative_to(ROOT)), "experiment": verdict.experiment, "seed": seed}
                for measured in measurements(case):
                    records.append({**about, **measured, "commit": commit, **key})
                    told = f"{measured['metric']} {measured['value']} ({case.outcome})"
                    print(f"{verdict.experiment} seed {seed}: {told}", flush=True)
    add(records)
    return records


def measurements(case: Case) -> list[Record]:
    """Returns the measured part of a case's records, one for each target: value, curve and time."""
    if case.error:
        raise RlrunError(case.error)
    rows = read_results(case.directory)
    found = []
    for metric, least in case.expected.items():
        name = f"evaluation/{metric}" if any(f"evaluation/{metric}" in row for row in rows) else metric
        curve = [[int(row[case.counter]), round(float(row[name]), 2)] for row in rows if row.get(name) is not None]
        kept = np.linspace(0, len(curve) - 1, min(len(curve), 2 * CURVE_POINTS)).astype(int).tolist() if curve else []
        found.append(
            {
                "metric": metric,
                "expected": least,
                "value": case.values[metric],
                case.counter: case.steps,
                "seconds": round(case.seconds, 1),
                "curve": [curve[i] for i in kept],
            }
        )
    return found


# --- Records


def read_records() -> list[Record]:
    """Returns all records; for each metric of a seed, only the newest one."""
    if not RECORDS.exists():
        return []
    found = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    keys = ("spec", "experiment", "seed", "metric")
    return list({tuple(record[key] for key in keys): record for record in found}.values())


def records_of(spec: Path) -> list[Record]:
    """Returns the records of a spec; for each metric of a seed, only the newest one."""
    return [record for record in read_records() if record["spec"] == str(spec.relative_to(ROOT))]


def recorded(spec: Path, key: Mapping[str, str]) -> list[Record]:
    """Returns the records of a spec that match a key."""
    return [record for record in records_of(spec) if belongs(record, key)]


def belongs(record: Record, key: Mapping[str, str]) -> bool:
    """Whether a record was made with these settings and this code."""
    return all(record[name] == digest for name, digest in key.items())


def add(records: Sequence[Record]) -> None:
    """Adds records; they replace older ones of the same seeds."""
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    with RECORDS.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def key_of(spec: Path) -> dict[str, str]:
    """Returns digests of what a result depends on: the spec without its comments and floor, and the training code."""
    code = hashlib.sha256()
    package = ROOT / "rlrun"
    for path in sorted(package.rglob("*.py")):
        if not path.relative_to(package).as_posix().startswith(tuple(f"{place}/" for place in NO_NUMBERS)):
            code.update(path.read_bytes())
    settings = json.dumps(yaml.safe_load(FLOOR.sub("", spec.read_text())))
    return {"settings": hashlib.sha256(settings.encode()).hexdigest()[:16], "code": code.hexdigest()[:16]}


def described_commit() -> str:
    """Returns the current commit, with a suffix if the code or the specs have uncommitted changes."""
    git = ["git", "-C", str(ROOT)]
    words = [*git, "rev-parse", "--short=7", "HEAD"]
    commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    is_clean = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "rlrun", "configs"], check=False).returncode == 0
    return commit if is_clean else f"{commit}+changes"


# --- The page


def write(records: Sequence[Record]) -> None:
    """Writes the tables between the markers of the page, and the regression floors into the specs.

    Args:
        records: The measurements.
    """
    PAGE.write_text(between(PAGE.read_text(), BEGIN, END, table(records)))
    figures = yaml.safe_load(PUBLISHED.read_text())
    PAGE.write_text(between(PAGE.read_text(), PUBLISHED_BEGIN, PUBLISHED_END, published_table(figures, records)))
    for (spec, experiment, _), seeds in by_metric(records).items():
        if sum(key[:2] == (spec, experiment) for key in by_metric(records)) > 1:
            continue  # only an experiment with a single metric gets a floor
        found = bootstrapped(iqm, [[record["value"] for record in seeds]])
        publish_floor(ROOT / spec, f"{found.low:.{digits_of(seeds[0])}f}")


def between(page: str, begin: str, end: str, text: str) -> str:
    """Returns a page with the text between two markers replaced."""
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        sys.exit(f"{PAGE} has no place for the table: {begin} ... {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def publish_floor(spec: Path, floor: str) -> None:
    """Writes the lower end of the interval into a spec with one experiment; the target stays unchanged."""
    text = FLOOR.sub("", spec.read_text())
    if len(EXPECT.findall(text)) == 1:
        spec.write_text(EXPECT.sub(rf"\1, regression_floor: {floor}}}", text))


def digits_of(record: Record) -> int:
    """Returns the number of decimal places for a record's metric."""
    if record["metric"].endswith(("_rate", "exploitability")):
        return 3
    return 2 if abs(record["expected"]) < 1 else 1


def table(records: Sequence[Record]) -> str:
    """Formats records as a table, with a row for each metric of an experiment."""
    rows = [
        "| spec | target | IQM [95% interval] | worst seed | seeds | s each | curve | commit |",
        "| -- | -- | -- | -- | -- | -- | -- | -- |",
    ]
    for (spec, _, _), seeds in by_metric(records).items():
        rows.append(row(spec, seeds))
    return "\n".join(rows)


def row(spec: str, seeds: Sequence[Record]) -> str:
    """Returns the row for a metric of an experiment; the gate holds if the lower end of the interval reaches it."""
    values = [record["value"] for record in seeds]
    found = bootstrapped(iqm, [values])
    least = seeds[0]["expected"]
    seconds = float(np.median([record["seconds"] for record in seeds]))
    commits = ", ".join(dict.fromkeys(record["commit"] for record in seeds))
    counter = SGD_STEPS if SGD_STEPS in seeds[0] else ENV_STEPS
    steps = max(record[counter] for record in seeds)
    metric = seeds[0]["metric"]
    digits = digits_of(seeds[0])
    what = "" if metric == "episode_return_mean" else f" `{metric}`"
    unit = f" {STEP_NAMES[counter]}" if counter == SGD_STEPS else ""
    verdict = "" if found.low >= least else " **missed**"
    interval = f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"
    return (
        f"| `{spec}`{what} | {least:g} in {steps:,}{unit} | {interval}{verdict} | "
        f"{min(values):.{digits}f} | {marked(len(seeds))} | {seconds:.0f} | "
        f"{sparkline(seeds)} | {commits} |"
    )


def marked(seeds: int) -> str:
    """Returns the number of seeds, with a mark if it is small.

    Examples:
        >>> marked(5), marked(2)
        ('5', '2†')
    """
    return f"{seeds}†" if 0 < seeds < FEWEST_SEEDS else str(seeds)


def not_measured(names: Sequence[str]) -> list[str]:
    """Returns the lines below a table that name the entries without records."""
    text = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
    return ["", fill(f"Not measured yet: {text}.", 120, break_on_hyphens=False)] if names else []


def published_table(figures: Sequence[Mapping[str, Any]], records: Sequence[Record]) -> str:
    """Formats published figures next to rlrun's results after the same number of env steps, and names those without."""
    rows = [
        "| spec | env steps | source | its env | its seeds | its mean [95% interval] | our env | our seeds | "
        "our IQM [95% interval] | intervals |",
        "| -- | -- | -- | -- | -- | -- | -- | -- | -- | -- |",
    ]
    recorded_specs = {record["spec"] for record in records}
    measured = [figure for figure in figures if figure["spec"] in recorded_specs]
    missing = [figure["spec"] for figure in figures if figure not in measured]
    return "\n".join([*rows, *(published_row(figure, records) for figure in measured), *not_measured(missing)])


def published_row(figure: Mapping[str, Any], records: Sequence[Record]) -> str:
    """Returns the row for a published figure.

    The published interval is a Student's t interval of the mean over its seeds; a single run has none.

    Args:
        figure: The spec, env steps, source and env of a figure, and its mean, standard deviation and seeds.
        records: rlrun's measurements.
    """
    (entry,) = yaml.safe_load((ROOT / figure["spec"]).read_text()).values()
    mean, seeds = figure["mean"], figure["seeds"]
    values = [record["value"] for record in records if record["spec"] == figure["spec"]]
    theirs, ours, verdict = f"{mean:,}", "not measured", ""
    if values:
        found = bootstrapped(iqm, [values])
        ours = f"{found.value:,.0f} [{found.low:,.0f}, {found.high:,.0f}]"
    if seeds > 1:
        half = t_quantile(seeds - 1) * figure["std"] / math.sqrt(seeds)
        theirs += f" [{mean - half:,.0f}, {mean + half:,.0f}]"
        if values:
            verdict = "overlap"
            if found.low > mean + half or found.high < mean - half:
                verdict = "ours is above" if found.low > mean else "ours is below"
    cells = (figure["spec"], f"{figure['env_steps']:,}", figure["source"], figure["env"], seeds, theirs, entry["env"])
    return f"| {' | '.join(map(str, (*cells, marked(len(values)), ours, verdict)))} |"


def sparkline(seeds: Sequence[Record]) -> str:
    """Returns the mean curve over an experiment's seeds as a line of blocks, scaled from minimum to maximum."""
    if not all(record["curve"] for record in seeds):
        return ""
    end = min(record["curve"][-1][0] for record in seeds)
    places = np.linspace(0, end, CURVE_POINTS)
    curves = [np.interp(places, *np.array(record["curve"], float).T) for record in seeds]
    mean = np.mean(curves, axis=0)
    span = float(np.ptp(mean)) or 1.0
    return "".join(BLOCKS[int((value - mean.min()) / span * (len(BLOCKS) - 1))] for value in mean)


def by_metric(records: Sequence[Record]) -> Mapping[tuple[str, str, str], list[Record]]:
    """Groups records by spec, experiment and metric, sorted by spec and seed."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for record in sorted(records, key=lambda record: (record["spec"], record["experiment"], record["seed"])):
        found.setdefault((record["spec"], record["experiment"], record["metric"]), []).append(record)
    return found


if __name__ == "__main__":
    sys.exit(main())
