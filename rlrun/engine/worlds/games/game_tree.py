"""Interface of small games as trees: chance moves, hidden information, two players."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from rlrun.engine.worlds.games.array_game import Flags, Tree

CHANCE = -1
"""The player of positions where chance moves, such as a deal of cards."""


class GameTree(Protocol):
    """Position in a finite game of two players with perfect recall (an extensive-form game); immutable.

    Players that act at once do so one after the other, where the second is not shown the first one's action.

    Attributes:
        player: Player to act, 0 or 1; CHANCE; None at the end.
        returns: Returns of both players at the end.
    """

    @property
    def player(self) -> int | None: ...  # noqa: D102 (an attribute)

    @property
    def returns(self) -> tuple[float, float]: ...  # noqa: D102 (an attribute)

    def chances(self) -> Sequence[tuple[float, Self]]:
        """Returns the probability and the position of each outcome, where chance moves."""
        ...

    def legal(self) -> Flags:
        """Returns the mask of the player's legal actions, [A]."""
        ...

    def play(self, action: int) -> Self:
        """Returns the position after a legal action of the player."""
        ...

    def observe(self) -> Tree:
        """Returns the information state of the player to act, equal in positions that it cannot tell apart.

        It must tell all that the player saw and did before.
        """
        ...
