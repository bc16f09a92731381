"""How a rule formats values and times, and how it orders scores."""

import math

import pytest

from rlrun.experiments.search.rules.rule import Measure, comparable


@pytest.mark.parametrize(
    ("time_attr", "time", "words"),
    [
        ("env_steps", 10_000, "10,000 env steps"),
        ("env_steps", 1234.5678, "1,235 env steps"),
        ("iteration", 3.0, "iteration 3"),
        ("time_total_s", 7.25, "7.25 s"),
        ("sgd_steps", 1e6, "1,000,000 SGD steps"),
        ("info/laps", 2, "info/laps 2"),
    ],
)
def test_times_are_shown_in_their_unit(time_attr, time, words):
    assert Measure("m", "max", time_attr).moment(time) == words


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (12.375, "12.38"),
        (0.00012346, "0.0001235"),
        (475.0, "475"),
        (-21, "-21"),
        (12345.6, "12,346"),
        (-math.inf, "a missing m"),
    ],
)
def test_scores_are_shown_as_values_of_the_metric(score, words):
    assert Measure("m", "max", "env_steps").value(score) == words


def test_minimized_metrics_are_shown_with_their_reported_sign():
    measure = Measure("learner/loss", "min", "env_steps")
    assert (measure.value(-0.5), measure.value(0.5), measure.worse_than) == ("0.5", "-0.5", "above")


def test_a_missing_score_is_worse_than_any_number():
    assert sorted([comparable(score) for score in (1, None, -5, math.nan)]) == [-math.inf, -math.inf, -5, 1]
