"""Which trials stop because they are below the median of the others, by hand."""

import math

import pytest

from rlrun.experiments.search.rules.median import Median
from rlrun.experiments.search.rules.rule import Measure

MAX = Measure("episode_return_mean", "max", "env_steps")


def median_of(curves: dict[str, list[float | None]], **settings: object) -> Median:
    """Returns the rule after curves with results at times 1, 2, 3, ..."""
    rule = Median(**{"grace_period": 1, "min_samples_required": 1, "measure": MAX, **settings})
    for trial, scores in curves.items():
        rule.add(trial)
        for time, score in enumerate(scores, start=1):
            rule.on_result(trial, time, score)
    return rule


def test_a_trials_best_score_is_compared_with_the_median_of_the_others_running_means(wording):
    # Means up to time 2: 2, 6, 30.
    rule = median_of({"a": [1, 3, 100], "b": [4, 8], "c": [20, 40, 0]})
    assert rule.on_result("d", 1, 6).verdict == "continue"
    assert rule.on_result("d", 2, 0).verdict == "continue"
    # At time 3, only a and c have results, with means of 34.67 and 20.
    assert rule.on_result("d", 3, 27).verdict == "stop"
    assert median_of({"a": [1, 3], "b": [4, 8], "c": [20, 40]}).on_result("d", 2, 5.9).reason == wording("5.9")


def test_no_trial_is_stopped_in_the_grace_period_and_means_leave_out_earlier_results():
    rule = median_of({"a": [100, 1, 3]}, grace_period=2)
    assert rule.on_result("b", 1, -5).verdict == "continue"
    assert rule.on_result("b", 2, 1).verdict == "continue"
    assert rule.on_result("b", 3, 1.9).verdict == "stop"


def test_no_trial_is_stopped_if_too_few_other_trials_have_reached_its_time():
    rule = median_of({"a": [9], "b": [9], "c": [9, 9]}, min_samples_required=3)
    assert rule.on_result("d", 1, 0).verdict == "stop"
    assert rule.on_result("d", 2, 0).verdict == "continue"


def test_a_trial_that_has_ended_still_counts_toward_the_median():
    rule = median_of({"a": [9]})
    rule.remove("a")
    assert rule.on_result("b", 1, 8).verdict == "stop"


def test_results_without_a_score_are_left_out_of_means():
    rule = median_of({"a": [None, 4, 6], "b": [math.nan, None, None]})
    assert rule.on_result("c", 1, None).verdict == "continue"
    assert rule.on_result("c", 2, 4).verdict == "continue"
    assert rule.on_result("c", 3, 0).verdict == "stop"


def test_a_trial_without_a_score_yet_is_below_every_median(wording):
    rule = median_of({"a": [-100]}, measure=Measure("learner/loss", "min", "iteration"))
    assert rule.on_result("b", 1, None).reason == wording("learner/loss", "100")


def test_a_row_that_is_reported_again_after_a_restart_is_not_counted_twice():
    rule = median_of({"a": [0, 12]})
    assert rule.on_result("a", 1, 0).verdict == "continue"
    assert rule.on_result("a", 2, 12).verdict == "continue"
    assert rule.on_result("b", 2, 6).verdict == "continue"
    assert rule.on_result("b", 2, 0).verdict == "continue"
    assert rule.on_result("c", 2, 5.9).verdict == "stop"
    assert rule.released() == {}


@pytest.mark.parametrize("settings", [{"grace_period": -1}, {"min_samples_required": 0}])
def test_invalid_settings_are_refused(settings):
    with pytest.raises(ValueError, match="min_samples_required"):
        median_of({}, **settings)
