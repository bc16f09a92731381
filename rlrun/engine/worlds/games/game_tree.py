"""Interface of small two-player games as trees, with chance moves and hidden information."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from rlrun.engine.worlds.games.array_game import Flags, Tree

CHANCE = -1
"""Player to act in positions with a chance move, such as dealing cards."""


class GameTree(Protocol):
    """Position in a finite two-player game with perfect recall (an extensive-form game); immutable.

    Simultaneous moves are represented in sequence, without showing the first player's action to the second player.

    Attributes:
        player: Player to act: 0, 1, or CHANCE for a random move; None at the end.
        returns: Returns of both players, valid at the end of the game.
    """

    @property
    def player(self) -> int | None: ...  # noqa: D102 (an attribute)

    @property
    def returns(self) -> tuple[float, float]: ...  # noqa: D102 (an attribute)

    def chances(self) -> Sequence[tuple[float, Self]]:
        """Returns the probability and the resulting position of each outcome of a chance move.

        The result is empty if it is a player's turn.
        """
        ...

    def legal(self) -> Flags:
        """Returns the mask of legal actions of the player to act, with one entry per action, [A]."""
        ...

    def play(self, action: int) -> Self:
        """Returns the position after a legal action of the player to act."""
        ...

    def observe(self) -> Tree:
        """Returns the information state of the player to act: equal in positions that the player cannot distinguish.

        It must contain everything that the player has seen and done so far.
        """
        ...
