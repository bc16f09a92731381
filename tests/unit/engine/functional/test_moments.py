import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlrun.engine.functional.masked import masked_mean, standardized
from rlrun.engine.functional.moments import Moments

samples = arrays(np.float64, st.tuples(st.integers(1, 20), st.just(3)), elements=st.floats(-1e3, 1e3))


@given(samples, samples)
def test_the_merged_moments_of_two_streams_equal_the_moments_of_the_concatenated_stream(first, second):
    merged = Moments.of(first, 1).merged(Moments.of(second, 1))
    both = np.concatenate([first, second])
    assert merged.count == len(both)
    np.testing.assert_allclose(merged.mean, both.mean(0), atol=1e-9)
    np.testing.assert_allclose(merged.variance, both.var(0) if len(both) > 1 else 1.0, atol=1e-6)


def test_merging_with_empty_moments_changes_nothing():
    some = Moments.of(np.array([1.0, 2.0, 3.0]), 1)
    for merged in (some.merged(Moments.empty(())), Moments.empty(()).merged(some)):
        assert (merged.count, merged.mean, merged.squares) == (3.0, 2.0, 2.0)
    assert Moments.empty(()).merged(Moments.empty(())).variance == 1.0


def test_moments_survive_a_round_trip_through_their_state():
    some = Moments.of(np.arange(12.0).reshape(4, 3), 1)
    again = Moments.from_state(some.state())
    assert again.count == some.count
    np.testing.assert_array_equal(again.squares, some.squares)


def test_the_masked_mean_ignores_invalid_cells():
    assert masked_mean(np.array([1.0, 3.0, 1e9]), np.array([1.0, 1.0, 0.0])) == 2.0


def test_the_masked_mean_over_no_valid_cells_is_zero():
    assert masked_mean(np.array([5.0]), np.array([0.0])) == 0.0


@pytest.mark.parametrize("function", [masked_mean, standardized])
def test_numbers_whose_shape_differs_from_the_masks_are_refused_rather_than_broadcast(function):
    told = r"masked_mean: x is \[4, 4\] but the mask is \[4, 1\]; keep every term \[S, L\], also when L is 1"
    with pytest.raises(ValueError, match=told):
        function(np.ones((4, 4)), np.ones((4, 1)))


@given(arrays(np.float32, 20, elements=st.floats(-100, 100, width=32)), st.floats(-1e6, 1e6))
def test_standardized_valid_cells_do_not_depend_on_garbage_in_invalid_cells(x, garbage):
    valid = np.arange(20) % 3 != 0
    dirty = np.where(valid, x, np.float32(garbage)).astype(np.float32)
    np.testing.assert_array_equal(standardized(dirty, valid), standardized(np.where(valid, x, 0), valid))


def test_standardized_numbers_have_mean_zero_and_standard_deviation_one_over_valid_cells():
    x = np.random.default_rng(0).normal(5, 3, 1000).astype(np.float32)
    valid = np.arange(1000) < 600
    result = standardized(x, valid)
    assert abs(result[:600].mean()) < 1e-6
    assert abs(result[:600].std() - 1) < 1e-6
    assert not result[600:].any()
