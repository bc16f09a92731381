"""Batched deterministic games for tree search: transitions, legal actions and outcomes of n positions at once."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.worlds.games.symmetries import Symmetries

States = NDArray[Any]
"""Batch of positions, [n, ...]: rows of numbers, or Python objects [n]; rows are immutable."""
Tree = Any
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


class ArrayGame(Protocol):
    """Deterministic single-player or two-player zero-sum game; the mover is the player to act.

    Attributes:
        num_actions: Size of the action space, A, including illegal actions.
        symmetries: Symmetries of the board, for data augmentation.
    """

    num_actions: int
    symmetries: Symmetries

    def first(self, number: int, seed: int = 0) -> States:
        """Returns n initial positions [n]; random positions are drawn with the seeds `seed`, `seed + 1`, and so on."""
        ...

    def legal(self, states: States) -> Flags:
        """Returns the masks of legal actions, [n, A]; arbitrary for terminal positions."""
        ...

    def play(self, states: States, actions: NDArray[np.int64]) -> States:
        """Returns the successor positions after one legal action in each position, [n]; the inputs are not modified."""
        ...

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Returns the mask of terminal positions [n], and the movers' outcomes [n] in [-1, 1], 0 if not terminal."""
        ...

    def movers(self, states: States) -> Floats:
        """Returns the player to act in each position, [n]: 1 for the first player, -1 for the second."""
        ...

    def observe(self, states: States) -> Tree:
        """Returns the observations of the players to act, leaves [n, ...]."""
        ...

    def positions(self, observations: Tree) -> States:
        """Returns positions reconstructed from the movers' observations: the inverse of `observe`."""
        ...
