"""The rules decide like Ray Tune's schedulers on the same results; where they differ, the test's name says so."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, HyperBandScheduler, MedianStoppingRule, TrialScheduler

from rlrun.experiments.search.rules.asha import Asha
from rlrun.experiments.search.rules.hyperband import HyperBand
from rlrun.experiments.search.rules.median import Median
from rlrun.experiments.search.rules.rule import Measure, Rule

MEASURE = Measure("score", "max", "time")
VERDICTS = {TrialScheduler.CONTINUE: "continue", TrialScheduler.STOP: "stop", TrialScheduler.PAUSE: "wait"}
Fates = dict[str, int]


class RayTrial:
    """The part of a trial that Ray's schedulers read."""

    def __init__(self, name: str) -> None:
        self.trial_id = name
        self.status = Trial.PENDING
        self.is_saving = False


class OnRay:
    """Drives one of Ray's schedulers like its controller, with the interface of rlrun's rules."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.trials: dict[str, RayTrial] = {}
        self.last: dict[str, dict[str, float]] = {}

    def get_live_trials(self) -> list[RayTrial]:
        return []  # no trials to yield to, since rlrun's median rule has no time slices

    def stop_trial(self, trial: RayTrial) -> None:
        status, trial.status = trial.status, Trial.TERMINATED
        if status == Trial.PAUSED:
            self.scheduler.on_trial_remove(self, trial)
        elif status == Trial.RUNNING:
            self.scheduler.on_trial_complete(self, trial, self.last[trial.trial_id])

    def add(self, name: str) -> None:
        self.trials[name] = RayTrial(name)
        self.scheduler.on_trial_add(self, self.trials[name])

    def on_result(self, name: str, time: int, score: float) -> str:
        trial = self.trials[name]
        trial.status, self.last[name] = Trial.RUNNING, {"time": time, "score": score}
        verdict = VERDICTS[self.scheduler.on_trial_result(self, trial, self.last[name])]
        if verdict == "stop":
            self.stop_trial(trial)
        elif verdict == "wait":
            trial.status = Trial.PAUSED
        return verdict

    def complete(self, name: str, time: int, score: float) -> None:
        """Ends a trial with a result that is only reported with its end."""
        trial = self.trials[name]
        trial.status, self.last[name] = Trial.RUNNING, {"time": time, "score": score}
        self.stop_trial(trial)

    def fail(self, name: str) -> None:
        self.trials[name].status = Trial.ERROR
        self.scheduler.on_trial_error(self, self.trials[name])

    def runnable(self) -> list[str]:
        going = [trial for trial in self.trials.values() if trial.status in (Trial.PENDING, Trial.RUNNING)]
        while (chosen := self.scheduler.choose_trial_to_run(self)) is not None:
            chosen.status = Trial.RUNNING
            going.append(chosen)
        return sorted({trial.trial_id for trial in going})


def curves(trials: int, length: int, chance: Random) -> dict[str, list[float]]:
    """Returns scores of trials at times 1, 2, ..., with few distinct values, so that there are ties."""
    return {f"t{number:02d}": [chance.randint(0, 24) / 4 for _ in range(length)] for number in range(trials)}


def listened(rule: Rule, on_ray: OnRay, scores: dict[str, list[float]], chance: Random) -> None:
    """Delivers results in a random order to both, and compares each decision; some trials end by themselves."""
    ends = {name: chance.choice([3, 8, 1000]) for name in scores}
    running = dict.fromkeys(scores, 0)
    while running:
        name = chance.choice(list(running))
        running[name] += 1
        time, score = running[name], scores[name][running[name] - 1]
        if time in (ends[name], len(scores[name])):
            rule.on_result(name, time, score)
            rule.remove(name)
            on_ray.complete(name, time, score)
            del running[name]
            continue
        verdict = rule.on_result(name, time, score).verdict
        assert (name, time, verdict) == (name, time, on_ray.on_result(name, time, score))
        if verdict == "stop":
            rule.remove(name)
            del running[name]


@given(
    trials=st.integers(1, 25),
    max_t=st.integers(2, 20),
    grace_period=st.integers(1, 2),
    factor=st.sampled_from([2, 2.5, 3, 4]),
    brackets=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_asha_makes_the_same_decisions_as_ray(
    trials: int, max_t: int, grace_period: int, factor: float, brackets: int, seed: int
) -> None:
    numbers: dict[str, Any] = {"max_t": max_t, "grace_period": grace_period, "reduction_factor": factor}
    rule = Asha(**numbers, brackets=brackets, measure=MEASURE)
    on_ray = OnRay(AsyncHyperBandScheduler("time", "score", "max", **numbers, brackets=brackets))
    chance = Random(seed)
    scores = curves(trials, 20, chance)
    for name in scores:
        rule.add(name)
        with patch("numpy.random.choice", return_value=rule.bracket_of(name)):  # Ray draws a bracket, rlrun deals it
            on_ray.add(name)
    listened(rule, on_ray, scores, chance)


def test_asha_compares_a_trial_that_skips_a_rung_once_where_ray_later_compares_it_at_that_rung_too() -> None:
    numbers: dict[str, Any] = {"max_t": 100, "grace_period": 1, "reduction_factor": 4}
    rule = Asha(**numbers, measure=MEASURE)
    on_ray = OnRay(AsyncHyperBandScheduler("time", "score", "max", **numbers))
    for scheduler in (rule, on_ray):
        scheduler.add("a")
        scheduler.add("b")
        scheduler.on_result("a", 1, 9)
        scheduler.on_result("b", 5, 8)
    assert on_ray.on_result("b", 6, 8) == "stop"
    assert rule.on_result("b", 6, 8).verdict == "continue"


def test_asha_treats_a_missing_score_as_the_worst_where_ray_lets_nan_pass_every_rung() -> None:
    numbers: dict[str, Any] = {"max_t": 100, "grace_period": 1, "reduction_factor": 4}
    rule = Asha(**numbers, measure=MEASURE)
    on_ray = OnRay(AsyncHyperBandScheduler("time", "score", "max", **numbers))
    for scheduler in (rule, on_ray):
        scheduler.add("a")
        scheduler.add("b")
        scheduler.on_result("a", 1, 9)
    assert on_ray.on_result("b", 1, float("nan")) == "continue"
    assert rule.on_result("b", 1, None).verdict == "stop"


@given(
    trials=st.integers(1, 12),
    grace_period=st.integers(0, 5),
    samples=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_median_makes_the_same_decisions_as_ray(trials: int, grace_period: int, samples: int, seed: int) -> None:
    numbers: dict[str, Any] = {"grace_period": grace_period, "min_samples_required": samples}
    rule = Median(**numbers, measure=MEASURE)
    scheduler = MedianStoppingRule("time", "score", "max", **numbers)
    on_ray = OnRay(scheduler)
    chance = Random(seed)
    scores = curves(trials, 12, chance)
    for name in scores:
        rule.add(name)
        on_ray.add(name)
    with patch.object(OnRay, "stop_trial", _completed_once):
        listened(rule, on_ray, scores, chance)


def _completed_once(self: OnRay, trial: RayTrial) -> None:
    """Ends a trial without reporting its last result again."""
    if trial not in self.scheduler._stopped_trials:
        self.scheduler.on_trial_complete(self, trial, self.last[trial.trial_id])


def test_median_counts_the_last_result_of_a_stopped_trial_once_where_ray_counts_it_twice() -> None:
    rule = Median(grace_period=0, min_samples_required=1, measure=MEASURE)
    on_ray = OnRay(MedianStoppingRule("time", "score", "max", grace_period=0, min_samples_required=1))
    for scheduler in (rule, on_ray):
        for name in "abc":
            scheduler.add(name)
        scheduler.on_result("a", 1, 0)
        scheduler.on_result("b", 1, 6)
        scheduler.on_result("b", 2, 6)
        scheduler.on_result("a", 2, 3)  # stopped; the mean of 0 and 3 is 1.5, but Ray counts the 3 twice
    ours, rays = rule.on_result("c", 2, 3.9).verdict, on_ray.on_result("c", 2, 3.9)
    assert (ours, rays) == ("continue", "stop")


@given(
    trials=st.integers(1, 24),
    shape=st.sampled_from([(2, 2), (4, 2), (8, 2), (3, 3), (9, 3), (4, 4), (16, 4)]),
    failing=st.integers(0, 4),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_hyperband_makes_the_same_decisions_as_ray_unless_ray_waits_forever(
    trials: int, shape: tuple[int, int], failing: int, seed: int
) -> None:
    max_t, factor = shape
    chance = Random(seed)
    scores = curves(trials, max_t, chance)
    fails = {chance.choice(list(scores)): chance.randrange(max_t) for _ in range(failing)}
    rule = HyperBand(max_t=max_t, grace_period=1, reduction_factor=factor, trials=trials, measure=MEASURE)
    ours = fates_of_ours(rule, scores, fails, chance)
    rays, has_hung = fates_of_rays(max_t, factor, scores, fails, chance)
    assert fails or not has_hung
    if not has_hung:
        assert ours == rays


def fates_of_ours(rule: HyperBand, scores: dict[str, list[float]], fails: dict[str, int], chance: Random) -> Fates:
    """Runs trials in random order with rlrun's rule; returns how far each came."""
    time, running, waiting = dict.fromkeys(scores, 0), list(scores), set()
    for name in scores:
        rule.add(name)
    while running:
        name = chance.choice(running)
        if fails.get(name) == time[name]:
            running.remove(name)
            rule.remove(name)
        else:
            time[name] += 1
            verdict = rule.on_result(name, time[name], scores[name][time[name] - 1]).verdict
            if verdict != "continue":
                running.remove(name)
            if verdict == "wait":
                waiting.add(name)
        for released, decision in rule.released().items():
            waiting.remove(released)
            if decision.verdict == "continue":
                running.append(released)
    assert waiting == set()
    return time


