"""Sums without rounding: equal to fractions, and the same in any order and grouping."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlrun.algorithms.evolution.exact_sums import ExactSums
from rlrun.engine.functional.moments import Moments

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20)


@given(ROWS)
def test_sums_and_squares_equal_exact_fractions(rows: list[tuple[float, float]]) -> None:
    sums = ExactSums.of(np.array(rows, np.float32))
    for column in range(2):
        numbers = [Fraction(row[column]) for row in rows]
        assert sums.sums[column] * Fraction(2) ** -149 == sum(numbers)
        assert sums.squares[column] * Fraction(2) ** -298 == sum(number**2 for number in numbers)


@given(ROWS, st.integers(0, 20))
def test_sums_do_not_depend_on_the_order_or_grouping_of_rows(rows: list[tuple[float, float]], cut: int) -> None:
    mixed = np.random.default_rng(0).permutation(np.array(rows, np.float32))
    parts = ExactSums.of(mixed[:cut]).merged(ExactSums.of(mixed[cut:]))
    assert parts == ExactSums.of(np.array(rows, np.float32))


def test_moments_of_exact_sums_match_those_of_the_rows() -> None:
    rows = np.random.default_rng(1).normal(3.0, 2.0, (1000, 2, 3)).astype(np.float32)
    found, expected = ExactSums.of(rows).moments(), Moments.of(rows, 1)
    assert found.count == expected.count
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.squares, expected.squares, rtol=1e-10)
    assert ExactSums.of(rows[:0]).moments().count == 0


def test_non_finite_numbers_are_refused(wording) -> None:
    with wording.raised(ValueError, "NaN"):
        ExactSums.of(np.array([[0.0], [np.nan]]))
