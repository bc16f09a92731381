"""Which trials survive each rung, by hand."""

import math

import pytest

from rlrun.experiments.search.rules.asha import Asha, quantile
from rlrun.experiments.search.rules.rule import Measure

MAX = Measure("episode_return_mean", "max", "env_steps")


def asha(trials: str = "abcdefgh", **settings: object) -> Asha:
    rule = Asha(**{"max_t": 64, "grace_period": 4, "reduction_factor": 4, "measure": MAX, **settings})
    for trial in trials:
        rule.add(trial)
    return rule


def test_rungs_are_the_grace_period_times_powers_of_the_factor_below_the_limit():
    assert asha().rungs == ((4, 16),)
    assert asha(max_t=65).rungs == ((4, 16, 64),)
    assert asha(max_t=100, grace_period=10, reduction_factor=3, brackets=3).rungs == ((10, 30, 90), (30, 90), (90,))


def test_a_trial_continues_at_a_rung_if_it_reaches_the_quantile_of_earlier_scores():
    rule = asha()
    # Trial, score, and verdict at time 4, with the upper quartile of the earlier scores.
    table = [
        ("a", 10, "continue"),  # no earlier scores
        ("b", 9, "stop"),  # 10
        ("c", 10, "continue"),  # 9.75
        ("d", 20, "continue"),  # 10
        ("e", 12, "stop"),  # 12.5
        ("f", 12, "continue"),  # 12
        ("g", 11.9, "stop"),  # 12
    ]
    assert [(trial, rule.on_result(trial, 4, score).verdict) for trial, score, _ in table] == [
        (trial, verdict) for trial, _, verdict in table
    ]


def test_only_the_first_result_at_or_past_a_rung_is_compared():
    rule = asha()
    assert rule.on_result("a", 5, 10).rung == 4
    assert rule.on_result("b", 3, 0).verdict == "continue"
    assert rule.on_result("b", 4, 11).verdict == "continue"
    assert [rule.on_result("b", time, 0).rung for time in (5, 9, 15)] == [None, None, None]
    assert rule.on_result("b", 16, 0).rung == 16


def test_a_result_past_several_rungs_counts_only_at_the_furthest_rung():
    rule = asha()
    assert rule.on_result("a", 17, 10).rung == 16
    assert rule.on_result("a", 18, 0).verdict == "continue"
    assert rule.on_result("b", 4, 1).verdict == "continue"
    assert rule.on_result("b", 16, 9).verdict == "stop"


def test_a_trial_stops_at_the_limit_even_if_it_reports_again(wording):
    rule = asha()
    assert rule.on_result("a", 64, 10).reason == wording("64")
    assert rule.on_result("a", 64, 10).verdict == "stop"


def test_a_stopped_trial_still_counts_at_the_rungs_it_reached():
    rule = asha()
    rule.on_result("a", 4, 10)
    rule.remove("a")
    assert rule.on_result("b", 4, 9).verdict == "stop"


def test_a_missing_score_is_worse_than_any_number_but_not_than_another_missing_score(wording):
    rule = asha(reduction_factor=2)
    assert rule.on_result("a", 4, None).verdict == "continue"
    assert rule.on_result("b", 4, math.nan).verdict == "continue"
    assert rule.on_result("c", 4, -1e9).verdict == "continue"
    assert rule.on_result("d", 4, 1).verdict == "continue"
    assert rule.on_result("e", 4, 2).verdict == "continue"
    assert rule.on_result("f", 4, None).reason == wording("episode_return_mean", "-1,000,000,000")


def test_no_trial_ever_has_to_wait():
    rule = asha()
    assert {rule.on_result(trial, 4, score).verdict for score, trial in enumerate("abcdefgh")} == {"continue"}
    assert rule.released() == {}


def test_reasons_state_scores_and_times_in_their_units(wording):
    rule = asha(max_t=100_000, grace_period=10_000)
    rule.on_result("a", 10_000, 30.14)
    assert rule.on_result("b", 10_000, 12.4).reason == wording("12.4", "10,000", "30.14")
    rule = asha(
        max_t=50, grace_period=2.5, reduction_factor=2.5, measure=Measure("learner/loss", "min", "time_total_s")
    )
    rule.on_result("a", 2.5, -0.25)
    assert rule.on_result("b", 2.75, -1234.5).reason == wording("1,234", "2.75", "40")


def test_trials_are_dealt_to_brackets_in_proportion_to_the_shares_set_by_the_brackets_rungs():
    rule = asha("", max_t=256, brackets=3)  # rungs at 4, 16 and 64; shares 0.665, 0.245 and 0.090
    for number in range(100):
        rule.add(str(number))
    dealt = [rule.bracket_of(str(number)) for number in range(100)]
    assert dealt[:8] == [0, 1, 0, 0, 2, 0, 1, 0]
    assert [dealt.count(bracket) for bracket in range(3)] == [67, 24, 9]


def test_a_trial_in_a_later_bracket_is_first_compared_at_a_later_rung():
    rule = asha("ab", max_t=256, brackets=3)
    assert rule.bracket_of("b") == 1
    assert rule.on_result("b", 4, 0).rung is None
    assert rule.on_result("b", 16, 0).rung == 16


def test_adding_a_trial_twice_changes_nothing():
    rule = asha("aab", max_t=256, brackets=3)
    assert rule.bracket_of("b") == 1


@pytest.mark.parametrize(
    ("settings", "number"),
    [
        ({"grace_period": 65}, r"grace_period \(65\)"),
        ({"grace_period": 0}, r"grace_period \(0\)"),
        ({"reduction_factor": 1}, r"reduction_factor \(1\)"),
        ({"brackets": 0}, r"brackets \(0\)"),
    ],
)
def test_invalid_settings_are_refused(settings, number):
    with pytest.raises(ValueError, match=number):
        asha(**settings)


def test_a_quantile_is_interpolated_except_next_to_a_missing_score_where_it_is_missing():
    assert quantile([], 0.75) == -math.inf
    assert quantile([4, 1, 3, 2, 5], 0.75) == 4
    assert quantile([1, 2], 0.75) == 1.75
    assert quantile([-math.inf, 2], 0.75) == -math.inf
    assert quantile([-math.inf, 1, 2], 0.5) == 1
    assert quantile([-math.inf, -math.inf], 0.5) == -math.inf
