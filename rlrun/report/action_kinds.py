"""Comparison of a policy's returns with greedy and with sampled actions, from its evaluation results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlrun.engine.data.action_kind import ACTION_KINDS, ActionKind, other_kind
from rlrun.experiments.spec.experiment import EVALUATION_METRICS, OTHER_KIND_GAP
from rlrun.experiments.trial.results import RETURN
from rlrun.report.diagnosis.finding import number_text

_MEANS = {kind: f"evaluation/{kind}/{RETURN}" for kind in ACTION_KINDS}
_GAPS = {kind: f"evaluation/{kind}/{OTHER_KIND_GAP}" for kind in ACTION_KINDS}

KIND_METRICS = (*_MEANS.values(), *_GAPS.values())
"""Names of the metrics that compare greedy and sampled actions."""


@dataclass(frozen=True)
class DifferingKinds:
    """Mean returns of a policy with greedy and with sampled actions, whose 95% intervals do not overlap.

    Attributes:
        judged: Kind of actions, greedy or sampled, whose return counts as the policy's evaluation.
        mean: Mean return of this kind of actions.
        other_mean: Mean return of the other kind of actions.
    """

    judged: ActionKind
    mean: float
    other_mean: float

    @property
    def text(self) -> str:
        """Mean returns of greedy and sampled actions as text."""
        return (
            f"{other_kind(self.judged)} actions return {number_text(self.other_mean)} on average, {self.judged} ones "
            f"{number_text(self.mean)}"
        )

    def line(self, where: str = "") -> str:
        """Sentences on the difference, for the end of a command's output.

        Args:
            where: Names of the trials with this difference; "" if there is only one trial.
        """
        text = f"{self.text[0].upper()}{self.text[1:]}{where}: their 95% intervals do not overlap."
        return f"{text} Results use {self.judged} actions (evaluation.actions)."


def differing_kinds(value_of: Callable[[str], Any]) -> DifferingKinds | None:
    """Mean returns of greedy and sampled actions if their intervals do not overlap, else None.

    Args:
        value_of: Function that returns the value of a metric by name, or None if the metric has no value.

    Examples:
        >>> row = {"evaluation/episode_return_mean": -2.0, "evaluation/sampled/episode_return_mean": 1.5}
        >>> print(differing_kinds({**row, "evaluation/sampled/episode_return_gap": 3.1}.get).line())
        Sampled actions return 1.5 on average, greedy ones -2: their 95% intervals do not overlap. Results use greedy \
actions (evaluation.actions).
        >>> differing_kinds({**row, "evaluation/sampled/episode_return_gap": 0.0}.get) is None
        True
    """
    for kind in ACTION_KINDS:
        if value_of(_GAPS[kind]):
            return DifferingKinds(other_kind(kind), value_of(EVALUATION_METRICS[0].name), value_of(_MEANS[kind]))
    return None


def differing_line(trials: Mapping[str, Callable[[str], Any]]) -> str:
    """Message that names the trials whose greedy and sampled actions differ in return, with the first trial's returns.

    Args:
        trials: For each trial, by name, a function from metric names to values, as in `differing_kinds`.
    """
    found = {name: kinds for name, value_of in trials.items() if (kinds := differing_kinds(value_of)) is not None}
    if not found:
        return ""
    name, first = next(iter(found.items()))
    return first.line(f" in {name} ({len(found)} of {len(trials)} trials)" if len(trials) > 1 else "")
