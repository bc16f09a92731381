"""The table of a run's configurations over their seeds, in `rlrun show` and at the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.cli.tables import cell_text, stdout_width, table, without_empty_columns

if TYPE_CHECKING:
    from rlrun.report.summary import GroupSummary

MOST_ROWS = 20
"""Rows of a table, unless the user wants all of them."""


def configurations_table(
    summaries: list[GroupSummary], metric: str, *, whole: bool = False, more: str = "--all"
) -> str:
    """Lays out configurations over their seeds, a row each; "" where each is a single trial.

    Args:
        summaries: The configurations, the best first.
        metric: The metric by which they are judged.
        whole: Whether all of them are listed, not just the best.
        more: Command or option that lists those that are left out.
    """
    if all(summary.seeds == 1 for summary in summaries):
        return ""
    rows = [
        [
            summary.label,
            summary.seeds,
            summary.status,
            None if summary.env_steps is None else round(summary.env_steps),
            None if summary.mean is None else summary.mean.value,
            "-" if summary.mean is None else f"{cell_text(summary.mean.low)} to {cell_text(summary.mean.high)}",
            None if summary.iqm is None else summary.iqm.value,
            summary.best,
            summary.counterpart,
        ]
        for summary in (summaries if whole else summaries[:MOST_ROWS])
    ]
    other = counterpart_words(metric)
    headings = ["configuration", "seeds", "status", "env steps", "mean", "95 % interval", "IQM", "best", other]
    headings, rows = without_empty_columns(headings, rows)
    listed = table(headings, rows, stdout_width(), ["status", "env steps"])
    return f"{metric} at the end, over seeds\n{listed}{left_out(len(summaries) - len(rows), more)}"


def counterpart_words(metric: str) -> str:
    """Returns the heading of the column with a metric's counterpart: of evaluations, or of training."""
    return "in training" if metric.startswith("evaluation/") else "evaluation"


def left_out(rows: int, more: str = "--all") -> str:
    """Returns a line with the number of omitted rows and the command or option that lists them, "" for none."""
    return f"\n{rows:,} more: {more}" if rows else ""
