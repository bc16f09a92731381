"""Matrix products of the C kernels: each element adds its terms in order, with fused multiply-add."""

from __future__ import annotations

import ctypes
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlrun.engine.kernels import steps
from rlrun.engine.kernels.library import library, processor
from rlrun.engine.kernels.steps import StepTable

Floats = NDArray[np.float32]

needs_fma = pytest.mark.skipif(
    "fma" not in processor().split(), reason="this processor has no fused multiply-add of x86"
)


libm = ctypes.CDLL("libm.so.6") if Path("/proc").exists() else None


def fused(a: float, b: float, c: float) -> float:
    """Oracle: a b + c with one rounding, from the C library."""
    assert libm is not None
    libm.fmaf.restype, libm.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    return float(libm.fmaf(a, b, c))


@st.composite
def operands(draw: st.DrawFn) -> tuple[Floats, Floats]:
    m, n = draw(st.integers(2, 40)), draw(st.integers(2, 60))
    k = draw(st.integers(1, 40) | st.integers(250, 520))
    random = np.random.default_rng(draw(st.integers(0, 9)))
    a, b = (random.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n)))
    turned = draw(st.booleans()), draw(st.booleans())
    a, b = (np.ascontiguousarray(x.T).T if is_turned else x for x, is_turned in zip((a, b), turned, strict=True))
    return a, b


@needs_fma
@settings(max_examples=60, deadline=None)
@given(operands())
def test_each_number_of_a_product_sums_its_terms_in_order_with_fused_multiply_adds(
    given: tuple[Floats, Floats],
) -> None:
    a, b = given
    found = product(library(), a, b)
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    for i, j in ((0, 0), (len(a) - 1, b.shape[1] - 1), (len(a) // 2, b.shape[1] // 2)):
        total = 0.0
        for x, y in zip(a[i], b[:, j], strict=True):
            total = fused(x, y, total)
        assert found[i, j] == total


def test_a_product_above_the_size_limit_is_computed_by_numpys_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    a, b = (random.normal(size=(32, 300)).astype(np.float32), random.normal(size=(300, 32)).astype(np.float32))
    own = product(library(), a, b)
    monkeypatch.setattr(steps, "LARGEST_OWN_PRODUCT", 32 * 300 * 32 - 1)
    by_blas = product(library(), a, b)
    assert by_blas.tobytes() == (a @ b).tobytes()
    np.testing.assert_allclose(own, by_blas, atol=1e-4)


def product(kernels: ctypes.CDLL, a: Floats, b: Floats) -> Floats:
    """Returns a @ b, computed by compiled kernels."""
    out = np.full((len(a), b.shape[1]), np.nan, np.float32)
    kernels.run_steps(*StepTable(kernels, [partial(np.matmul, a, b, out)]).arguments)
    return out
