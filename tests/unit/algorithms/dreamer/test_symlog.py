"""Symlog and its inverse, and numbers as two-hot distributions over symmetric bins."""

from __future__ import annotations

import numpy as np
import torch

from rlrun.algorithms.dreamer.symlog import (
    mean_of_bins,
    symexp,
    symexp_bins,
    symlog,
    symlog_of_array,
    two_hot,
    two_hot_cross_entropy,
)
from tests.rounding import rounding_error

NUMBERS = torch.tensor([-1e6, -3.5, -1.0, -1e-3, 0.0, 1e-4, 0.5, 2.0, 500.0, 1e5])
BINS = torch.from_numpy(symexp_bins(255))


def dense(numbers: torch.Tensor) -> torch.Tensor:
    lower, share = two_hot(numbers, BINS)
    places = torch.stack([lower, lower + 1], -1)
    return torch.zeros(*numbers.shape, len(BINS)).scatter_add(-1, places, torch.stack([1 - share, share], -1))


def test_symexp_inverts_symlog() -> None:
    near = rounding_error(2, size=14.0)  # an error of the largest exponent, 14, scales the result
    torch.testing.assert_close(symexp(symlog(NUMBERS)), NUMBERS, rtol=near, atol=near)
    torch.testing.assert_close(symlog(torch.tensor([np.e - 1, 1 - np.e])), torch.tensor([1.0, -1.0]))


def test_symlog_gives_the_same_result_for_arrays_and_tensors() -> None:
    np.testing.assert_allclose(symlog_of_array(NUMBERS.numpy()), symlog(NUMBERS).numpy(), rtol=rounding_error(4))


def test_bins_are_symmetric_around_zero_and_extend_to_the_symexp_of_20() -> None:
    bins = symexp_bins(5)
    np.testing.assert_allclose(
        bins, [-np.expm1(20.0), -np.expm1(10.0), 0, np.expm1(10.0), np.expm1(20.0)], rtol=rounding_error(4)
    )


def test_a_two_hot_distributions_mean_is_the_number_it_encodes() -> None:
    near = rounding_error(255)
    torch.testing.assert_close(mean_of_bins(dense(NUMBERS), BINS), NUMBERS, rtol=near, atol=near)


def test_a_number_beyond_the_bins_is_encoded_as_the_outermost_bin() -> None:
    far = dense(torch.tensor([-1e10, 1e10]))
    assert far[0, 0] == 1
    assert far[1, -1] == 1


def test_a_number_exactly_on_a_bin_is_one_hot() -> None:
    assert bool((dense(BINS) == torch.eye(len(BINS))).all())


def test_a_uniform_distribution_over_huge_bins_has_a_mean_of_exactly_zero() -> None:
    assert mean_of_bins(torch.full((3, 255), 1 / 255), BINS).tolist() == [0, 0, 0]


def test_two_hot_cross_entropy_equals_the_cross_entropy_of_dense_distributions() -> None:
    logits = torch.randn(len(NUMBERS), 255, generator=torch.Generator().manual_seed(0))
    expected = -(dense(NUMBERS) * logits.log_softmax(-1)).sum(-1)
    torch.testing.assert_close(two_hot_cross_entropy(logits, NUMBERS, BINS), expected)
