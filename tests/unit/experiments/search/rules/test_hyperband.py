"""Which trials wait, continue and stop at each rung, by hand."""

import math

import pytest

from rlrun.experiments.search.rules.hyperband import BracketPlan, HyperBand
from rlrun.experiments.search.rules.rule import Measure

MAX = Measure("episode_return_mean", "max", "env_steps")


def hyperband(trials: str, announced: int | None = None, **settings: object) -> HyperBand:
    """Brackets with up to two halvings: 9 trials, then 3, then 1 at times 1, 3, 9, and so on."""
    settings = {"max_t": 9, "grace_period": 1, "largest_first": True, "measure": MAX, **settings}
    rule = HyperBand(trials=len(trials) if announced is None else announced, **settings)
    for trial in trials:
        rule.add(trial)
    return rule


def verdicts(rule: HyperBand, results: dict[str, tuple[float, float | None]]) -> dict[str, str]:
    """Delivers a result of each trial; returns the verdict on each once all results are in."""
    found = {trial: rule.on_result(trial, time, score).verdict for trial, (time, score) in results.items()}
    return found | {trial: decision.verdict for trial, decision in rule.released().items()}


def test_brackets_match_those_of_the_paper():
    plans = hyperband("", max_t=81, grace_period=1).plans
    assert [plan.places for plan in plans] == [(81, 27, 9, 3, 1), (34, 12, 4, 2), (15, 5, 2), (8, 3), (5,)]
    assert [plan.rungs for plan in plans] == [(1, 3, 9, 27, 81), (3, 9, 27, 81), (9, 27, 81), (27, 81), (81,)]


def test_brackets_are_filled_largest_or_smallest_first_in_repeated_rounds():
    largest, smallest = hyperband(""), hyperband("", largest_first=False)
    assert largest.plans == (BracketPlan((1, 3, 9), (9, 3, 1)), BracketPlan((3, 9), (5, 2)), BracketPlan((9,), (3,)))
    assert smallest.plans == largest.plans[::-1]
    rule = hyperband("abcdefghijklmnopqrst", largest_first=False)  # brackets of 3, 5, 9, and again 3
    assert [rule.on_result(trial, 1, 0).verdict for trial in "cdhir"] == ["continue"] * 3 + ["wait"] + ["continue"]


def test_the_first_rung_is_not_before_the_grace_period():
    assert [plan.rungs for plan in hyperband("", grace_period=1.1).plans] == [(3, 9), (9,)]
    assert hyperband("", grace_period=9).plans == (BracketPlan((9,), (1,)),)
    assert hyperband("", max_t=100_000, grace_period=100_000 / 3**3).plans[0].places == (27, 9, 3, 1)


def test_a_bracket_is_reduced_at_each_rung_until_a_single_trial_is_left():
    rule = hyperband("abcdefghi")
    first = verdicts(rule, {trial: (1, int("519283746"["abcdefghi".index(trial)])) for trial in "abcdefghi"})
    assert {trial for trial, verdict in first.items() if verdict == "continue"} == {"c", "e", "g"}
    assert {trial for trial, verdict in first.items() if verdict == "stop"} == {"a", "b", "d", "f", "h", "i"}
    assert verdicts(rule, {"c": (3, 1), "e": (3, 3), "g": (3, 2)}) == {"c": "stop", "e": "continue", "g": "stop"}
    assert verdicts(rule, {"e": (4, 0)}) == {"e": "continue"}
    assert verdicts(rule, {"e": (9, 0)}) == {"e": "stop"}


def test_trials_of_a_bracket_wait_for_the_slowest_one_and_are_released_together():
    rule = hyperband("abc", max_t=3, reduction_factor=3)
    assert rule.on_result("a", 1, 1).verdict == "wait"
    assert rule.released() == {}
    assert rule.on_result("c", 1, 3).verdict == "wait"
    assert rule.on_result("b", 0.5, 9).verdict == "continue"
    decision = rule.on_result("b", 1, 2)
    assert (decision.verdict, decision.rung) == ("stop", 1)
    released = rule.released()
    assert {trial: decision.verdict for trial, decision in released.items()} == {"a": "stop", "c": "continue"}
    assert rule.released() == {}


