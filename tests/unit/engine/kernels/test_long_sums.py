"""Sums of the C kernels: their order is fixed, and long sums lose no digits."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlrun.engine.kernels.library import library, why_no_library
from rlrun.engine.kernels.steps import StepTable

pytestmark = pytest.mark.skipif(bool(why_no_library()), reason="no C compiler")

Floats = NDArray[np.float32]
LENGTHS = (1, 15, 17, 1_024, 1_025, 16_384, 16_385, 100_003)


def numbers(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).random(shape, np.float32)


def run(call: partial[Any]) -> None:
    library().run_steps(*StepTable(library(), [call]).arguments)


def summed(x: Floats, axis: int) -> Floats:
    out = np.full(np.delete(x.shape, axis), np.nan, np.float32)
    run(partial(np.add.reduce, x, axis, None, out))
    return out


def multiplied(a: Floats, b: Floats) -> Floats:
    out = np.full((len(a), b.shape[1]), np.nan, np.float32)
    run(partial(np.matmul, a, b, out=out))
    return out


def in_halves(terms: Floats, short: Any, longest: int) -> Any:
    """Sum of the rows of terms: by `short` up to its longest length, otherwise as the sum of both halves."""
    if len(terms) <= longest:
        return short(terms)
    half = len(terms) // 2 // 16 * 16
    return in_halves(terms[:half], short, longest) + in_halves(terms[half:], short, longest)


def one_by_one(terms: Floats) -> Any:
    return np.add.accumulate(terms)[-1]


def in_lanes(terms: Floats) -> Any:
    lanes = [one_by_one(terms[lane::16]) if lane < len(terms) else np.float32(0) for lane in range(16)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [first + second for first, second in zip(lanes[:half], lanes[half:], strict=True)]
    return lanes[0]


@pytest.mark.parametrize("n", LENGTHS)
def test_numbers_are_summed_in_16_lanes_and_long_sums_in_halves(n: int) -> None:
    x, y = numbers(n), numbers(n, seed=1)
    assert summed(x[None], 1) == in_halves(x, in_lanes, 16_384)
    assert multiplied(x[None], y[:, None]) == in_halves(x * y, in_lanes, 16_384)


@pytest.mark.parametrize("columns", [3, 64, 150])
@pytest.mark.parametrize("n", LENGTHS[:-1])
def test_rows_are_summed_one_by_one_and_sums_of_more_than_1024_rows_in_halves(n: int, columns: int) -> None:
    x, y = numbers(n), numbers(n, columns, seed=1)
    np.testing.assert_array_equal(summed(y, 0), in_halves(y, one_by_one, 1_024))
    np.testing.assert_array_equal(multiplied(x[None], y)[0], in_halves(x[:, None] * y, one_by_one, 1_024))


def test_sums_and_products_of_a_million_numbers_are_accurate_to_two_units_in_the_last_place() -> None:
    x, y = numbers(1_000_000), numbers(1_000_000, 2, seed=1)
    found = [summed(x[None], 1)[0], *summed(y, 0), *multiplied(x[None], y)[0]]
    products = x[:, None] * y
    exact = [math.fsum(column) for column in (x, *y.T, *products.T)]
    np.testing.assert_array_less(np.abs(found - np.array(exact)), 2 * np.spacing(np.float32(exact)))
