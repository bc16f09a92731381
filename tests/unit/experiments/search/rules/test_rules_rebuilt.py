"""A rule rebuilt from a run's records has the state of that run's rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.experiments.search.rules.asha import Asha
from rlrun.experiments.search.rules.hyperband import HyperBand
from rlrun.experiments.search.rules.median import Median
from rlrun.experiments.search.rules.rule import Decision, Measure, Rule

LIMIT = 9
MEASURE = Measure("episode_return_mean", "max", "env_steps")
MakeRule = Callable[[int], Rule]
RULES: dict[str, MakeRule] = {
    "asha": lambda trials: Asha(max_t=LIMIT, grace_period=1, reduction_factor=3, brackets=2, measure=MEASURE),
    "median": lambda trials: Median(grace_period=2, min_samples_required=2, measure=MEASURE),
    "hyperband": lambda trials: HyperBand(max_t=LIMIT, grace_period=1, trials=trials, measure=MEASURE),
    "bohb": lambda trials: HyperBand(max_t=LIMIT, grace_period=1, trials=trials, largest_first=True, measure=MEASURE),
}


@dataclass
class World:
    """What each trial would report at 1, 2, ..., and when it ends by itself: at once, or when told to continue."""

    scores: list[list[float | None]]
    places: int
    ends: dict[str, int] = field(default_factory=dict)
    fails: dict[str, int] = field(default_factory=dict)

    @property
    def trials(self) -> list[str]:
        return [f"t{number:02d}" for number in range(len(self.scores))]

    def score(self, trial: str, time: int) -> float | None:
        return self.scores[self.trials.index(trial)][time - 1]


@dataclass(frozen=True)
class Event:
    """What a rule was told, and its answers about that trial and about waiting trials."""

    what: str
    trial: str
    time: int = 0
    decision: Decision | None = None
    released: tuple[tuple[str, Decision], ...] = ()


def world_of(trials: int, chance: Random) -> World:
    """Returns a world with few distinct scores, some of them missing, in which some trials end by themselves."""
    scores = [[chance.choice([0, 1, 2, 3, 4, None]) for _ in range(LIMIT)] for _ in range(trials)]
    world = World(scores, places=chance.randint(1, 6))
    few = chance.randint(0, trials // 3)
    world.ends = {chance.choice(world.trials): chance.choice([1, 3, 3, 5]) for _ in range(few)}
    world.fails = {chance.choice(world.trials): chance.choice([0, 1, 3, 7]) for _ in range(few)}
    return world


def played(rule: Rule, world: World, chance: Random) -> list[Event]:
    """Runs a world under a rule, a number of trials at a time; returns all events. Waiting trials need no place."""
    events: list[Event] = []
    time = dict.fromkeys(world.trials, 0)
    pending, running, waiting = list(world.trials), [], set()

    def hear(event: Event) -> None:
        released = rule.released()
        for trial, decision in released.items():
            waiting.remove(trial)
            if decision.verdict == "continue":
                running.append(trial)
        events.append(Event(event.what, event.trial, event.time, event.decision, tuple(released.items())))
        for trial, decision in released.items():
            if decision.verdict == "stop":
                rule.remove(trial)
                hear(Event("remove", trial))

    while running or pending:
        if pending and (len(running) < world.places):
            trial = pending.pop(0)
            running.append(trial)
            rule.add(trial)
            hear(Event("add", trial))
            continue
        trial = chance.choice(running[: world.places])
        is_over = world.fails.get(trial) == time[trial]
        if not is_over:
            time[trial] += 1
            decision = decided(rule, world, trial, time[trial])
            is_over = decision.verdict == "stop" or world.ends.get(trial) == time[trial]
            if decision.verdict == "wait" and not is_over:
                running.remove(trial)
                waiting.add(trial)
            hear(Event("result", trial, time[trial], decision))
        if is_over:
            running.remove(trial)
            rule.remove(trial)
            hear(Event("remove", trial))
    assert waiting == set(), "trials wait although nobody is left whom they could wait for"
    return events


def decided(rule: Rule, world: World, trial: str, time: int) -> Decision:
    """Returns a rule's verdict on a result; at the limit, a trial is over whatever the rule says."""
    decision = rule.on_result(trial, time, world.score(trial, time))
    return Decision("stop", decision.reason, rung=decision.rung) if time == LIMIT else decision


def rebuilt(rule: Rule, world: World, events: list[Event]) -> Rule:
    """Returns a new rule that was told what is on record after some events."""
    for trial in [event.trial for event in events if event.what == "add"]:
        rule.add(trial)
    rows = [(event.time, event.trial) for event in events if event.what == "result"]
    for time, trial in sorted(rows):
        rule.on_result(trial, time, world.score(trial, time))
    for trial in [event.trial for event in events if event.what == "remove"]:
        rule.remove(trial)
    return rule