def test_reasons_name_the_rung_and_the_score_needed_to_continue(wording):
    rule = hyperband("abcd", max_t=4, grace_period=2, reduction_factor=2)
    waits = rule.on_result("a", 2, 10)
    assert waits.reason == wording()
    assert rule.on_result("b", 2, 12.5).verdict == "continue"
    assert rule.released()["a"].reason == wording("10", "12.5")
    assert rule.on_result("b", 4, 13).reason == wording()
    rule = hyperband("abcdefghi", name="bohb", measure=Measure("learner/loss", "min", "iteration"))
    reasons = [rule.on_result(trial, 1, -score).reason for score, trial in enumerate("abcdefghi")]
    assert reasons[8] == wording()


def test_a_bracket_waits_for_trials_that_are_yet_to_be_suggested(wording):
    rule = hyperband("a", announced=3, max_t=3)
    assert rule.on_result("a", 1, 1).reason == wording()
    rule.add("b")
    assert rule.on_result("b", 1, 0).verdict == "wait"
    rule.add("c")
    assert rule.on_result("c", 1, 2).verdict == "continue"
    assert {trial: decision.verdict for trial, decision in rule.released().items()} == {"a": "stop", "b": "stop"}


def test_a_bracket_that_is_not_full_keeps_its_planned_numbers_of_survivors():
    rule = hyperband("abcde")  # a bracket planned for 9, 3 and 1 trials
    assert verdicts(rule, {trial: (1, score) for score, trial in enumerate("abcde")}) == {
        "a": "stop", "b": "stop", "c": "continue", "d": "continue", "e": "continue"
    }  # fmt: skip
    rule = hyperband("ab")
    assert verdicts(rule, {"a": (1, 0), "b": (1, 1)}) == {"a": "continue", "b": "continue"}
    assert verdicts(rule, {"a": (3, 0), "b": (3, 1)}) == {"a": "stop", "b": "continue"}


def test_a_single_trial_never_waits():
    rule = hyperband("a")
    assert [rule.on_result("a", time, 0).verdict for time in (1, 2, 3, 5, 9)] == ["continue"] * 4 + ["stop"]


def test_a_bracket_no_longer_waits_for_a_trial_that_failed_before_the_rung():
    rule = hyperband("abc", max_t=3)
    rule.on_result("a", 1, 1)
    rule.on_result("b", 1, 2)
    rule.remove("c")
    assert {trial: decision.verdict for trial, decision in rule.released().items()} == {"a": "stop", "b": "continue"}


def test_the_place_of_a_trial_that_fails_after_passing_a_rung_stays_empty():
    rule = hyperband("abcdefghi")
    verdicts(rule, {trial: (1, score) for score, trial in enumerate("abcdefghi")})
    rule.on_result("g", 3, 1)
    rule.on_result("h", 3, 2)
    rule.remove("i")
    assert {trial: decision.verdict for trial, decision in rule.released().items()} == {"g": "stop", "h": "continue"}


def test_waiting_trials_continue_when_all_other_trials_of_their_bracket_have_failed():
    rule = hyperband("abc", max_t=3)
    assert rule.on_result("a", 1, 1).verdict == "wait"
    rule.remove("b")
    rule.remove("c")
    assert [decision.verdict for decision in rule.released().values()] == ["continue"]
    rule = hyperband("abc", max_t=3)
    for trial in "abc":
        rule.remove(trial)
    assert rule.released() == {}


