"""Activations in one loop equal the separate loops that they combine, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlrun.engine.kernels.library import library, why_no_library
from rlrun.engine.kernels.recorded import KernelFunction
from rlrun.engine.kernels.steps import (
    StepTable,
    write_elu,
    write_elu_gradient,
    write_sigmoid,
    write_sigmoid_gradient,
    write_tanh_gradient,
)

pytestmark = pytest.mark.skipif(bool(why_no_library()), reason="no C compiler")

X = np.concatenate(
    [
        np.random.default_rng(0).normal(size=5000).astype(np.float32) * np.float32(20),
        np.array([0.0, -0.0, 1e-30, -1e-30, -104, -200, 90, 200, np.inf, -np.inf, np.nan], np.float32),
    ]
)
GRADIENT = np.random.default_rng(1).normal(size=X.shape).astype(np.float32)


def results(*calls: partial[Any], out: NDArray[np.float32]) -> bytes:
    library().run_steps(*StepTable(library(), calls).arguments)
    return out.tobytes()


def test_elu_equals_the_formula_with_max_and_expm1_of_min_bit_for_bit() -> None:
    out, first, second = np.full((3, *X.shape), 7, np.float32)
    zero = np.zeros((), np.float32)
    apart = [
        partial(np.maximum, X, zero, out=first),
        partial(np.minimum, X, zero, out=second),
        partial(np.expm1, second, out=second),
        partial(np.add, second, first, out=second),
    ]
    assert results(partial(write_elu, X, first, out=out), out=out) == results(*apart, out=second)


def test_the_elu_gradient_equals_the_formula_with_exp_of_min_bit_for_bit() -> None:
    out, second = np.full((2, *X.shape), 7, np.float32)
    apart = [
        partial(np.minimum, X, np.zeros((), np.float32), out=second),
        partial(np.exp, second, out=second),
        partial(np.multiply, second, GRADIENT, out=second),
    ]
    assert results(partial(write_elu_gradient, GRADIENT, X, out=out), out=out) == results(*apart, out=second)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "inputs"), [(write_sigmoid, 1), (write_sigmoid_gradient, 2), (write_tanh_gradient, 2)]
)
def test_gates_of_strided_rows_equal_separate_kernel_calls_bit_for_bit(
    function: Callable[..., None], inputs: int, dtype: str
) -> None:
    numbers = np.stack([X, GRADIENT])[:inputs, : 8 * 4 * 50].astype(dtype)
    numbers[:, 50 : 50 + 11] = X[-11:]
    gates = numbers.reshape(inputs, 8, 4, 50)[:, :, 1]  # rows are not contiguous in memory

    def called(*arrays: Any) -> Any:
        out = np.empty_like(arrays[0])
        function(*arrays, out=out)
        return out

    with np.errstate(over="ignore"):  # an exponential overflows where the sigmoid is 0
        expected = KernelFunction(called, *gates)
    out = np.full((8, 50), 7, dtype)
    assert results(partial(function, *gates, out=out), out=out) == expected(*gates).tobytes()
