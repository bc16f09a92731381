"""Report page of runs: a single HTML file without external resources."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlrun.engine.settings.metric import Mode
from rlrun.experiments.runs.run_state import read_run_state
from rlrun.report.action_kinds import KIND_METRICS
from rlrun.report.metric_grid import grid_metrics
from rlrun.report.page_data import USUAL_METRICS, page_data, world_metrics
from rlrun.report.plain_json import plain
from rlrun.report.reading import chosen_goal, read_runs, require_reported

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = (
    "drawing.js",
    "figure.js",
    "chart.js",
    "data.js",
    "head.js",
    "curves.js",
    "tables.js",
    "sweep.js",
    "slices.js",
    "history.js",
    "profiles.js",
    "population.js",
    "run.js",
    "page.js",
)
"""JavaScript files of the page, in the order of execution."""


def write_report(
    paths: Sequence[Path], output: Path, *, metrics: Sequence[str] = (), mode: Mode | None = None
) -> tuple[list[str], list[str]]:
    """Writes a report of one run or several.

    Args:
        paths: Directories of the runs.
        output: File to write, overwritten if it exists; missing parent folders are created.
        metrics: Metrics whose curves are shown; trials are judged by the first one. () for the goal of the runs.
        mode: Whether higher or lower values of the first metric are better; None for the mode of the run's scheduler,
            else "max".

    Returns:
        The parts that could not be read, and the runs in which greedy and sampled actions differ, a sentence each.

    Raises:
        UsageError: If a directory is not a run, or a metric is reported by none of the runs.
    """
    trials = [trial for path in paths for trial in read_run_state(Path(path)).trials]  # without their rows
    shown, small = [*metrics, *USUAL_METRICS, *world_metrics(trials)], grid_metrics(trials)
    read = [*shown, *small, *KIND_METRICS]
    runs = read_runs(paths, read)
    require_reported(runs, metrics)
    metric, mode = chosen_goal(runs, metrics[0] if metrics else None, mode)
    if any(run.goal[0] != metric for run in runs):
        runs = read_runs(paths, [metric, *read])
    data = page_data(runs, metric, mode, shown, small)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page_of(data), encoding="utf-8")
    problems = [problem for run in data["runs"] for problem in run["problems"]]
    return problems, [run["kinds"] for run in data["runs"] if run["kinds"]]


def page_of(data: Mapping[str, Any]) -> str:
    """HTML of a report page, with the report's data embedded."""
    parts = {
        "title": html.escape(str(data["title"])),
        "style": (ASSETS / "page.css").read_text(encoding="utf-8"),
        "script": "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "data": embedded_json(data),
    }
    template = (ASSETS / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def embedded_json(data: Any) -> str:
    r"""Serializes data to JSON for an HTML script element, such that no text in it can end the element.

    Examples:
        >>> print(embedded_json({"name": "</script>"}))
        {"name":"\u003c/script>"}
    """
    return json.dumps(plain(data), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
