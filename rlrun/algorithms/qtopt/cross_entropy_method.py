"""The cross-entropy method: maximisation by sampling (NumPy and torch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIRST_DEVIATION = 0.7
"""Initial standard deviation of samples with mean 0, for actions in [-1, 1]. Samples are clipped; with a larger value,
often all elites would be the same clipped action."""


def greedy_actions(values_of: Callable[[Any], Any], noise: Any, num_elites: int) -> Any:
    """Maximises a function of actions in [-1, 1] by the cross-entropy method.

    Each iteration samples a diagonal normal distribution, and refits it to the elites. The result is the best sample
    of the last iteration. Arrays and tensors are both supported.

    Args:
        values_of: Function to maximise: values [S, N] of actions [S, N, D].
        noise: Standard normal noise, [S, iterations, N, D].
        num_elites: Number of elites.

    Returns:
        Actions, [S, D].

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
