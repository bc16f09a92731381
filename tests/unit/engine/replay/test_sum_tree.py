"""The sum tree compared with plain cumulative sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.replay.sum_tree import FAN_OUT, SumTree

SIZES = st.sampled_from([1, 2, 31, 1000, 1024, 1025, 2000, 33_000, 70_001])


def plain_draw(values: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    """The oracle: cumulative sums from the end."""
    sums = values[::-1].cumsum()
    return len(values) - 1 - np.searchsorted(sums, fractions * sums[-1], side="right")


@settings(max_examples=40, deadline=None)
@given(size=SIZES, seed=st.integers(0, 2**32 - 1), zeros=st.sampled_from([0.0, 0.5, 0.99]))
def test_draws_agree_with_those_from_plain_cumulative_sums(size: int, seed: int, zeros: float) -> None:
    """Integers are added without rounding, so both agree in every draw."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 1000, size) * (rng.random(size) >= zeros).astype(np.float64)
    values[rng.integers(size)] = 7.0
    tree = SumTree(size)
    tree.set(np.arange(size), values)
    fractions = np.concatenate([[0.0, np.nextafter(1.0, 0.0)], rng.random(200)])
    assert tree.total == values.sum()
    assert tree.draw(fractions).tolist() == plain_draw(values, fractions).tolist()


@settings(max_examples=20, deadline=None)
@given(size=SIZES, seed=st.integers(0, 2**32 - 1))
def test_sums_do_not_depend_on_the_order_of_updates(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree, at_once, expected = SumTree(size), SumTree(size), np.zeros(size)
    for _ in range(20):
        indices, values = rng.integers(0, size, 40), rng.lognormal(0.0, 5.0, 40)
        tree.set(indices, values)
        for index, value in zip(indices, values, strict=True):  # the last value of an index wins
            expected[index] = value
    at_once.set_all(expected)
    assert tree.values.tolist() == at_once.values.tolist() == expected.tolist()
    assert tree.total == at_once.total == pytest.approx(expected.sum())
    fractions = rng.random(300)
    assert tree.draw(fractions).tolist() == at_once.draw(fractions).tolist()


@settings(max_examples=20, deadline=None)
@given(size=st.sampled_from([33, 1025, 33_000]), seed=st.integers(0, 2**32 - 1))
def test_a_number_that_is_zero_is_never_drawn(size: int, seed: int) -> None:
    """Not even if rounding leaves more of a fraction than a block contains, which numbers of all sizes provoke."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(size) < 0.1, rng.lognormal(0.0, 10.0, size), 0.0)
    values[size // 2] = 0.1
    tree = SumTree(size)
    tree.set_all(values)
    # Draws at the fractions at which one number's share ends and the next begins, and at their neighboring floats.
    edges = np.unique((values[::-1].cumsum() / tree.total)[:-1])[-1000:]
    fractions = np.concatenate([edges, np.nextafter(edges, 0.0), np.nextafter(edges, 1.0)]).clip(0, np.nextafter(1, 0))
    assert (tree.values[tree.draw(fractions)] > 0.0).all()


def test_rounding_never_moves_a_draw_past_the_last_positive_number() -> None:
    """The last block's numbers are added in one order for the block's sum, and in another for a draw."""
    found_off = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        values = np.zeros(1025)
        values[:FAN_OUT] = np.where(np.arange(FAN_OUT) < 3, 0.0, rng.random(FAN_OUT))
        tree = SumTree(1025)
        tree.set_all(values)
        largest = np.nextafter(1.0, 0.0)
        (drawn,) = tree.draw(np.array([largest]))
        found_off += largest * tree.total >= values[::-1].cumsum()[-1]
        assert drawn == 3
    assert found_off > 10


def test_numbers_are_drawn_in_proportion_to_their_size() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 10, 2000).astype(np.float64)
    tree = SumTree(2000)
    tree.set_all(values)
    counts = np.bincount(tree.draw(rng.random(100_000)), minlength=2000)
    expected = values / values.sum() * 100_000
    some = expected > 0
    assert counts[~some].sum() == 0
    chi_square = ((counts - expected)[some] ** 2 / expected[some]).sum()
    degrees = some.sum() - 1
    assert abs(chi_square - degrees) < 4 * np.sqrt(2 * degrees)


def test_drawing_when_all_numbers_are_zero_is_an_error() -> None:
    for size in (5, 5000):
        with pytest.raises(ValueError, match="are zero"):
            SumTree(size).draw(np.array([0.5]))
