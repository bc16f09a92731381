"""Poker with few cards, as multi-agent envs and as game trees: Kuhn poker and Leduc hold'em."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.games.array_game import OBSERVATION, Flags
from rlrun.engine.worlds.games.game_tree import CHANCE
from rlrun.engine.worlds.games.tree_world import TreeWorld

PASS, BET = 0, 1
"""Actions in Kuhn's game: PASS checks or folds, BET bets or calls."""

FOLD, CALL, RAISE = 0, 1, 2
"""Actions in Leduc: CALL checks if there was no raise."""

_RANKS = 3
_KUHN_ENDS = ("00", "11", "10", "010", "011")
_LEDUC_RAISES = (2, 4)
_MOST_RAISES, _MOST_MOVES = 2, 4


class Kuhn(TreeWorld):
    """Kuhn poker (Kuhn, 1950): each player has one of three cards, with an ante of 1 and one bet of 1.

    Observation: {observation: one-hot player, own card, and the moves so far, [11]; action_mask: [2]}, shown to the
    player whose turn it is. Actions: Discrete(2), pass and bet; after a bet, pass folds and bet calls. Rewards: what a
    player wins or loses, at the end. Ends: after a fold, a call or two passes; the higher card wins. In equilibrium the
    first player loses 1/18 per game on average.
    """

    def __init__(self) -> None:
        super().__init__(KuhnPosition(), _spaces(11, 2))


class Leduc(TreeWorld):
    """Leduc hold'em (Southey et al., 2005): one private card each, then a public card; two suits of three ranks.

    The ante is 1. There are two betting rounds with raises of 2 and 4, at most two in each round, opened by the first
    player. A pair with the public card wins, else the higher rank; equal ranks split the pot.

    Observation: {observation: one-hot player, own rank, public rank, and the moves of both rounds, [24]; action_mask:
    [3]}, shown to the player whose turn it is. Actions: Discrete(3), fold, call (or check) and raise; folding is legal
    only after a raise. Rewards: what a player wins or loses, at the end. Ends: after a fold, or the second round.
    """

    def __init__(self) -> None:
        super().__init__(LeducPosition(), _spaces(24, 3))


@dataclass(frozen=True)
class KuhnPosition:
    """Position in Kuhn poker.

    Attributes:
        cards: Cards of both players, 0 to 2; () before the deal.
        moves: Moves so far, one digit each: 0 for pass and 1 for bet.
    """

    cards: tuple[int, ...] = ()
    moves: str = ""

    @property
    def player(self) -> int | None:
        """Index of the player to act (0 or 1), CHANCE before the deal, or None at the end."""
        if not self.cards:
            return CHANCE
        return None if self.moves in _KUHN_ENDS else len(self.moves) % 2

    @property
    def returns(self) -> tuple[float, float]:
        """Each player's return (amount won or lost) at the end of the game."""
        if self.moves in ("10", "010"):  # the second player folds in 10, the first in 010
            first = 1.0 if self.moves == "10" else -1.0
        else:
            stake = 2.0 if self.moves.endswith("11") else 1.0
            first = stake if self.cards[0] > self.cards[1] else -stake
        return first, -first

    def chances(self) -> list[tuple[float, Self]]:
        """Returns the six possible deals: pairs of a probability, 1/6, and the position after the deal."""
        deals = [(first, second) for first in range(_RANKS) for second in range(_RANKS) if first != second]
        return [(1 / len(deals), replace(self, cards=deal)) for deal in deals]

    def legal(self) -> Flags:
        """Returns the mask of legal actions, [2]: all actions are legal."""
        return np.ones(2, np.bool_)

    def play(self, action: int) -> Self:
        """Returns the position after an action of the player to act."""
        return replace(self, moves=f"{self.moves}{action}")

    def observe(self) -> dict[str, Any]:
        """Returns the observation of the player to act, which identifies the player's information state."""
        player = len(self.moves) % 2
        moves = [_one_hot(int(move), 2) for move in self.moves] + [np.zeros(2)] * (3 - len(self.moves))
        return _shown([_one_hot(player, 2), _one_hot(self.cards[player], _RANKS), *moves], self.legal())


