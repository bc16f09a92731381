"""Exact intervals of probabilities, compared with closed forms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlrun.engine.functional.intervals import beta_cdf, exact_interval


@pytest.mark.parametrize("trials", [1, 10, 400, 100_000])
def test_the_interval_for_only_failures_or_only_successes_matches_its_closed_form(trials: int) -> None:
    assert exact_interval(0, trials) == (0.0, pytest.approx(1 - 0.025 ** (1 / trials), rel=1e-9))
    assert exact_interval(trials, trials) == (pytest.approx(0.025 ** (1 / trials), rel=1e-9), 1.0)


@given(trials=st.integers(1, 40), successes=st.integers(0, 40))
def test_each_tail_outside_the_interval_has_a_probability_of_1_in_40(trials: int, successes: int) -> None:
    successes = min(successes, trials)
    low, high = exact_interval(successes, trials)
    assert low <= successes / trials <= high
    if successes:
        assert at_least(successes, trials, low) == pytest.approx(0.025, rel=1e-6)
    if successes < trials:
        assert at_least(successes + 1, trials, high) == pytest.approx(0.975, rel=1e-6)


def at_least(successes: int, trials: int, chance: float) -> float:
    """Returns the probability of at least this many successes."""
    counts = range(successes, trials + 1)
    return sum(math.comb(trials, count) * chance**count * (1 - chance) ** (trials - count) for count in counts)


def test_the_beta_cdf_is_correct_outside_its_support_and_for_the_uniform_distribution() -> None:
    assert [beta_cdf(x, 2, 3) for x in (-1.0, 0.0, 1.0, 2.0)] == [0.0, 0.0, 1.0, 1.0]
    assert beta_cdf(0.3, 1, 1) == pytest.approx(0.3)
