"""Interface of scheduling rules.

A rule is passed each trial (`add`, in the order of the trial table), each result (`on_result`) and each trial that
ended (`remove`). It uses no Ray, no files and no clock. Its state depends on the set of results and not on the order in
which different trials delivered them, so that a killed run restores its rule from its own records::

    for trial in table:
        rule.add(trial)
    for trial, time, score in sorted(rows, key=time):
        rule.on_result(trial, time, score)       # these decisions were carried out already, or are repeated
    for trial in ended:                          # done, failed, or stopped by the rule itself
        rule.remove(trial)
    decided = rule.released()                    # of waiting trials; those that ended are not among them

A trial whose last decision was "wait" and which is not in `decided` still waits. A trial that is resumed from an older
checkpoint repeats some rows: only the first time counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Verdict = Literal["continue", "stop", "wait"]

UNITS = {
    "env_steps": "{} env steps",
    "agent_steps": "{} agent steps",
    "sgd_steps": "{} SGD steps",
    "iteration": "iteration {}",
    "episodes": "{} episodes",
    "time_total_s": "{} s",
}
"""Formats of an amount of each time attribute."""


@dataclass(frozen=True)
class Orders:
    """Orders for a member of a population after a generation.

    Attributes:
        generation: Number of the generation, from 1.
        parent: The trial whose weights it copies, None to keep its own.
        checkpoint: Path of that trial's checkpoint, None without a parent.
        params: New settings, by dotted path in the config.
    """

    generation: int
    parent: str | None
    checkpoint: str | None
    params: dict[str, Any]


@dataclass(frozen=True)
class Decision:
    """A rule's decision on a trial after a result.

    Attributes:
        verdict: "continue"; "stop", for good; or "wait", paused with a checkpoint until `Rule.released` has it.
        reason: The reason for users; "" if there is none.
        orders: Changes when it continues, None for none.
        rung: The rung at which this result was compared, in the rule's time; None if it was not compared. It is the
            budget for searchers that learn from partial results.
    """

    verdict: Verdict
    reason: str = ""
    orders: Orders | None = None
    rung: float | None = None


CONTINUE = Decision("continue")


class Rule(Protocol):
    """A scheduling rule: decides on trials from their results."""

    def add(self, trial: str) -> None:
        """Adds a trial, in the order of the table and before its first result; adding it again has no effect."""

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Records a result and decides; also for the last result of a trial that ends by itself.

        Args:
            trial: Name of the trial.
            time: Its progress, which increases from one result to the next, except after a restart.
            score: Its score, higher is better (a metric to be minimised is negated); None if there is none yet, which
                counts as worse than any.
        """

    def remove(self, trial: str) -> None:
        """Records that a trial has ended, by itself or because it was stopped."""

    def released(self) -> dict[str, Decision]:
        """Decisions on waiting trials since the last call."""


@dataclass(frozen=True)
class Measure:
    """Meaning of time and score, for the reasons of decisions.

    Attributes:
        metric: Name of the score's metric.
        mode: Whether higher or lower values of the metric are better; with "min", scores are its negated values.
        time_attr: Unit of time, such as ``env_steps``.
    """

    metric: str = "episode_return_mean"
    mode: Literal["max", "min"] = "max"
    time_attr: str = "env_steps"

    @property
    def worse_than(self) -> str:
        """Relation of a value to a better one: "below" or "above"."""
        return "below" if self.mode == "max" else "above"

    def value(self, score: float) -> str:
        """A score as text, in the metric's own value.

        Examples:
            >>> Measure().value(12.375), Measure(mode="min").value(-1234.5), Measure().value(-math.inf)
            ('12.38', '1,234', 'no episode_return_mean')
        """
        if score == -math.inf:
            return f"no {self.metric}"
        number = score if self.mode == "max" else -score
        return f"{number:,.0f}" if 1000 <= abs(number) < math.inf else f"{number:.4g}"

    def moment(self, time: float) -> str:
        """A time as text with its unit.

        Examples:
            >>> Measure().moment(10_000), Measure(time_attr="time_total_s").moment(7.5)
            ('10,000 env steps', '7.5 s')
        """
        number = f"{time:,.0f}" if time == round(time) or time >= 1000 else f"{time:.4g}"
        return UNITS.get(self.time_attr, f"{self.time_attr} {{}}").format(number)


def comparable(score: float | None) -> float:
    """A score as a sortable number: missing ones and NaN are worse than any other."""
    return -math.inf if score is None or math.isnan(score) else float(score)
