"""Asynchronous successive halving (ASHA)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from rlrun.experiments.search.rules.rule import CONTINUE, Decision, Measure, comparable

SHARES: Mapping[float, str] = {2: "half", 3: "third", 4: "quarter", 5: "fifth"}


class Asha:
    """Asynchronous successive halving: at each rung, stops a trial whose score is not among the best so far.

    Bracket s has its rungs at ``grace_period * reduction_factor ** (s + k)`` for k = 0, 1, ... below `max_t`. A trial's
    first result at or past a rung is compared with the results of trials that reached the rung earlier; the trial stops
    if its result is below their ``1 - 1 / reduction_factor`` quantile, interpolated linearly. A result past several
    rungs counts only for the last of them. Trials never wait, so the first trials that reach a rung continue with any
    score.

    Trials are assigned to brackets in proportion to ``exp(number of rungs)``, each to the bracket with the largest
    deficit, and to the earlier bracket in a tie.

    Source:
        Li et al., "A System for Massively Parallel Hyperparameter Tuning", arXiv:1810.05934, as implemented in Ray
        Tune: a quantile instead of a count decides, and stopped trials are never resumed.
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
        """Computes the rungs of each bracket.

        Args:
            max_t: Time at which all trials stop.
            grace_period: The first rung of the first bracket.
            reduction_factor: Reduction factor eta, above 1: the fraction 1/eta of trials continues past a rung.
            brackets: Number of brackets.
            measure: Units of time and score, for messages.

        Raises:
            ValueError: The numbers are not valid.
        """
        if not (0 < grace_period <= max_t and reduction_factor > 1 and brackets >= 1):
            raise ValueError(
                f"must have 0 < grace_period ({grace_period:g}) <= max_t ({max_t:g}), "
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
        """Assigns a trial to a bracket; later calls for the same trial have no effect."""
        if trial in self._bracket:
            return
        weights = np.exp([len(rungs) - len(self.rungs[0]) for rungs in self.rungs])
        lag = weights / weights.sum() * (1 + sum(self._dealt)) - self._dealt
        bracket = int(np.argmax(lag.round(12)))
        self._dealt[bracket] += 1
        self._bracket[trial] = bracket

    def bracket_of(self, trial: str) -> int:
        """Index (from 0) of the bracket to which a trial is assigned."""
        return self._bracket[trial]

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Compares a trial's first result at or past a rung with the results of other trials at that rung."""
        if time >= self._max_t:
            return Decision("stop", f"asha: reached its limit of {self._measure.moment(time)}")
        previous = self._furthest.get(trial, -math.inf)
        if time <= previous:
            return CONTINUE  # a resumed trial has repeated a result
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
        """Does nothing: results of a removed trial still count at its rungs."""

    def released(self) -> dict[str, Decision]:
        """Returns no decisions about waiting trials, since trials never wait under ASHA."""
        return {}

    def _reason(self, time: float, mine: float, needed: float) -> str:
        measure = self._measure
        share = SHARES.get(self._reduction_factor, f"{100 / self._reduction_factor:.3g}%")
        return (
            f"asha: {measure.value(mine)} at {measure.moment(time)} is {measure.worse_than} "
            f"{measure.value(needed)}, the cutoff for the best {share}"
        )


def quantile(scores: Collection[float], share: float) -> float:
    """Quantile of scores by linear interpolation; -inf for an empty list.

    A quantile between a missing score (-inf) and another score is -inf, so that no trial is stopped because of a
    missing score.
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
