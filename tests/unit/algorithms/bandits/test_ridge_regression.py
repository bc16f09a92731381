"""Ridge regressions, updated row by row, compared with the normal equations."""

import numpy as np

from rlrun.algorithms.bandits.regressions import RidgeRegressions


def test_incremental_updates_match_the_normal_equations_after_many_rows() -> None:
    draws = np.random.default_rng(0)
    rows, which = draws.standard_normal((100_000, 6)), draws.integers(2, size=100_000)
    targets = rows @ draws.standard_normal(6) + draws.standard_normal(100_000)
    regressions = RidgeRegressions(2, 6, ridge=0.5)
    for own, row, target in zip(which.tolist(), rows, targets.tolist(), strict=True):
        regressions.add(own, row, target)
    for i in range(2):
        x, y = rows[which == i], targets[which == i]
        gram = 0.5 * np.eye(6) + x.T @ x
        np.testing.assert_allclose(regressions.coefficients()[i], np.linalg.solve(gram, x.T @ y), rtol=1e-10)
        inverse = regressions.roots[i] @ regressions.roots[i].T
        np.testing.assert_allclose(inverse, np.linalg.inv(gram), rtol=1e-9, atol=1e-15)


def test_rows_of_very_different_scales_never_make_the_uncertainty_negative() -> None:
    regressions = RidgeRegressions(1, 3, ridge=1.0)
    for row in np.random.default_rng(1).standard_normal((1000, 3)) * [1e7, 1.0, 1e-3]:
        regressions.add(0, row, 1.0)
    eigenvalues = np.linalg.svd(regressions.roots[0], compute_uv=False) ** 2
    assert (eigenvalues > 0).all()
    assert np.isfinite(regressions.coefficients()).all()


def test_without_rows_coefficients_are_zero_and_uncertainty_comes_from_the_ridge() -> None:
    regressions = RidgeRegressions(2, 3, ridge=4.0)
    np.testing.assert_array_equal(regressions.coefficients(), np.zeros((2, 3)))
    np.testing.assert_array_equal(regressions.roots[1] @ regressions.roots[1].T, np.eye(3) / 4)


def test_regressions_restored_from_their_state_continue_bit_for_bit() -> None:
    regressions = RidgeRegressions(2, 3, ridge=1.0)
    regressions.add(1, np.array([1.0, 2.0, 3.0]), 0.7)
    restored = RidgeRegressions.from_state(regressions.state())
    for each in (regressions, restored):
        each.add(1, np.array([0.1, -2.0, 0.3]), 0.2)
    assert restored.roots.tobytes() == regressions.roots.tobytes()
    assert restored.weighted_sums.tobytes() == regressions.weighted_sums.tobytes()