def test_a_trial_that_ends_while_waiting_at_a_rung_still_counts_at_that_rung():
    rule = hyperband("abc", max_t=3)
    assert rule.on_result("a", 1, 9).verdict == "wait"
    rule.remove("a")
    assert rule.on_result("b", 1, 1).verdict == "wait"
    assert rule.on_result("c", 1, 2).verdict == "stop"
    assert {trial: decision.verdict for trial, decision in rule.released().items()} == {"b": "stop"}


def test_a_result_past_several_rungs_counts_at_each_of_them_and_all_waiting_trials_are_released():
    rule = hyperband("abcdefghi")
    for score, trial in enumerate("abcdefgh"):
        assert rule.on_result(trial, 4, score).verdict == "wait"
    assert rule.on_result("i", 4, 8).verdict == "continue"
    assert {decision.verdict for decision in rule.released().values()} == {"stop"}


def test_a_trial_ahead_of_its_bracket_waits_at_its_rung_for_the_other_trials():
    rule = hyperband("abcdefghi")
    for score, trial in enumerate("abcdefgh"):
        rule.on_result(trial, 1, score)
    assert rule.on_result("i", 3, 8).verdict == "wait"
    assert {trial for trial, decision in rule.released().items() if decision.verdict == "continue"} == {"g", "h"}
    assert rule.on_result("g", 3, 9).verdict == "wait"
    assert rule.on_result("h", 3, 0).verdict == "stop"
    assert {trial: decision.verdict for trial, decision in rule.released().items()} == {"g": "continue", "i": "stop"}


def test_a_missing_score_is_worse_than_any_number(wording):
    rule = hyperband("abc", max_t=3)
    assert verdicts(rule, {"a": (1, None), "b": (1, -100), "c": (1, math.nan)}) == {
        "a": "stop", "b": "continue", "c": "stop"
    }  # fmt: skip
    rule = hyperband("ab", max_t=2, reduction_factor=2)
    rule.on_result("a", 1, None)
    rule.on_result("b", 1, None)
    assert rule.released()["a"].reason == wording("episode_return_mean")


def test_of_trials_with_equal_scores_the_later_ones_continue():
    rule = hyperband("abc", max_t=3)
    assert verdicts(rule, {"c": (1, 0), "b": (1, 0), "a": (1, 0)}) == {"a": "stop", "b": "stop", "c": "continue"}


def test_a_waiting_trial_that_reports_again_keeps_waiting_and_its_first_score_counts():
    rule = hyperband("abc", max_t=3)
    rule.on_result("a", 1, 1)
    assert rule.on_result("a", 0.5, 7).verdict == "continue"
    assert rule.on_result("a", 1, 7).verdict == "wait"
    assert rule.on_result("a", 1.5, 7).verdict == "wait"
    rule.on_result("b", 1, 2)
    assert rule.on_result("c", 1, 3).verdict == "continue"
    assert {trial: decision.verdict for trial, decision in rule.released().items()} == {"a": "stop", "b": "stop"}
    assert rule.on_result("a", 1, 1).verdict == "stop"


def test_a_pending_release_of_a_trial_is_dropped_when_the_trial_reports_or_ends():
    rule = hyperband("abc", max_t=3)
    for score, trial in enumerate("abc"):
        rule.on_result(trial, 1, score)
    assert rule.on_result("a", 1.2, 0).verdict == "stop"
    rule.remove("b")
    assert rule.released() == {}


def test_adding_more_trials_than_announced_is_refused_but_adding_a_trial_twice_is_allowed(wording):
    rule = hyperband("abc")
    rule.add("a")
    with wording.raised(ValueError):
        rule.add("d")


@pytest.mark.parametrize(
    ("settings", "number"),
    [
        ({"grace_period": 10}, r"grace_period \(10\)"),
        ({"grace_period": 0}, r"grace_period \(0\)"),
        ({"reduction_factor": 1}, r"reduction_factor \(1\)"),
        ({"announced": -1}, r"trials \(-1\)"),
    ],
)
def test_invalid_settings_are_refused(settings, number):
    with pytest.raises(ValueError, match=number):
        hyperband("", **settings)
