"""The interval of a difference between few scores: how often it is wrong, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.report.statistics import mean_difference, t_quantile


@pytest.mark.parametrize(("degrees", "exact"), [(3, 3.1824), (4, 2.7764), (8, 2.3060), (18, 2.1009), (100, 1.9840)])
def test_the_quantile_of_t_is_near_the_exact_one(degrees: int, exact: float) -> None:
    assert t_quantile(degrees) == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("seeds", [3, 5])
def test_equal_groups_are_seldom_set_below(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlrun.report.statistics.RESAMPLES", 500)
    draws = np.random.default_rng(0)
    found = [mean_difference([draws.normal(size=seeds)], [draws.normal(size=seeds)]) for _ in range(600)]
    assert np.mean([difference.high < 0 for difference in found]) < 0.07  # plain percentiles: 0.095 with three seeds


def test_a_large_difference_is_found_with_three_scores() -> None:
    draws = np.random.default_rng(0)
    found = [mean_difference([draws.normal(size=3) - 4.0], [draws.normal(size=3)]) for _ in range(100)]
    assert np.mean([difference.high < 0 for difference in found]) > 0.9


def test_the_interval_lies_within_the_extremes_and_around_the_difference() -> None:
    found = mean_difference([[10.0, 11.0, 12.0]], [[20.0, 21.0, 22.0]])
    assert found.value == -10.0
    assert -12.0 <= found.low < -10.0 < found.high <= -8.0


def test_strata_have_the_same_weight_whatever_their_size() -> None:
    found = mean_difference([[1.0, 1.0], [5.0, 5.0, 5.0, 5.0]], [[2.0, 2.0], [8.0, 8.0]])
    assert (found.value, found.low, found.high) == (-2.0, -2.0, -2.0)


def test_a_single_score_has_no_interval() -> None:
    with pytest.raises(ValueError, match="takes two scores or more"):
        mean_difference([[1.0]], [[1.0, 2.0]])
