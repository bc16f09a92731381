"""What a search plays: a game of one or two players without chance, n positions of it side by side."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.worlds.symmetries import Symmetries

States = NDArray[Any]
"""Positions, [n, ...]: rows of numbers, or Python objects [n]. Nobody changes a row in place."""
Tree = Any
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


class ArrayGame(Protocol):
    """A game of one player, or of two who want the opposite; the mover is whoever acts in a position.

    Attributes:
        num_actions: Actions of a player, A, whether legal or not.
        symmetries: What turns a position into others of the same value.
    """

    num_actions: int
    symmetries: Symmetries

    def first(self, number: int, seed: int = 0) -> States:
        """Returns so many positions in which the game begins; where beginnings differ, by the seeds from `seed` on."""
        ...

    def legal(self, states: States) -> Flags:
        """Returns the legal actions of each position, [n, A]; of one that has ended, anything."""
        ...

    def play(self, states: States, actions: NDArray[np.int64]) -> States:
        """Returns the positions behind a legal action in each, [n]; those given stay as they are."""
        ...

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Returns which games have ended, [n], and what that is worth to the mover there, -1 to 1, [n], else 0."""
        ...

    def movers(self, states: States) -> Floats:
        """Returns 1 where the first player is the mover and -1 where the second is, [n]."""
        ...

    def observe(self, states: States) -> Tree:
        """Returns what the movers see, leaves [n, ...]."""
        ...

    def positions(self, observations: Tree) -> States:
        """Returns positions in which movers see this: what `observe` does, backwards."""
        ...
