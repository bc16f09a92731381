"""Selection of moves by the visits of a search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.worlds.array_game import Floats
from rlrun.worlds.symmetries import Indices


def draw_actions(visits: Floats, temperatures: NDArray[np.float64], generator: np.random.Generator) -> Indices:
    """Draws actions in proportion to visits ** (1 / temperature); temperature 0 takes the most visited one.

    Args:
        visits: How often each action was tried, [n, A]; at least one of each row.
        temperatures: Of each row, [n].
        generator: What is drawn from, as much at any temperature.

    Returns:
        Actions, [n], none of which was never tried.
    """
    fractions = generator.random(len(visits))
    warm = temperatures > 0
    exponents = 1.0 / np.where(warm, temperatures, 1.0)
    sums = np.cumsum((visits / visits.max(1, keepdims=True)) ** exponents[:, None], axis=1)
    drawn = (sums > (fractions * sums[:, -1])[:, None]).argmax(1)
    actions: Indices = np.where(warm, drawn, visits.argmax(1))
    return actions
