"""Interface of scheduling rules, which make decisions about trials from their results.

A rule is passed each trial (`add`, in the order of the trial table), each result (`on_result`) and each trial that
ended (`remove`). It does not use Ray, files or a clock. Its state depends on the set of results, not on the order of
different trials' results. The rule of a killed run is therefore restored from the run's records::

    for trial in table:
        rule.add(trial)
    for trial, time, score in sorted(rows, key=time):
        rule.on_result(trial, time, score)       # these decisions were carried out already, or are repeated
    for trial in ended:                          # done, failed, or stopped by the rule itself
        rule.remove(trial)
    decided = rule.released()                    # of waiting trials; those that ended are not among them

A trial whose last decision was "wait" and that is not in `decided` is still waiting. A trial that resumes from an older
checkpoint repeats some rows; only their first occurrence counts.
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
"""Text formats of an amount of each time attribute."""


@dataclass(frozen=True)
class ExploitOrders:
    """Exploit-and-explore orders for a population member after a generation.

    Attributes:
        generation: Number of the generation, from 1.
        parent: The trial whose weights the member copies; None to keep its own weights.
        checkpoint: Path of the parent's checkpoint; None if there is no parent.
        params: New settings, by dotted path in the config.
    """

    generation: int
    parent: str | None
    checkpoint: str | None
    params: dict[str, Any]


@dataclass(frozen=True)
class Decision:
    """A rule's decision about a trial after a result.

    Attributes:
        verdict: "continue"; "stop" permanently; or "wait" until `Rule.released` returns another decision about the
            trial.
        reason: Reason, as a message for users; "" if there is none.
        orders: Changes to make to the trial before it continues (PBT); None if nothing changes.
        rung: Rung at which this result was compared, in units of the scheduler's `time_attr`; None if it was not
            compared. For searchers that use partial results, this is the budget.
    """

    verdict: Verdict
    reason: str = ""
    orders: ExploitOrders | None = None
    rung: float | None = None


CONTINUE = Decision("continue")


class Rule(Protocol):
    """Interface of a scheduling rule, which makes decisions about trials from their results."""

    def add(self, trial: str) -> None:
        """Adds a trial; does nothing if the trial has already been added.

        Trials must be added in the order of the trial table, each of them before its first result.
        """

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Records a result and makes a decision about the trial; also called for a trial's last result.

        Args:
            trial: Name of the trial.
            time: Progress of the trial, which increases from one result to the next, except after a restart.
            score: Score of the trial, where higher is better (a minimized metric is negated); None for a missing score,
                which is worse than any other.
        """

    def remove(self, trial: str) -> None:
        """Records the end of a trial, for any reason."""

    def released(self) -> dict[str, Decision]:
        """Returns the decisions about waiting trials that were made since the last call, and clears them."""


@dataclass(frozen=True)
class Measure:
    """Units of time and score, for messages about decisions.

    Attributes:
        metric: Name of the metric used as score.
        mode: Whether higher or lower values of the metric are better; with "min", the scores are negated values.
        time_attr: Unit of time, such as ``env_steps``.
    """

    metric: str = "episode_return_mean"
    mode: Literal["max", "min"] = "max"
    time_attr: str = "env_steps"

    @property
    def worse_than(self) -> str:
        """Word that relates a worse value to a better one: "below" or "above"."""
        return "below" if self.mode == "max" else "above"

    def value(self, score: float) -> str:
        """Formats a score as a value of the metric, undoing the negation of a minimized metric.

        Examples:
            >>> Measure().value(12.375), Measure(mode="min").value(-1234.5), Measure().value(-math.inf)
            ('12.38', '1,234', 'a missing episode_return_mean')
        """
        if score == -math.inf:
            return f"a missing {self.metric}"
        number = score if self.mode == "max" else -score
        return f"{number:,.0f}" if 1000 <= abs(number) < math.inf else f"{number:.4g}"

    def moment(self, time: float) -> str:
        """Formats a time with its unit, for messages.

        Examples:
            >>> Measure().moment(10_000), Measure(time_attr="time_total_s").moment(7.5)
            ('10,000 env steps', '7.5 s')
        """
        number = f"{time:,.0f}" if time == round(time) or time >= 1000 else f"{time:.4g}"
        text = UNITS.get(self.time_attr, f"{self.time_attr} {{}}").format(number)
        return text.removesuffix("s") if time == 1 and text.endswith("steps") else text


def comparable(score: float | None) -> float:
    """Sort key for scores that puts missing scores and NaN below all others."""
    return -math.inf if score is None or math.isnan(score) else float(score)
