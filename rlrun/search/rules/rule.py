"""What every scheduling rule takes and answers.

A rule hears of each trial (`add`, in the order of the trial table), each result (`on_result`) and each trial that ended
(`remove`). It knows no Ray, no files and no clock. What it remembers depends on the set of results and not on the order
in which different trials delivered them, so that a run which was killed gets its rule back from its own records::

    for trial in table:
        rule.add(trial)
    for trial, time, score in sorted(rows, key=time):
        rule.on_result(trial, time, score)       # what it answers was carried out already, or comes again
    for trial in ended:                          # done, failed, or stopped by the rule itself
        rule.remove(trial)
    decided = rule.released()                    # of waiting trials; those that ended are not among them

A trial whose last row was answered with "wait" and which is not in `decided` still waits. One that goes on from an
older checkpoint reports some rows again: the first time that a row was seen counts.
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
"""How an amount of each time attribute reads."""


@dataclass(frozen=True)
class Orders:
    """How a member of a population goes on from a generation.

    Attributes:
        generation: Number of the generation, from 1.
        parent: The trial whose weights it takes over, None to keep its own.
        checkpoint: Path of that trial's checkpoint, None without a parent.
        params: Values from now on, by their dotted path in the config.
    """

    generation: int
    parent: str | None
    checkpoint: str | None
    params: dict[str, Any]


@dataclass(frozen=True)
class Decision:
    """What becomes of a trial after a result.

    Attributes:
        verdict: "continue"; "stop", for good; or "wait", paused with a checkpoint until `Rule.released` names it.
        reason: Why, in words for a user; "" where there is nothing to say.
        orders: What changes when it goes on, None for nothing.
        rung: The rung at which this result was compared, in the rule's time; None if it was compared at none. A
            searcher that learns from partial results takes it as the budget.
    """

    verdict: Verdict
    reason: str = ""
    orders: Orders | None = None
    rung: float | None = None


CONTINUE = Decision("continue")


class Rule(Protocol):
    """Decides about trials from their results."""

    def add(self, trial: str) -> None:
        """Tells of a trial, in the order of the table and before its first result; again changes nothing."""

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Tells of a result and asks what follows; also of the last one of a trial that ends by itself.

        Args:
            trial: Name of the trial.
            time: How far it is; grows from one result of a trial to the next, except after a restart.
            score: How good it is, higher is better (a metric to be minimised comes negated); None if there is no
                number yet, which counts as worse than any.
        """

    def remove(self, trial: str) -> None:
        """Tells that a trial has ended, by itself or because it was stopped."""

    def released(self) -> dict[str, Decision]:
        """Returns what was decided since the last call about trials that wait, and forgets it."""


@dataclass(frozen=True)
class Measure:
    """What time and score mean, so that a rule can say why it decides.

    Attributes:
        metric: Name of the metric behind the score.
        mode: Whether the metric is better when higher; with "min", scores are its values negated.
        time_attr: What the time counts, such as ``env_steps``.
    """

    metric: str = "episode_return_mean"
    mode: Literal["max", "min"] = "max"
    time_attr: str = "env_steps"

    @property
    def worse_than(self) -> str:
        """How a value compares with a better one: "below" or "above"."""
        return "below" if self.mode == "max" else "above"

    def value(self, score: float) -> str:
        """Returns a score as the metric's value.

        Examples:
            >>> Measure().value(12.375), Measure(mode="min").value(-1234.5), Measure().value(-math.inf)
            ('12.38', '1,234', 'no episode_return_mean')
        """
        if score == -math.inf:
            return f"no {self.metric}"
        number = score if self.mode == "max" else -score
        return f"{number:,.0f}" if 1000 <= abs(number) < math.inf else f"{number:.4g}"

    def moment(self, time: float) -> str:
        """Returns a time in its unit.

        Examples:
            >>> Measure().moment(10_000), Measure(time_attr="time_total_s").moment(7.5)
            ('10,000 env steps', '7.5 s')
        """
        number = f"{time:,.0f}" if time == round(time) or time >= 1000 else f"{time:.4g}"
        return UNITS.get(self.time_attr, f"{self.time_attr} {{}}").format(number)


def comparable(score: float | None) -> float:
    """Returns a score that can be ordered: no number, or one that is none, is worse than any other."""
    return -math.inf if score is None or math.isnan(score) else float(score)
