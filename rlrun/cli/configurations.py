"""Table of a run's configurations, aggregated over seeds, in `rlrun show` and at the end of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rlrun.cli.tables import cell_text, listed
from rlrun.report.step_axis import STEP_NAMES, counted_metric

if TYPE_CHECKING:
    from rlrun.report.summary import GroupSummary

MOST_ROWS = 20
"""Default maximum number of rows of a table."""


def configurations_table(
    summaries: list[GroupSummary], metric: str, *, whole: bool = False, more: str = "--all"
) -> str:
    """Formats a table of configurations aggregated over seeds; "" if each configuration has a single trial.

    Args:
        summaries: The configurations, the best first.
        metric: Metric for the comparison of configurations.
        whole: Whether to list all configurations, not only the best.
        more: Command or option that lists the omitted configurations.
    """
    if all(summary.seeds == 1 for summary in summaries):
        return ""
    shown = summaries if whole else summaries[:MOST_ROWS]
    counted = counted_metric(asdict(summary) for summary in summaries)
    steps = STEP_NAMES[counted]
    columns: dict[str, Callable[[GroupSummary], Any]] = {
        "configuration": lambda one: one.label,
        "seeds": lambda one: one.seeds,
        "status": lambda one: one.status,
        steps: lambda one: (count := getattr(one, counted)) and round(count),
        "mean": lambda one: one.mean and one.mean.value,
        "95 % interval": lambda one: f"{cell_text(one.mean.low)} to {cell_text(one.mean.high)}" if one.mean else "-",
        "IQM": lambda one: one.iqm and one.iqm.value,
        "best": lambda one: one.best,
        counterpart_words(metric): lambda one: one.counterpart,
    }
    rows = listed(shown, columns, ["status", steps], drops_empty=True)
    return f"{metric} at the end, over seeds\n{rows}{left_out(len(summaries) - len(shown), more)}"


def counterpart_words(metric: str) -> str:
    """Heading of the table column for the counterpart of a metric, in evaluations or in training."""
    return "in training" if metric.startswith("evaluation/") else "evaluation"


def left_out(rows: int, more: str = "--all") -> str:
    """Footer line with the number of omitted rows and the command or option that lists them, "" for none."""
    return f"\n{rows:,} more: {more}" if rows else ""