def go_on(rule: Rule, world: World, events: list[Event]) -> list[Event]:
    """Tells a rule what happened next; returns it with what the rule answers."""
    found = []
    for event in events:
        decision = None
        if event.what == "add":
            rule.add(event.trial)
        elif event.what == "remove":
            rule.remove(event.trial)
        else:
            decision = decided(rule, world, event.trial, event.time)
        found.append(Event(event.what, event.trial, event.time, decision, tuple(rule.released().items())))
    return found


def stand(events: list[Event]) -> dict[str, str]:
    """Returns the last decision about each trial that has not ended."""
    found: dict[str, str] = {}
    for event in events:
        if event.decision is not None:
            found[event.trial] = event.decision.verdict
        for trial, decision in event.released:
            found[trial] = decision.verdict
    ended = {event.trial for event in events if event.what == "remove"}
    return {trial: verdict for trial, verdict in found.items() if trial not in ended}


@pytest.mark.parametrize("kind", RULES)
@given(trials=st.integers(1, 20), seed=st.integers(0, 2**32), cut=st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_a_rebuilt_rule_continues_as_if_the_run_had_not_been_interrupted(
    kind: str, trials: int, seed: int, cut: float
) -> None:
    chance = Random(seed)
    world = world_of(trials, chance)
    events = played(RULES[kind](trials), world, chance)
    before = events[: round(cut * len(events))]
    rule = rebuilt(RULES[kind](trials), world, before)
    released = {trial: decision.verdict for trial, decision in rule.released().items()}
    standing = stand(before)
    assert set(released.values()) <= {"continue", "stop"}
    assert {trial: standing[trial] for trial in released} == released
    assert go_on(rule, world, events[len(before) :]) == events[len(before) :]


@pytest.mark.parametrize("kind", RULES)
@given(trials=st.integers(1, 20), seed=st.integers(0, 2**32), cut=st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_rows_that_are_reported_again_after_an_interrupt_change_nothing(
    kind: str, trials: int, seed: int, cut: float
) -> None:
    chance = Random(seed)
    world = world_of(trials, chance)
    events = played(RULES[kind](trials), world, chance)
    before = events[: round(cut * len(events))]
    rule = rebuilt(RULES[kind](trials), world, before)
    rule.released()
    standing = stand(before)
    for trial, verdict in standing.items():
        newest = max(event.time for event in before if event.trial == trial and event.what == "result")
        checkpoint = chance.randint(0, newest)
        again = [
            rule.on_result(trial, time, world.score(trial, time)).verdict for time in range(checkpoint + 1, newest + 1)
        ]
        if verdict != "stop":  # a stopped trial was about to be removed when the run was interrupted
            assert again == [*["continue"] * (len(again) - 1), verdict][: len(again)]
    assert rule.released() == {}
    assert go_on(rule, world, events[len(before) :]) == events[len(before) :]


def fates(events: list[Event]) -> dict[str, tuple[int, str]]:
    """Returns how far each trial came and what the last decision about it was."""
    found: dict[str, tuple[int, str]] = {}
    for event in events:
        if event.decision is not None:
            found[event.trial] = (event.time, event.decision.verdict)
        for trial, decision in event.released:
            found[trial] = (found[trial][0], decision.verdict)
    return found


@pytest.mark.parametrize("kind", ["hyperband", "bohb"])
@given(trials=st.integers(1, 20), seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_hyperbands_decisions_do_not_depend_on_the_order_of_results(kind: str, trials: int, seed: int) -> None:
    chance = Random(seed)
    world = world_of(trials, chance)
    first = fates(played(RULES[kind](trials), world, chance))
    world.places = trials
    second = fates(played(RULES[kind](trials), world, chance))
    assert {t: fate for t, fate in first.items() if t not in world.ends} == {
        t: fate for t, fate in second.items() if t not in world.ends
    }


def test_a_row_whose_decision_record_was_lost_is_compared_like_a_new_row() -> None:
    world, rule = World([[4.0], [0.0], [5.0]], places=3), RULES["asha"](3)
    events = [Event("add", trial) for trial in world.trials]  # the second trial's bracket begins at 3
    events += [Event("result", trial, 1, Decision("continue", rung=1)) for trial in ("t00", "t02")]
    assert go_on(rule, world, events) == events
    for lost, verdict in (None, "continue"), (events[3], "stop"):
        rule = rebuilt(RULES["asha"](3), world, [event for event in events if event is not lost])
        assert rule.on_result("t00", 1, 4).verdict == verdict
