"""HyperBand: brackets of synchronous successive halving."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rlrun.experiments.search.rules.rule import Decision, Measure, comparable

ROUNDING = 1e-9


class HyperBand:
    """HyperBand: synchronous successive halving in brackets.

    Trials wait for each other at each rung; the worst are stopped.

    With R = max_t, eta = reduction_factor and s_max = floor(log_eta(R / grace_period)), bracket s of s_max, ..., 0 is
    planned for ``n = ceil((s_max + 1) * eta**s / (s + 1))`` trials. Its rungs are ``R / eta**s``, ``R / eta**(s - 1)``,
    ..., R, and 1/eta of its trials, rounded up, continue past each rung, so s is the number of halvings. Trials fill
    brackets in the order in which they are added, smallest bracket first as in Ray Tune or largest first as in the
    paper. When all brackets are full, a new round of brackets begins. A bracket that is not full keeps the planned
    numbers of trials at its rungs.

    A rung is decided once every trial of the bracket, including those that a searcher has not suggested yet, has
    reached it or ended before it. A waiting trial therefore always waits for a trial that can run or be added, provided
    that waiting trials take no resources from new ones. A trial that ends at a rung because of a stop criterion counts
    at that rung. Of trials with equal scores, the later ones continue.

    Source:
        Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", arXiv:1603.06560, alg. 1.
    """

    def __init__(
        self,
        *,
        max_t: float,
        grace_period: float,
        reduction_factor: float = 3,
        trials: int,
        largest_first: bool = False,
        name: str = "hyperband",
        measure: Measure,
    ) -> None:
        """Plans the brackets of the search.

        Args:
            max_t: The last rung, where trials stop.
            grace_period: Minimum of a bracket's first rung.
            reduction_factor: Reduction factor eta, above 1: the fraction 1/eta of trials continues past a rung.
            trials: Total number of trials that will be added.
            largest_first: Whether the bracket with the most halvings is filled first.
            name: Name of the rule, used in the reasons for its decisions.
            measure: Units of time and score, for messages.

        Raises:
            ValueError: The numbers are not valid.
        """
        if not (0 < grace_period <= max_t and reduction_factor > 1 and trials >= 0):
            raise ValueError(
                f"must have 0 < grace_period ({grace_period:g}) <= max_t ({max_t:g}), "
                f"reduction_factor ({reduction_factor:g}) > 1 and trials ({trials}) >= 0"
            )
        self._trials = trials
        self._name = name
        self._measure = measure
        halvings = 0
        while max_t / reduction_factor ** (halvings + 1) >= grace_period * (1 - ROUNDING):
            halvings += 1
        order = range(halvings, -1, -1) if largest_first else range(halvings + 1)
        self.plans = tuple(_plan(max_t, reduction_factor, halvings, s) for s in order)
        """Plans of the brackets of a round, in the order in which they are filled."""
        self._brackets: list[_Bracket] = []
        self._bracket_of: dict[str, _Bracket] = {}
        self._released: dict[str, Decision] = {}

    def add(self, trial: str) -> None:
        """Adds a trial to the bracket that is being filled; later calls for the same trial have no effect.

        Raises:
            ValueError: More trials are added than were announced at construction.
        """
        if trial in self._bracket_of:
            return
        if len(self._bracket_of) == self._trials:
            raise ValueError(f"trial {trial} exceeds the expected number of trials, {self._trials}")
        if not self._brackets or self._brackets[-1].is_full:
            plan = self.plans[len(self._brackets) % len(self.plans)]
            size = min(plan.places[0], self._trials - len(self._bracket_of))
            self._brackets.append(_Bracket(plan, size))
        self._brackets[-1].members.append(trial)
        self._brackets[-1].alive.append(trial)
        self._bracket_of[trial] = self._brackets[-1]

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Records a trial's first result at or past each rung, and decides rungs that all trials have reached."""
        bracket = self._bracket_of[trial]
        scores, rungs = bracket.scores.setdefault(trial, []), bracket.plan.rungs
        rung = None
        while len(scores) < len(rungs) and time >= rungs[len(scores)]:
            rung = rungs[len(scores)]
            scores.append(comparable(score))
        self._settle(bracket)
        self._released.pop(trial, None)
        if trial in bracket.stopped:
            return Decision("stop", bracket.stopped[trial], rung=rung)
        if time >= rungs[-1]:
            reason = f"{self._name}: reached its limit of {self._measure.moment(time)}"
            return Decision("stop", reason, rung=rung)
        if time < rungs[bracket.level]:
            return Decision("continue", rung=rung)
        here = sum(1 for other in bracket.alive if bracket.has_reached(other))
        expected = len(bracket.alive) + bracket.size - len(bracket.members)
        reason = f"{self._name}: waiting at {self._measure.moment(time)} ({here} of {expected} trials have arrived)"
        return Decision("wait", reason, rung=rung)

    def remove(self, trial: str) -> None:
        """Records the end of a trial, so that its bracket no longer waits for it."""
        bracket = self._bracket_of[trial]
        bracket.ended.add(trial)
        self._released.pop(trial, None)
        self._settle(bracket)

    def released(self) -> dict[str, Decision]:
        """Returns the decisions about waiting trials that were made since the last call, and clears them."""
        released, self._released = self._released, {}
        return released

    def _settle(self, bracket: _Bracket) -> None:
        """Decides all complete rungs; one result may complete several."""
        before = bracket.level
        while bracket.is_complete:
            self._halve(bracket)
        if bracket.level > before:
            for trial in bracket.alive:
                if not bracket.has_reached(trial) and trial not in bracket.ended:
                    self._released[trial] = Decision("continue")

    def _halve(self, bracket: _Bracket) -> None:
        """Keeps the best trials at the current rung, stops the others and advances to the next rung."""
        level, places = bracket.level, bracket.plan.places[bracket.level + 1]
        ranked = sorted(
            (trial for trial in bracket.alive if bracket.has_reached(trial)),
            key=lambda trial: bracket.scores[trial][level],
        )
        good = ranked[-places:]
        for trial in ranked[:-places]:
            mine, least = bracket.scores[trial][level], bracket.scores[good[0]][level]
            bracket.stopped[trial] = self._reason(bracket.plan.rungs[level], mine, least, places, len(ranked))
            if trial not in bracket.ended:
                self._released[trial] = Decision("stop", bracket.stopped[trial])
        bracket.alive = [trial for trial in bracket.alive if trial in good]
        bracket.level += 1

    def _reason(self, rung: float, mine: float, least: float, places: int, trials: int) -> str:
        measure = self._measure
        best = f"the best of {trials} trials has"
        more = ""
        if places > 1:
            best = f"the best {places} of {trials} trials have"
            more = "" if least == -math.inf else " or more" if measure.mode == "max" else " or less"
        return (
            f"{self._name}: {measure.value(mine)} at the rung of {measure.moment(rung)}; "
            f"{best} {measure.value(least)}{more}"
        )


