from __future__ import annotations

import torch

from rlrun.algorithms.recurrent_q.r2d2 import EPSILON, rescaled, unrescaled
from tests.rounding import rounding_error

VALUES = torch.cat([torch.linspace(-2000, 2000, 4001), torch.linspace(-1, 1, 2001)])


def test_rescaling_and_its_inverse_undo_each_other() -> None:
    near = rounding_error(2 * 6)  # rounding of the function and of its inverse
    torch.testing.assert_close(unrescaled(rescaled(VALUES)), VALUES, rtol=near, atol=near)
    torch.testing.assert_close(rescaled(unrescaled(VALUES / 20)), VALUES / 20, rtol=near, atol=near)


def test_rescaling_and_its_inverse_preserve_order_and_map_0_to_0() -> None:
    ordered = VALUES.double().sort().values.unique()
    assert (rescaled(ordered).diff() > 0).all()
    assert (unrescaled(ordered).diff() > 0).all()
    assert rescaled(torch.zeros(1)).item() == unrescaled(torch.zeros(1)).item() == 0.0


def test_rescaled_values_match_the_square_root_formula() -> None:
    found = rescaled(torch.tensor([99.0, -3.0]))
    torch.testing.assert_close(found, torch.tensor([9.0 + 99 * EPSILON, -1.0 - 3 * EPSILON]))
