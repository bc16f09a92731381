"""The tolerance of float32 comparisons allows any order of additions, but no mistake."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rounding import rounding_error


@pytest.mark.parametrize("elements", [2, 16, 1000])
def test_the_rounding_bound_allows_any_summation_order_but_not_a_missing_element(elements: int) -> None:
    generator = np.random.default_rng(0)
    terms = np.prod(generator.normal(size=(2, elements)).astype(np.float32), 0)
    size = float(np.abs(terms).sum())
    sums = [np.cumsum(generator.permutation(terms), dtype=np.float32)[-1] for _ in range(20)]
    near = rounding_error(elements, size=size)
    assert np.ptp(np.float64(sums)) <= near
    assert abs(float(np.sum(terms[1:], dtype=np.float64)) - float(sums[0])) > near
