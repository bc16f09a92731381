"""The leading configuration of a report: its score, and its lead over the next one, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlrun.engine.settings.metric import Mode
from rlrun.report.comparison import Comparison
from rlrun.report.statistics import Estimate, mean_difference
from rlrun.report.summary import GroupSummary

MOST_SHOWN = 5


@dataclass(frozen=True)
class Ranked:
    """One of the best configurations.

    Attributes:
        label: Name of the configuration.
        seeds: Number of its trials or populations.
        iqm: Interquartile mean of its scores.
    """

    label: str
    seeds: int
    iqm: Estimate


@dataclass(frozen=True)
class Leader:
    """The leading configuration and its lead over the next one.

    Attributes:
        first: The best configurations, best first; at least two.
        configurations: Number of all configurations with a score.
        lead: Difference of the first two configurations' means with Welch's interval, positive if the first is better;
            None with a single seed.
        probability: Probability of improvement of the first over the second; None without a comparison.
        is_settled: Whether the lead over the second configuration is significant.
    """

    first: list[Ranked]
    configurations: int
    lead: Estimate | None
    probability: Estimate | None
    is_settled: bool


def leader_of(comparison: Comparison | None, summaries: Sequence[GroupSummary], mode: Mode) -> Leader | None:
    """Leader among groups, with the numbers of their comparison; None with fewer than two groups with values.

    Args:
        comparison: The comparison of the groups; None if there are too many, which leaves the lead without interval.
        summaries: Summaries of the groups, best first.
        mode: Whether higher or lower values of the metric are better.
    """
    if comparison is None:
        ranked = [Ranked(one.label, one.seeds, one.iqm) for one in summaries if one.iqm is not None]
        return Leader(ranked[:MOST_SHOWN], len(ranked), None, None, is_settled=False) if len(ranked) > 1 else None
    first, second = comparison.sides[:2]
    pair = next((p for p in comparison.pairs if {p.ahead, p.behind} == {first.label, second.label}), None)
    lead = None
    if min(first.samples, second.samples) > 1:
        better, worse = (first, second) if mode == "max" else (second, first)
        lead = mean_difference([better.end], [worse.end])
    return Leader(
        first=[Ranked(side.label, side.samples, side.at_end["iqm"]) for side in comparison.sides[:MOST_SHOWN]],
        configurations=len(comparison.sides),
        lead=lead,
        probability=None if pair is None or pair.ahead != first.label or lead is None else pair.probability,
        is_settled=pair is not None and pair.settled,
    )


def rank_order(comparison: Comparison | None, summaries: Sequence[GroupSummary]) -> list[str]:
    """Labels of all groups, best first: in the order of the comparison, then in that of the summaries."""
    compared = [side.label for side in comparison.sides] if comparison is not None else []
    return list(dict.fromkeys([*compared, *(summary.label for summary in summaries)]))
