"""HyperBand: brackets of synchronous successive halving."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rlrun.search.rules.rule import Decision, Measure, comparable

ROUNDING = 1e-9


class HyperBand:
    """Lets the trials of a bracket wait for each other at each rung; then the best go on and the others stop.

    With R = max_t, eta = reduction_factor and s_max = floor(log_eta(R / grace_period)), bracket s of s_max, ..., 0 is
    planned for ``n = ceil((s_max + 1) * eta**s / (s + 1))`` trials. Its rungs are ``R / eta**s``, ``R / eta**(s - 1)``,
    ..., R, and one in eta of its trials, rounded up, goes on past each: s is how often it halves. Trials fill brackets
    in the order in which they are added, smallest bracket first as in Ray Tune or largest first as in the paper; after
    a whole round comes the next one. A bracket which the trials do not fill keeps the planned numbers at its rungs.

    A rung is decided once every trial of the bracket has either come to it or ended before it, those included that a
    searcher has not suggested yet. So each trial that waits does so for one that can run or can be added; where
    waiting trials took up the places of new ones, nothing could go on. A trial which comes to a rung and ends there by
    itself counts there. Of equal trials the later ones go on.

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
        """Plans the brackets.

        Args:
            max_t: The last rung, where trials stop.
            grace_period: The least time before a first rung.
            reduction_factor: One in so many trials goes on past a rung, above 1.
            trials: How many trials will be added in all.
            largest_first: Whether the bracket that halves most often is filled first.
            name: What the rule is called in its reasons.
            measure: What time and score mean.

        Raises:
            ValueError: If the numbers make no sense.
        """
        if not (0 < grace_period <= max_t and reduction_factor > 1 and trials >= 0):
            raise ValueError(
                f"must be 0 < grace_period ({grace_period:g}) <= max_t ({max_t:g}), "
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
        """What each bracket of a round is planned for, in the order in which they are filled."""
        self._brackets: list[_Bracket] = []
        self._bracket_of: dict[str, _Bracket] = {}
        self._released: dict[str, Decision] = {}

    def add(self, trial: str) -> None:
        """Puts a trial into the bracket that is being filled; telling of it again changes nothing.

        Raises:
            ValueError: If there are more trials than were announced.
        """
        if trial in self._bracket_of:
            return
        if len(self._bracket_of) == self._trials:
            raise ValueError(f"{trial} is one more than the {self._trials} trials that were announced")
        if not self._brackets or self._brackets[-1].is_full:
            plan = self.plans[len(self._brackets) % len(self.plans)]
            size = min(plan.places[0], self._trials - len(self._bracket_of))
            self._brackets.append(_Bracket(plan, size))
        self._brackets[-1].members.append(trial)
        self._brackets[-1].alive.append(trial)
        self._bracket_of[trial] = self._brackets[-1]

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Notes a trial's first result at or past each rung, and decides a rung to which all have come."""
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
            reason = f"{self._name}: has come to {self._measure.moment(time)}, its limit"
            return Decision("stop", reason, rung=rung)
        if time < rungs[bracket.level]:
            return Decision("continue", rung=rung)
        here = sum(1 for other in bracket.alive if bracket.has_come(other))
        expected = len(bracket.alive) + bracket.size - len(bracket.members)
        reason = f"{self._name}: waits at {self._measure.moment(time)}, where {here} of {expected} trials are"
        return Decision("wait", reason, rung=rung)

    def remove(self, trial: str) -> None:
        """Lets a bracket no longer wait for a trial."""
        bracket = self._bracket_of[trial]
        bracket.ended.add(trial)
        self._released.pop(trial, None)
        self._settle(bracket)

    def released(self) -> dict[str, Decision]:
        """Returns what was decided since the last call about trials that wait, and forgets it."""
        released, self._released = self._released, {}
        return released

    def _settle(self, bracket: _Bracket) -> None:
        """Decides every rung that is complete: a result may be past several."""
        before = bracket.level
        while bracket.is_complete:
            self._halve(bracket)
        if bracket.level > before:
            for trial in bracket.alive:
                if not bracket.has_come(trial) and trial not in bracket.ended:
                    self._released[trial] = Decision("continue")

    def _halve(self, bracket: _Bracket) -> None:
        """Keeps the best trials at the current rung, stops the others and moves on to the next rung."""
        level, places = bracket.level, bracket.plan.places[bracket.level + 1]
        ranked = sorted(
            (trial for trial in bracket.alive if bracket.has_come(trial)),
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
class Plan:
    """What a bracket is planned for.

    Attributes:
        rungs: Times at which trials are compared, ascending; the last one is where they stop.
        places: For how many trials there is room on the way to each rung.
    """

    rungs: tuple[float, ...]
    places: tuple[int, ...]


@dataclass
class _Bracket:
    """Trials that are compared with each other.

    Attributes:
        plan: Rungs and numbers.
        size: How many trials it will have.
        members: Those it has, in order.
        alive: Those of them that were not stopped and did not end before a rung that the others have passed.
        level: Index of the rung that is to be decided next.
        scores: Of each trial, the score at each rung it has come to.
        stopped: Why each trial that was not among the best was stopped.
        ended: Trials that have ended.
    """

    plan: Plan
    size: int
    members: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    level: int = 0
    scores: dict[str, list[float]] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        """Whether all of its trials were added."""
        return len(self.members) == self.size

    @property
    def is_complete(self) -> bool:
        """Whether the next rung can be decided; the last one needs no decision."""
        arrived = all(self.has_come(trial) or trial in self.ended for trial in self.alive)
        return self.is_full and arrived and self.level < len(self.plan.rungs) - 1

    def has_come(self, trial: str) -> bool:
        """Whether a trial has come to the rung that is to be decided next."""
        return len(self.scores.get(trial, ())) > self.level


def _plan(max_t: float, factor: float, most_halvings: int, halvings: int) -> Plan:
    places = [math.ceil((most_halvings + 1) * factor**halvings / (halvings + 1) - ROUNDING)]
    while len(places) <= halvings:
        places.append(math.ceil(places[-1] / factor - ROUNDING))
    return Plan(tuple(max_t / factor**power for power in range(halvings, -1, -1)), tuple(places))