def fates_of_rays(
    max_t: int, factor: int, scores: dict[str, list[float]], fails: dict[str, int], chance: Random
) -> tuple[Fates, bool]:
    """Runs trials in random order with Ray; returns how far each came, and whether some were left waiting."""
    on_ray = OnRay(HyperBandScheduler("time", "score", "max", max_t=max_t, reduction_factor=factor))
    time = dict.fromkeys(scores, 0)
    for name in scores:
        on_ray.add(name)
    while running := on_ray.runnable():
        name = chance.choice(running)
        if fails.get(name) == time[name]:
            on_ray.fail(name)
        else:
            time[name] += 1
            on_ray.on_result(name, time[name], scores[name][time[name] - 1])
    return time, any(trial.status == Trial.PAUSED for trial in on_ray.trials.values())


def test_hyperband_continues_after_a_late_failure_where_ray_waits_forever() -> None:
    rule = HyperBand(max_t=9, grace_period=1, reduction_factor=3, trials=17, measure=MEASURE)
    on_ray = OnRay(HyperBandScheduler("time", "score", "max", max_t=9, reduction_factor=3))
    for scheduler in (rule, on_ray):
        for number in range(17):
            scheduler.add(f"t{number}")
        for number in range(8, 17):  # the bracket with rungs at 1, 3 and 9, whose last three trials go on
            scheduler.on_result(f"t{number}", 1, number)
        scheduler.on_result("t14", 3, 1)
        scheduler.on_result("t15", 3, 2)
    rule.released()
    rule.remove("t16")
    on_ray.fail("t16")
    assert {name: decision.verdict for name, decision in rule.released().items()} == {"t14": "stop", "t15": "continue"}
    assert not {"t14", "t15"} & set(on_ray.runnable())


