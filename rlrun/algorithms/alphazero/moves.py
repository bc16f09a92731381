"""Selection of actions by root visit counts of a tree search (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.worlds.games.array_game import Floats
from rlrun.engine.worlds.games.symmetries import Indices


def draw_actions(visits: Floats, temperatures: NDArray[np.float64], generator: np.random.Generator) -> Indices:
    """Samples actions in proportion to visits ** (1 / temperature); temperature 0 selects the most visited action.

    Args:
        visits: Root visit counts, [n, A], not all 0 in a row.
        temperatures: Temperatures, [n].
        generator: Random generator, which advances equally at all temperatures.

    Returns:
        Actions, [n], each with at least one visit.
    """
    fractions = generator.random(len(visits))
    warm = temperatures > 0
    exponents = 1.0 / np.where(warm, temperatures, 1.0)
    sums = np.cumsum((visits / visits.max(1, keepdims=True)) ** exponents[:, None], axis=1)
    drawn = (sums > (fractions * sums[:, -1])[:, None]).argmax(1)
    actions: Indices = np.where(warm, drawn, visits.argmax(1))
    return actions
