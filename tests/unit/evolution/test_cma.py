"""CMA-ES by itself: it finds optima, sees ranks alone, and goes on where it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from rlrun.evolution.cma import CovarianceAdaptation

Cost = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def evaluations(cost: Cost, d: int, size: int, seed: int, most: int, target: float = 1e-8) -> int:
    """Returns how many evaluations it takes until a candidate costs less than the target."""
    search = CovarianceAdaptation(np.zeros(d), 0.5, size)
    generator = np.random.default_rng(seed)
    for number in range(size, most + 1, size):
        candidates = search.candidates(generator.standard_normal((size, d)))
        costs = cost(candidates.astype(np.float64))
        if costs.min() < target:
            return number
        search.update(candidates, -costs)
    return most + 1


def rotated_rosenbrock(d: int, seed: int) -> Cost:
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))

    def cost(x: NDArray[np.float64]) -> NDArray[np.float64]:
        y = x @ rotation.T + 1
        found: NDArray[np.float64] = (100 * (y[:, 1:] - y[:, :-1] ** 2) ** 2 + (1 - y[:, :-1]) ** 2).sum(-1)
        return found

    return cost


def test_a_rotated_rosenbrock_function_takes_at_most_twice_the_evaluations_of_pycma() -> None:
    # pycma 4 takes 10,776, 4,740, 4,356, 7,608 and 4,020 of these five, from the same first mean and step size.
    taken = [evaluations(rotated_rosenbrock(15, seed), 15, 12, 100 + seed, 20_000) for seed in range(1, 6)]
    assert np.median(taken) <= 2 * 4_740
    assert max(taken) <= 2 * 10_776


def test_an_ellipsoid_is_solved_although_its_axes_differ_by_a_thousand() -> None:
    scales = 1e6 ** (np.arange(8) / 7)
    assert evaluations(lambda x: (scales * np.square(x - 1)).sum(-1), 8, 10, 0, 8_000) <= 8_000


def test_only_ranks_of_returns_matter() -> None:
    first, second = (CovarianceAdaptation(np.zeros(4), 0.5, 8) for _ in range(2))
    generator = np.random.default_rng(0)
    for _ in range(10):
        candidates = first.candidates(generator.standard_normal((8, 4)))
        returns = -np.square(candidates.astype(np.float64) - 1).sum(-1)
        first.update(candidates, returns)
        second.update(candidates, 7 + np.cbrt(3 * returns))
    np.testing.assert_array_equal(first.covariance, second.covariance)
    assert first.sigma == second.sigma


def test_the_first_step_goes_to_the_weighted_mean_of_the_better_half() -> None:
    search = CovarianceAdaptation(np.zeros(3), 2.0, 4)
    candidates = np.arange(12, dtype=np.float32).reshape(4, 3)
    search.update(candidates, np.array([0.0, 3.0, 1.0, 2.0]))
    raw = np.log(2.5) - np.log([1, 2])
    np.testing.assert_allclose(search.mean, (raw / raw.sum()) @ candidates[[1, 3]], rtol=1e-12)


def test_it_goes_on_from_its_state_bit_for_bit() -> None:
    generator = np.random.default_rng(1)
    search = CovarianceAdaptation(np.ones(5), 0.3, 6)

    def generations(which: CovarianceAdaptation, noise: NDArray[np.float64]) -> None:
        for own in noise:
            candidates = which.candidates(own)
            which.update(candidates, -np.square(candidates).sum(-1))

    generations(search, generator.standard_normal((7, 6, 5)))
    other = CovarianceAdaptation(np.zeros(5), 1.0, 6)
    other.load_state(search.state())
    later = generator.standard_normal((7, 6, 5))
    generations(search, later)
    generations(other, later)
    np.testing.assert_array_equal(search.mean, other.mean)
    np.testing.assert_array_equal(search.covariance, other.covariance)


def test_the_covariance_stays_positive_definite() -> None:
    search = CovarianceAdaptation(np.zeros(6), 1.0, 9)
    generator = np.random.default_rng(2)
    for _ in range(300):
        search.update(search.candidates(generator.standard_normal((9, 6))), generator.standard_normal(9))
        assert np.linalg.eigvalsh(search.covariance).min() > 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("mean", np.zeros(4), r"mean is float64 \(4,\), not float64 \(3,\)"),
        ("covariance", np.full((3, 3), np.nan), "covariance has numbers that are not finite"),
        ("sigma", "text", "sigma is 'text', no finite number"),
        ("sigma", -1.0, "step size is -1.0"),
        ("generation", -1, "-1 is no count"),
        ("more", 1, "has mean, sigma, covariance, generation, sigma_path, path, axes, lengths, more"),
    ],
)
def test_a_saved_distribution_of_another_kind_is_refused(name: str, value: object, said: str) -> None:
    search = CovarianceAdaptation(np.zeros(3), 0.5, 4)
    with pytest.raises(ValueError, match=said):
        search.load_state({**search.state(), name: value})