def test_hyperband_has_the_number_of_brackets_of_the_paper_where_ray_rounds_it_up() -> None:
    rule = HyperBand(max_t=8, grace_period=1, reduction_factor=3, trials=100, measure=MEASURE)
    assert [plan.places[0] for plan in rule.plans] == [2, 3]  # s_max = floor(log3 8) = 1
    scheduler = HyperBandScheduler("time", "score", "max", max_t=8, reduction_factor=3)
    assert scheduler._s_max_1 == 3  # round(log3 8) + 1; the last of these brackets would begin at 8 / 9


def test_hyperband_compares_a_result_at_every_rung_it_has_passed_where_ray_waits_forever() -> None:
    rule = HyperBand(max_t=9, grace_period=1, reduction_factor=3, trials=17, measure=MEASURE)
    on_ray = OnRay(HyperBandScheduler("time", "score", "max", max_t=9, reduction_factor=3))
    for number in range(17):
        rule.add(f"t{number}")
        on_ray.add(f"t{number}")
    for number in range(8, 17):  # all of the bracket with rungs at 1, 3 and 9
        last, rays = rule.on_result(f"t{number}", 4, number), on_ray.on_result(f"t{number}", 4, number)
    assert last.verdict == "continue"
    assert rays == "wait"
    assert "t16" not in on_ray.runnable()


@pytest.mark.parametrize("time", [1.0, 2.0])
def test_hyperband_counts_a_trial_that_ends_at_a_rung_where_ray_forgets_it(time: float) -> None:
    rule = HyperBand(max_t=3, grace_period=1, reduction_factor=3, trials=5, measure=MEASURE)
    on_ray = OnRay(HyperBandScheduler("time", "score", "max", max_t=3, reduction_factor=3))
    for name in "xyabc":  # the bracket of the first two never halves
        rule.add(name)
        on_ray.add(name)
    rule.on_result("a", time, 9)
    rule.remove("a")
    on_ray.complete("a", int(time), 9)
    rule.on_result("b", 1, 1)
    on_ray.on_result("b", 1, 1)
    assert rule.on_result("c", 1, 2).verdict == "stop"
    assert on_ray.on_result("c", 1, 2) == "continue"
