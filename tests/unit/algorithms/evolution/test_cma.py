"""CMA-ES on its own: it finds optima, uses only ranks, and resumes exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from rlrun.algorithms.evolution.cma import CovarianceAdaptation
from rlrun.algorithms.evolution.generations import ranks_within_bounds

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
    # With the same first mean and step size, pycma 4 needs 10,776, 4,740, 4,356, 7,608 and 4,020 evaluations.
    taken = [evaluations(rotated_rosenbrock(15, seed), 15, 12, 100 + seed, 20_000) for seed in range(1, 6)]
    assert np.median(taken) <= 2 * 4_740
    assert max(taken) <= 2 * 10_776


def test_an_ellipsoid_is_solved_even_if_its_axes_differ_by_a_factor_of_a_thousand() -> None:
    scales = 1e6 ** (np.arange(8) / 7)
    assert evaluations(lambda x: (scales * np.square(x - 1)).sum(-1), 8, 10, 0, 8_000) <= 8_000


@pytest.mark.parametrize(("optimum", "condition", "sigma"), [(0.9, 1.0, 0.5), (0.9, 1e3, 2.0), (0.5, 1.0, 5.0)])
def test_with_the_overshoot_penalty_a_quadratic_that_is_flat_beyond_its_bounds_is_solved(
    optimum: float, condition: float, sigma: float
) -> None:
    """Parameters are clipped to [-1, 1] before their cost is computed, like actions on their way to an env."""
    scales = condition ** (np.arange(10) / 9)
    found = {}
    for penalised in (True, False):
        search, generator = CovarianceAdaptation(np.zeros(10), sigma, 16), np.random.default_rng(0)
        for _ in range(250):
            candidates = search.candidates(generator.standard_normal((16, 10)))
            clipped = candidates.clip(-1, 1).astype(np.float64)
            returns = -(scales * np.square(clipped - optimum)).sum(-1)
            overshoots = np.square(candidates - clipped).mean(-1)
            search.update(candidates, ranks_within_bounds(returns, overshoots) if penalised else returns)
        found[penalised] = float((scales * np.square(search.mean.clip(-1, 1) - optimum)).sum())
    assert found[True] < 1e-10
    assert found[False] > 1e-2


def test_only_the_ranks_of_returns_affect_the_search() -> None:
    first, second = (CovarianceAdaptation(np.zeros(4), 0.5, 8) for _ in range(2))
    generator = np.random.default_rng(0)
    for _ in range(10):
        candidates = first.candidates(generator.standard_normal((8, 4)))
        returns = -np.square(candidates.astype(np.float64) - 1).sum(-1)
        first.update(candidates, returns)
        second.update(candidates, 7 + np.cbrt(3 * returns))
    np.testing.assert_array_equal(first.covariance, second.covariance)
    assert first.sigma == second.sigma


def test_the_first_step_moves_the_mean_to_the_weighted_mean_of_the_better_half() -> None:
    search = CovarianceAdaptation(np.zeros(3), 2.0, 4)
    candidates = np.arange(12, dtype=np.float32).reshape(4, 3)
    search.update(candidates, np.array([0.0, 3.0, 1.0, 2.0]))
    raw = np.log(2.5) - np.log([1, 2])
    np.testing.assert_allclose(search.mean, (raw / raw.sum()) @ candidates[[1, 3]], rtol=1e-12)


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("of_threshold", [0.99, 1.01])
def test_a_long_step_size_path_stalls_the_covariance_path_as_in_the_tutorial(
    generation: int, of_threshold: float
) -> None:
    """Eqs. 45 and 47 of arXiv:1604.00772, implemented once more, just below and above where h_sigma changes.

    The better half of the candidates takes one step y, whose length brings the step-size path to that point.
    """
    d, size, parents = 3, 6, 3
    raw = np.log((size + 1) / 2) - np.log(np.arange(1, size + 1))
    mass = raw[:parents].sum() ** 2 / (raw[:parents] ** 2).sum()
    c_sigma, c_path = (mass + 2) / (d + mass + 5), (4 + mass / d) / (d + 4 + 2 * mass / d)
    c_one = 2 / ((d + 1.3) ** 2 + mass)
    c_mu = min(1 - c_one, 2 * (0.25 + mass + 1 / mass - 2) / ((d + 2) ** 2 + mass))
    mass_of_worst = raw[parents:].sum() ** 2 / (raw[parents:] ** 2).sum()
    most_negative = min(1 + c_one / c_mu, 1 + 2 * mass_of_worst / (mass + 2), (1 - c_one - c_mu) / (d * c_mu))
    weights = np.where(raw >= 0, raw / raw[raw >= 0].sum(), -most_negative * raw / raw[raw < 0].sum())
    search = CovarianceAdaptation(np.zeros(d), 0.5, size)
    worst = np.array([[0.1, 0.0, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 0.3]])
    if generation == 2:
        search.update(np.concatenate([np.full((parents, d), 0.2), 0.5 * worst]), -np.arange(size))
    before = search.state()
    variances, axes = np.linalg.eigh(before["covariance"])
    expected_length = np.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
    threshold = (1.4 + 2 / (d + 1)) * expected_length * np.sqrt(1 - (1 - c_sigma) ** (2 * generation))
    along = np.ones(d) / np.sqrt(d)  # the direction of the path so far
    missing = of_threshold * threshold - (1 - c_sigma) * np.linalg.norm(before["sigma_path"])
    whitened = missing / np.sqrt(c_sigma * (2 - c_sigma) * mass) * along
    step = axes @ (np.sqrt(variances) * (axes.T @ whitened))
    steps = np.concatenate([np.tile(step, (parents, 1)), worst])
    search.update(before["mean"] + before["sigma"] * steps, -np.arange(size))

    after, h_sigma = search.state(), of_threshold < 1
    assert np.linalg.norm(after["sigma_path"]) == pytest.approx(of_threshold * threshold)
    path = (1 - c_path) * before["path"] + h_sigma * np.sqrt(c_path * (2 - c_path) * mass) * step
    np.testing.assert_allclose(after["path"], path, rtol=1e-10, atol=1e-14)
    lacking = (1 - h_sigma) * c_path * (2 - c_path)
    covariance = (1 + c_one * lacking - c_one - c_mu * weights.sum()) * before["covariance"]
    covariance += c_one * np.outer(path, path)
    for weight, y in zip(weights, steps, strict=True):
        length = np.sum((axes.T @ y) ** 2 / variances)
        covariance += c_mu * (weight if weight >= 0 else weight * d / length) * np.outer(y, y)
    np.testing.assert_allclose(after["covariance"], covariance, rtol=1e-10, atol=1e-14)


def test_a_cma_search_continues_from_its_saved_state_bit_for_bit() -> None:
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
        ("covariance", np.full((3, 3), np.nan), "covariance contains NaN or infinite numbers"),
        ("sigma", "text", "sigma must be a finite number, not 'text'"),
        ("sigma", -1.0, "step size is -1.0"),
        ("generation", -1, "-1 is not a count"),
        ("more", 1, "has mean, sigma, covariance, generation, sigma_path, path, axes, lengths, more"),
    ],
)
def test_an_invalid_saved_distribution_is_refused(name: str, value: object, said: str) -> None:
    search = CovarianceAdaptation(np.zeros(3), 0.5, 4)
    with pytest.raises(ValueError, match=said):
        search.load_state({**search.state(), name: value})
