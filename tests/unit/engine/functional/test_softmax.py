"""Softmax of few and of many logits."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.engine.functional.softmax import log_softmax


@pytest.mark.parametrize("logits", [1, 2, 3, 7, 8, 20])
def test_log_softmax_equals_the_plain_formula_bit_for_bit(logits: int) -> None:
    x = np.random.default_rng(logits).normal(scale=9, size=(5, 4, logits)).astype(np.float32)
    shifted = x - x.max(axis=-1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    np.testing.assert_array_equal(log_softmax(x), expected)
    np.testing.assert_allclose(np.exp(log_softmax(x)).sum(-1), 1, rtol=1e-6)
