"""Asynchronous successive halving (ASHA)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from rlrun.search.rules.rule import CONTINUE, Decision, Measure, comparable

SHARES: Mapping[float, str] = {2: "half", 3: "third", 4: "quarter", 5: "fifth"}


class Asha:
    """Stops a trial at a rung unless it is among the best that have come to it so far.

    Bracket s has its rungs at ``grace_period * reduction_factor ** (s + k)`` for k = 0, 1, ... below `max_t`. The first
    result at or past a rung is compared with those that other trials had there before: below their quantile
    ``1 - 1 / reduction_factor``, interpolated linearly, the trial stops. A result that is past several rungs counts for
    the furthest one. Nobody waits, so the first trials to come to a rung go on whatever they have.

    Trials are dealt to brackets in proportion to ``exp(number of rungs)``, each to the bracket that lags most behind
    its share, the earlier one on a tie.

    Source:
        Li et al., "A System for Massively Parallel Hyperparameter Tuning", arXiv:1810.05934, in the form in which Ray
        Tune has it: a quantile instead of a count decides, and trials are stopped and never brought back.
    """

    def __init__(
        self,
        *,
        max_t: float,
        grace_period: float,
        reduction_factor: float = 4,
        brackets: int = 1,
        measure: Measure,
    ) -> None:
        """Lays out the rungs.

        Args:
            max_t: Where trials stop, as far as this rule lets them.
            grace_period: The first rung of the first bracket.
            reduction_factor: One in so many trials goes on past a rung, above 1.
            brackets: How many sets of rungs there are.
            measure: What time and score mean.

        Raises:
            ValueError: If the numbers make no sense.
        """
        if not (0 < grace_period <= max_t and reduction_factor > 1 and brackets >= 1):
            raise ValueError(
                f"must be 0 < grace_period ({grace_period:g}) <= max_t ({max_t:g}), "
                f"reduction_factor ({reduction_factor:g}) > 1 and brackets ({brackets}) >= 1"
            )
        self._max_t = max_t
        self._reduction_factor = reduction_factor
        self._measure = measure
        self.rungs = tuple(
            tuple(_milestones(grace_period * reduction_factor**shift, max_t, reduction_factor))
            for shift in range(brackets)
        )
        """Rungs of each bracket, ascending."""
        self._scores: list[list[dict[str, float]]] = [[{} for _ in rungs] for rungs in self.rungs]
        self._dealt = [0] * brackets
        self._bracket: dict[str, int] = {}
        self._furthest: dict[str, float] = {}

    def add(self, trial: str) -> None:
        """Deals a trial to a bracket; telling of it again changes nothing."""
        if trial in self._bracket:
            return
        weights = np.exp([len(rungs) - len(self.rungs[0]) for rungs in self.rungs])
        lag = weights / weights.sum() * (1 + sum(self._dealt)) - self._dealt
        bracket = int(np.argmax(lag.round(12)))
        self._dealt[bracket] += 1
        self._bracket[trial] = bracket

    def bracket_of(self, trial: str) -> int:
        """Returns the bracket that a trial was dealt to, counted from 0."""
        return self._bracket[trial]

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Compares a trial's first result at or past a rung with what others had there."""
        if time >= self._max_t:
            return Decision("stop", f"asha: has come to {self._measure.moment(time)}, its limit")
        previous = self._furthest.get(trial, -math.inf)
        if time <= previous:
            return CONTINUE  # seen before, and not stopped for it: the trial resumed from a checkpoint
        self._furthest[trial] = time
        bracket = self._bracket[trial]
        reached = [index for index, milestone in enumerate(self.rungs[bracket]) if previous < milestone <= time]
        if not reached:
            return CONTINUE
        milestone, scores = self.rungs[bracket][reached[-1]], self._scores[bracket][reached[-1]]
        mine = comparable(score)
        needed = quantile(scores.values(), 1 - 1 / self._reduction_factor)
        scores[trial] = mine
        if mine >= needed:
            return Decision("continue", rung=milestone)
        return Decision("stop", self._reason(time, mine, needed), rung=milestone)

    def remove(self, trial: str) -> None:
        """Needs nothing: what a trial had at its rungs still counts after its end."""

    def released(self) -> dict[str, Decision]:
        """Returns nothing: no trial ever waits."""
        return {}

    def _reason(self, time: float, mine: float, needed: float) -> str:
        measure = self._measure
        share = SHARES.get(self._reduction_factor, f"{100 / self._reduction_factor:.3g} %")
        return (
            f"asha: {measure.value(mine)} at {measure.moment(time)} is {measure.worse_than} "
            f"the best {share}'s {measure.value(needed)}"
        )


def quantile(scores: Collection[float], share: float) -> float:
    """Returns the score below which a share of the scores lies, interpolated linearly; -inf for no scores.

    Next to a missing number (-inf) it is -inf: nobody is stopped for what somebody else lacks.
    """
    if not scores:
        return -math.inf
    with np.errstate(invalid="ignore"):
        value = float(np.percentile(list(scores), share * 100))
    return -math.inf if math.isnan(value) else value


def _milestones(first: float, max_t: float, factor: float) -> Iterator[float]:
    step = 0
    while (milestone := first * factor**step) < max_t:
        yield milestone
        step += 1
