"""The interval of a difference between few scores: how often it is wrong, and what it detects."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlrun.engine.functional.intervals import t_quantile
from rlrun.report.statistics import mean_difference


@pytest.mark.parametrize(
    ("degrees", "exact"),
    [
        (1, 12.70620),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (8, 2.30600),
        (18, 2.10092),
        (100, 1.98397),
    ],
)
def test_t_quantiles_match_exact_values(degrees: float, exact: float) -> None:
    assert t_quantile(degrees) == pytest.approx(exact, rel=1e-4)


def test_the_interval_of_a_mean_difference_is_welchs_interval() -> None:
    found = mean_difference([[1.0, 2.0, 3.0]], [[2.0, 6.0]])
    degrees = (1 / 3 + 4) ** 2 / ((1 / 3) ** 2 / 2 + 4**2 / 1)
    half = t_quantile(degrees) * math.sqrt(1 / 3 + 4)
    assert (found.value, found.low, found.high) == pytest.approx((-2, -2 - half, -2 + half))


def test_degrees_of_freedom_of_all_sides_and_strata_add_up_if_their_variances_are_equal() -> None:
    sides = [[0.0, 1.0, 2.0]] * 2
    half = t_quantile(8) * math.sqrt(4 / 3) / 2  # four sides with two degrees of freedom each, over two strata
    assert mean_difference(sides, sides).high == pytest.approx(half)


@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("seeds", [3, 5])
def test_a_95_percent_interval_covers_the_true_difference_95_percent_of_the_time(seeds: int, scale: float) -> None:
    draws = np.random.default_rng(0)
    found = [mean_difference([scale * draws.normal(size=seeds)], [draws.normal(size=seeds)]) for _ in range(1500)]
    covered = np.mean([difference.low <= 0 <= difference.high for difference in found])
    assert 0.935 < covered < 0.98  # a percentile bootstrap of three seeds covers 0.89 at most


def test_a_large_difference_is_found_with_three_scores() -> None:
    draws = np.random.default_rng(0)
    found = [mean_difference([draws.normal(size=3) - 5.0], [draws.normal(size=3)]) for _ in range(100)]
    assert np.mean([difference.high < 0 for difference in found]) > 0.9


def test_all_strata_have_the_same_weight_whatever_their_size() -> None:
    found = mean_difference([[1.0, 1.0], [5.0, 5.0, 5.0, 5.0]], [[2.0, 2.0], [8.0, 8.0]])
    assert (found.value, found.low, found.high) == (-2.0, -2.0, -2.0)


def test_a_mean_difference_cannot_be_computed_with_a_single_score(wording) -> None:
    with wording.raised(ValueError):
        mean_difference([[1.0]], [[1.0, 2.0]])
