"""Functions written for NumPy, recorded and run by C kernels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.kernels.library import why_no_library
from rlrun.engine.kernels.recorded import KernelFunction
from rlrun.engine.kernels.steps import NoKernel

pytestmark = pytest.mark.skipif(bool(why_no_library()), reason="no C compiler")


def random_array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def masked(x):
    allowed = (random_array(5, 3, seed=7) > 0).astype(np.int8)
    return np.where(allowed, x, np.float32(-1e9))


def in_place(x):
    y = x @ random_array(3, 4, seed=1)
    y += random_array(4, seed=2)
    np.tanh(y, out=y)
    y[:, 1:3] *= 2
    return y


def joined(x):
    both = np.empty_like(x, shape=(5, 5))
    both[:, :3], both[:, 3:] = x, np.float32(0.5)
    return {"all": np.concatenate([both, x * x], -1), "first": both[:, 0]}


FUNCTIONS = {
    "layers": in_place,
    "choices": lambda x: np.stack([part.argmax(-1) for part in np.split(x, [1], -1)], -1),
    "means": lambda x: x - x.mean(-1, keepdims=True),
    "bounds": lambda x: np.exp(np.clip(x, -0.5, 0.5)) / (1 + np.exp(-x)),
    "mask": masked,
    "parts": joined,
    "other types": lambda x: (x > 0).astype(np.int8),
    "shapes": lambda x: (x[:, None] * x[:, :, None]).reshape(5, 9)[:, ::2],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_recorded_function_agrees_with_numpy_on_new_inputs(name):
    function = FUNCTIONS[name]
    in_kernels = KernelFunction(function, random_array(5, 3))
    for seed in (3, 4):
        x = random_array(5, 3, seed=seed)
        found, wanted = in_kernels(x), function(x.copy())
        pairs = [(found[key], wanted[key]) for key in wanted] if isinstance(wanted, dict) else [(found, wanted)]
        for own, numpys in pairs:
            assert own.dtype == numpys.dtype
            np.testing.assert_allclose(own, numpys, rtol=1e-6, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 40), inputs=st.integers(1, 20), outputs=st.integers(1, 20), seed=st.integers(0, 99))
def test_layers_of_any_size_agree_with_float64(rows, inputs, outputs, seed):
    weight, bias, x = (
        random_array(inputs, outputs, seed=seed),
        random_array(outputs, seed=seed + 1),
        random_array(rows, inputs, seed=seed),
    )
    found = KernelFunction(lambda x: np.tanh(x @ weight + bias), np.zeros_like(x))(x)
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64) @ weight + bias), rtol=2e-5, atol=2e-6)


def test_captured_arrays_are_read_from_their_memory_in_each_call():
    factor = np.float32([1, 2, 3])
    times = KernelFunction(lambda x: x * factor, np.zeros((1, 3), np.float32))
    factor[:] = 5
    np.testing.assert_array_equal(times(np.ones((1, 3), np.float32)), [[5, 5, 5]])


def test_recording_and_calling_a_function_do_not_change_its_examples_or_arguments():
    example, argument = random_array(2, 2), random_array(2, 2, seed=1)
    before = example.copy(), argument.copy()

    def doubled(x):
        x += x
        return x

    np.testing.assert_array_equal(KernelFunction(doubled, example)(argument), 2 * before[1])
    np.testing.assert_array_equal([example, argument], before)


@pytest.mark.parametrize(
    "function",
    [
        np.tanh,
        np.exp,
        np.negative,
        lambda x: x.argmax(-1),
        lambda x: x.mean(-1),
        lambda x: np.maximum(x, 0),
        lambda x: np.minimum(0, x),
        lambda x: np.clip(x, -1, 1),
        lambda x: (x > 0).astype(np.int8),
    ],
    ids=["tanh", "exp", "negative", "argmax", "mean", "maximum", "minimum", "clip", "greater"],
)
def test_nan_and_infinity_are_treated_as_in_numpy(function):
    row = [np.nan, np.inf, -np.inf, 0.0, -1e9]
    x = np.float32([row, row[::-1], [0, np.inf, 1, np.nan, np.nan], [0, 1, np.inf, -np.inf, np.inf], [-np.inf] * 5])
    with np.errstate(all="ignore"):
        found, wanted = KernelFunction(function, np.zeros_like(x))(x), function(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("function", [np.exp, np.expm1, np.log, np.log1p, np.tanh])
def test_recorded_functions_agree_with_numpy_on_extreme_numbers(function):
    sizes = [0, 1e-45, 1e-38, 1e-3, 1, 80, 88.8, 103, 104, 1e9, 3e38, np.inf]
    x = np.float32([[np.nan, -np.nan, *sizes, *np.negative(sizes)]])
    with np.errstate(all="ignore"):
        found, wanted = KernelFunction(function, x)(x), function(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-45)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x if (x > 0) else -x,
        lambda x: np.asarray(x) + 1,
        lambda x: x[np.array([0, 1])],
        lambda x: x[x > 0],
        lambda x: np.linalg.norm(x),
        lambda x: np.add.reduce(x),
        lambda x: float(x[0, 0]) * x,
    ],
)
def test_functions_that_cannot_be_recorded_raise_an_error(function):
    with pytest.raises((NoKernel, AttributeError, TypeError)):
        KernelFunction(function, random_array(2, 2))
