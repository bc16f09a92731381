"""Averages, intervals and tests for few seeds, compared with rliable, brute force and published tables."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.report.statistics import (
    Estimate,
    bootstrapped,
    holm,
    interquartile_mean,
    iqm,
    mean,
    median,
    probability_of_improvement,
    rank_test,
    smallest_p,
)

# The results of the package rliable, written by scripts/check_statistics.py.
RLIABLE = json.loads((Path(__file__).parent / "rliable.json").read_text())


def check(found: Estimate, expected: list[float]) -> None:
    value, low, high = expected
    slack = RLIABLE["tolerance"] * (high - low) + 1e-9
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.low == pytest.approx(low, abs=slack)
    assert found.high == pytest.approx(high, abs=slack)


@pytest.mark.parametrize("case", RLIABLE["cases"], ids=lambda case: f"{np.shape(case['ours'])}")
def test_measures_and_their_intervals_match_rliable(case: dict[str, Any]) -> None:
    ours, theirs = list(np.array(case["ours"]).T), list(np.array(case["theirs"]).T)
    check(bootstrapped(iqm, ours), case["iqm"])
    check(bootstrapped(mean, ours), case["mean"])
    check(probability_of_improvement(ours, theirs), case["probability"])
    if len(ours) > 1:
        check(bootstrapped(median, ours), case["median"])


@pytest.mark.parametrize(("count", "left"), [(1, 1), (3, 3), (4, 2), (7, 5), (8, 4), (9, 5), (16, 8)])
def test_the_interquartile_mean_leaves_out_a_quarter_of_the_values_at_each_end(count: int, left: int) -> None:
    values = np.arange(count, dtype=float)[::-1]
    cut = (count - left) // 2
    assert interquartile_mean(values) == pytest.approx(np.sort(values)[cut : count - cut].mean())


def test_an_outlier_changes_the_mean_but_not_the_interquartile_mean() -> None:
    plain, spoilt = np.array([1.0, 2, 3, 4, 5, 6, 7, 8]), np.array([1.0, 2, 3, 4, 5, 6, 7, 8000])
    assert iqm([plain]) == iqm([spoilt]) == 4.5
    assert mean([spoilt]) > 1000


def test_the_median_is_taken_over_scores_or_if_there_are_several_strata_over_stratum_means() -> None:
    assert median([np.array([1.0, 2.0, 9.0])]) == 2.0
    assert median([np.array([0.0, 2.0]), np.array([5.0]), np.array([9.0])]) == 5.0


def test_a_bootstrap_draws_within_each_stratum() -> None:
    apart = [np.array([0.0, 0.0]), np.array([100.0, 100.0])]
    assert bootstrapped(mean, apart) == Estimate(50.0, 50.0, 50.0)
    together = bootstrapped(mean, [np.concatenate(apart)])
    assert together.low < 25 < 75 < together.high


def test_the_same_scores_give_the_same_bootstrap_interval() -> None:
    scores = [np.random.default_rng(1).normal(size=9)]
    assert bootstrapped(iqm, scores) == bootstrapped(iqm, scores)


def test_the_bootstrap_interval_of_a_single_score_is_the_score_itself() -> None:
    assert bootstrapped(iqm, [[3.0]]) == Estimate(3.0, 3.0, 3.0)


def test_a_bootstrap_computed_in_parts_gives_the_same_interval_as_one_computed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = [np.random.default_rng(0).normal(size=40)]
    whole = bootstrapped(mean, scores)
    monkeypatch.setattr("rlrun.report.statistics._RESAMPLED_AT_ONCE", 1000)
    assert bootstrapped(mean, scores) == whole


def test_ties_count_half_in_the_probability_of_improvement() -> None:
    assert probability_of_improvement([[1.0, 2.0]], [[1.0, 2.0]]).value == 0.5
    assert probability_of_improvement([[2.0, 2.0]], [[1.0, 2.0]]).value == 0.75
    assert probability_of_improvement([[3.0, 4.0]], [[1.0, 2.0]]) == Estimate(1.0, 1.0, 1.0)


def test_groups_with_different_numbers_of_strata_cannot_be_compared(wording) -> None:
    with wording.raised(ValueError):
        probability_of_improvement([[1.0], [2.0]], [[1.0]])


@pytest.mark.parametrize(
    ("ours", "theirs", "p_value"),
    # The p-values are from tables of the exact two-sided Mann-Whitney test.
    [([7, 8, 9], [1, 2, 3], 0.1), ([5, 6, 7, 8], [1, 2, 3, 4], 2 / 70), ([1, 4, 6], [2, 3, 5], 1.0), ([1], [2], 1.0)],
)
def test_the_rank_test_is_exact_for_few_values(ours: list[float], theirs: list[float], p_value: float) -> None:
    assert rank_test(ours, theirs) == pytest.approx(p_value)
    assert rank_test(theirs, ours) == pytest.approx(p_value)


def test_the_exact_rank_test_matches_an_enumeration_of_all_splits_with_ties() -> None:
    x, y = [1.0, 2.0, 2.0, 5.0], [2.0, 3.0, 5.0]
    ranks = {1.0: 1.0, 2.0: 3.0, 3.0: 5.0, 5.0: 6.5}
    all_ranks = [ranks[value] for value in x + y]
    off = abs(sum(all_ranks[:4]) - 16)
    ways = [abs(sum(chosen) - 16) >= off for chosen in itertools.combinations(all_ranks, 4)]
    assert rank_test(x, y) == pytest.approx(np.mean(ways))


def test_the_rank_test_of_many_values_uses_a_normal_approximation(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(3)
    for shift in (0.0, 0.3, 0.6):
        x, y = np.round(draws.normal(shift, size=40), 1), np.round(draws.normal(size=30), 1)  # with ties
        exact = rank_test(x, y)
        with monkeypatch.context() as patch:
            patch.setattr("rlrun.report.statistics.EXACT_COST", 0)
            assert rank_test(x, y) == pytest.approx(exact, rel=0.05, abs=1e-4)
    assert rank_test(np.arange(2000.0), np.arange(2000.0) + 5) == pytest.approx(0.784, abs=1e-3)  # z = 0.274
    assert rank_test(np.ones(3000), np.ones(3000)) == 1.0


def test_the_p_value_of_two_groups_of_equal_values_is_1() -> None:
    assert rank_test([2.0, 2.0, 2.0], [2.0, 2.0]) == 1.0


def test_without_overlap_the_rank_test_gives_the_smallest_possible_p_value() -> None:
    for ours, theirs in [(2, 2), (3, 3), (5, 3), (5, 5)]:
        x, y = np.arange(ours) + 100.0, np.arange(theirs) * 1.0
        assert rank_test(x, y) == pytest.approx(smallest_p(ours, theirs))


def test_holms_method_adjusts_p_values_for_their_number_and_keeps_their_order() -> None:
    assert holm([0.5, 0.01, 0.03]) == pytest.approx([0.5, 0.03, 0.06])
    assert holm([0.04, 0.04]) == pytest.approx([0.08, 0.08])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.01, 0.02], tests=10) == pytest.approx([0.1, 0.18])