@dataclass(frozen=True)
class LeducPosition:
    """Position in Leduc hold'em; suits are omitted, since only ranks matter.

    Attributes:
        ranks: Ranks of the cards dealt so far: the first player's, the second player's, and the public card.
        rounds: Moves of each betting round so far, one digit each: 0 for fold, 1 for call (or check) and 2 for raise.
    """

    ranks: tuple[int, ...] = ()
    rounds: tuple[str, ...] = ("",)

    @property
    def player(self) -> int | None:
        """Index of the player to act (0 or 1), CHANCE when a card must be dealt, or None at the end."""
        if len(self.ranks) < len(self.rounds) + 1:
            return CHANCE
        return None if self._is_over else len(self.rounds[-1]) % 2

    @property
    def returns(self) -> tuple[float, float]:
        """Each player's return at the end of the game: plus or minus the loser's stake."""
        stakes, last = self._stakes(), self.rounds[-1]
        if last.endswith(str(FOLD)):
            sign = 1 if len(last) % 2 == 0 else -1  # after an even number of moves, the second player has folded
        else:
            first, second = (self._strength(player) for player in (0, 1))
            sign = (first > second) - (first < second)
        lost = float(min(stakes))
        return sign * lost, -sign * lost

    def chances(self) -> list[tuple[float, Self]]:
        """Returns the outcomes of dealing the next card: pairs of a probability and the position after the deal.

        The deck has two cards of each rank.
        """
        left = [2 - self.ranks.count(rank) for rank in range(_RANKS)]
        return [
            (count / sum(left), replace(self, ranks=(*self.ranks, rank))) for rank, count in enumerate(left) if count
        ]

    def legal(self) -> Flags:
        """Returns the mask of legal actions, [3]: fold, call (or check) and raise."""
        own, other = self._stakes()[:: 1 if len(self.rounds[-1]) % 2 == 0 else -1]
        return np.array([other > own, True, self.rounds[-1].count(str(RAISE)) < _MOST_RAISES])

    def play(self, action: int) -> Self:
        """Returns the position after a legal action of the player to act."""
        after = replace(self, rounds=(*self.rounds[:-1], f"{self.rounds[-1]}{action}"))
        begins = len(self.rounds) == 1 and after._round_is_over and action != FOLD
        return replace(after, rounds=(*after.rounds, "")) if begins else after

    def observe(self) -> dict[str, Any]:
        """Returns the observation of the player to act, which identifies the player's information state."""
        player = len(self.rounds[-1]) % 2
        public = _one_hot(self.ranks[2], _RANKS) if len(self.ranks) > 2 else np.zeros(_RANKS)
        moves = np.zeros((2, _MOST_MOVES, 2))
        for number, done in enumerate(self.rounds):
            for move, action in enumerate(done):
                moves[number, move, int(action) - CALL] = 1.0  # folds are never shown, since they end the game
        parts = [_one_hot(player, 2), _one_hot(self.ranks[player], _RANKS), public, moves.ravel()]
        return _shown(parts, self.legal())

    @property
    def _round_is_over(self) -> bool:
        last = self.rounds[-1]
        return last.endswith(str(FOLD)) or (len(last) > 1 and last.endswith(str(CALL)))

    @property
    def _is_over(self) -> bool:
        last = self.rounds[-1]
        return last.endswith(str(FOLD)) or (len(self.rounds) == 2 and self._round_is_over)

    def _stakes(self) -> list[int]:
        """Returns the stake of each player so far."""
        stakes = [1, 1]
        for done, size in zip(self.rounds, _LEDUC_RAISES, strict=False):
            for number, action in enumerate(done):
                if int(action) != FOLD:
                    stakes[number % 2] = max(stakes) + size * (int(action) == RAISE)
        return stakes

    def _strength(self, player: int) -> int:
        """Returns a number that is higher for the better hand."""
        own = self.ranks[player]
        return own + _RANKS * (own == self.ranks[2])


def _spaces(width: int, actions: int) -> Spaces:
    observation = Dict({OBSERVATION: Box(0.0, 1.0, (width,)), ACTION_MASK: MultiBinary(actions)})
    return Spaces(observation, Discrete(actions))


def _shown(parts: list[NDArray[np.float64]], legal: Flags) -> dict[str, Any]:
    return {OBSERVATION: np.concatenate(parts).astype(np.float32), ACTION_MASK: legal.astype(np.int8)}


def _one_hot(number: int, size: int) -> NDArray[np.float64]:
    found = np.zeros(size)
    found[number] = 1.0
    return found
