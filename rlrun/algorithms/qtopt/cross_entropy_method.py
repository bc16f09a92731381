"""The cross-entropy method: maximisation by sampling (NumPy and torch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIRST_DEVIATION = 0.7
"""Initial standard deviation of samples around 0, in units of the bounds. Samples are clipped to the bounds: a larger
one would often make all elites the same bounds."""


def greedy_actions(values_of: Callable[[Any], Any], noise: Any, num_elites: int) -> Any:
    """Maximises a function of actions in [-1, 1] by the cross-entropy method.

    Samples are drawn around a mean, the best of them give the next mean and standard deviation, and so on. The best of
    the last ones is the action. It needs nothing but arithmetic and `argsort`, which arrays and tensors have in common.

    Args:
        values_of: Values [S, N] of actions [S, N, D].
        noise: Standard normal, [S, iterations, N, D].
        num_elites: How many samples are the best.

    Returns:
        Actions [S, D].

    Source:
        Kalashnikov et al., arXiv:1806.10293, section 4.2 and appendix E.
    """
    rows, iterations, samples, size = noise.shape
    actions = (FIRST_DEVIATION * noise[:, 0]).clip(-1, 1)
    ranks = values_of(actions).argsort(-1).argsort(-1).reshape(rows, samples, 1)
    for i in range(1, iterations):
        is_elite = ranks >= samples - num_elites
        means = ((actions * is_elite).sum(-2) / num_elites).reshape(rows, 1, size)
        variances = (((actions - means) ** 2 * is_elite).sum(-2) / num_elites).reshape(rows, 1, size)
        actions = (means + variances**0.5 * noise[:, i]).clip(-1, 1)
        ranks = values_of(actions).argsort(-1).argsort(-1).reshape(rows, samples, 1)
    return (actions * (ranks == samples - 1)).sum(-2)
