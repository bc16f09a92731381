import numpy as np
import pytest
import torch

from rlrun.engine.functional.value_estimates import explained_variance
from tests.rounding import rounding_error

TARGETS = np.array([[1.0, 2.0], [3.0, 6.0]])
ALL = np.ones_like(TARGETS)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (TARGETS, 1.0),
        (TARGETS + 5.0, 1.0),  # a constant shift does not matter
        (np.full_like(TARGETS, 3.0), 0.0),
        (TARGETS / 2, 0.75),
        (-TARGETS, -3.0),
    ],
)
def test_explained_variance_is_one_minus_the_ratio_of_error_variance_to_target_variance(values, expected):
    assert explained_variance(values, TARGETS, ALL) == pytest.approx(expected)


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e6])
def test_the_explained_variance_of_constant_targets_is_zero(constant):
    values, targets = torch.randn(64, generator=torch.Generator().manual_seed(0)), torch.full((64,), constant)
    assert explained_variance(values, targets, torch.ones(64)).item() == 0.0
    assert explained_variance(values.double().numpy(), targets.double().numpy(), np.ones(64)) == 0.0


def test_explained_variance_ignores_invalid_cells():
    valid = np.array([[1.0, 1.0], [1.0, 0.0]])
    garbage = np.array([[1.0, 2.0], [3.0, -1e3]])
    assert explained_variance(TARGETS, garbage, valid) == pytest.approx(1.0)
    assert explained_variance(TARGETS, TARGETS, np.zeros_like(valid)) == 0.0


def test_torch_and_numpy_agree_on_explained_variance():
    rng = np.random.default_rng(0)
    values, targets = rng.normal(size=(2, 5, 7)).astype(np.float32)
    valid = (rng.random((5, 7)) < 0.7).astype(np.float32)
    found = explained_variance(*map(torch.from_numpy, (values, targets, valid)))
    assert found.item() == pytest.approx(float(explained_variance(values, targets, valid)), rel=rounding_error(5 * 7))