@dataclass(frozen=True)
class BracketPlan:
    """Plan of a HyperBand bracket: the rungs, and the number of trials at each rung.

    Attributes:
        rungs: Times at which trials are compared, ascending; at the last rung all trials stop.
        places: Number of trials that run to each rung.
    """

    rungs: tuple[float, ...]
    places: tuple[int, ...]


@dataclass
class _Bracket:
    """State of a HyperBand bracket, whose trials are compared with each other.

    Attributes:
        plan: Plan of the bracket.
        size: Number of trials of the full bracket.
        members: Trials of the bracket so far, in order.
        alive: Trials that have passed all decided rungs, neither stopped nor ended before.
        level: Index of the next rung to decide.
        scores: Scores of each trial at the rungs that it has reached.
        stopped: Reasons why trials were stopped, by trial.
        ended: Trials that have ended.
    """

    plan: BracketPlan
    size: int
    members: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    level: int = 0
    scores: dict[str, list[float]] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        """Whether all planned trials were added to the bracket."""
        return len(self.members) == self.size

    @property
    def is_complete(self) -> bool:
        """Whether the bracket's next rung can be decided; the last rung needs no decision."""
        arrived = all(self.has_reached(trial) or trial in self.ended for trial in self.alive)
        return self.is_full and arrived and self.level < len(self.plan.rungs) - 1

    def has_reached(self, trial: str) -> bool:
        """Whether a trial has reached the bracket's next rung."""
        return len(self.scores.get(trial, ())) > self.level


def _plan(max_t: float, factor: float, most_halvings: int, halvings: int) -> BracketPlan:
    places = [math.ceil((most_halvings + 1) * factor**halvings / (halvings + 1) - ROUNDING)]
    while len(places) <= halvings:
        places.append(math.ceil(places[-1] / factor - ROUNDING))
    return BracketPlan(tuple(max_t / factor**power for power in range(halvings, -1, -1)), tuple(places))
