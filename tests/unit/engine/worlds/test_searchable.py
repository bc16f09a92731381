"""Games as Python objects are searched like games as arrays, and messages say why others are not games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest

from rlrun.algorithms.alphazero.tree_search import BatchedSearch, SearchSettings
from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.games.array_game import OBSERVATION, ArrayGame, Flags, Floats, States
from rlrun.engine.worlds.games.searchable import ObjectGame
from rlrun.toys.board_rules import CONNECT_FOUR
from rlrun.toys.game_arrays import ConnectFourArrays
from rlrun.toys.scripted_players import position_of
from tests.unit.engine.worlds.random_play import uniform


@dataclass
class ConnectFourObject:
    """A position as bits of the mover's and the other player's pieces."""

    own: int = 0
    other: int = 0
    mover: int = 1

    @property
    def result(self) -> float | None:
        if CONNECT_FOUR.wins(self.other, 0):
            return -1.0
        return 0.0 if self.own | self.other == CONNECT_FOUR.full else None

    def observe(self) -> dict[str, Any]:
        legal = CONNECT_FOUR.legal(0, self.own | self.other)
        return {OBSERVATION: CONNECT_FOUR.planes(self.own, self.other, 0), ACTION_MASK: legal}

    def legal(self) -> Flags:
        return CONNECT_FOUR.legal(0, self.own | self.other) > 0

    def play(self, action: int) -> None:
        piece = CONNECT_FOUR.piece_of(action, 0, self.own | self.other)
        self.own, self.other, self.mover = self.other, self.own | piece, -self.mover

    def clone(self) -> Self:
        return type(self)(self.own, self.other, self.mover)

    def at(self, observation: Any) -> Self:
        _, own, other = position_of(observation)
        return type(self)(own, other, 1 if own.bit_count() == other.bit_count() else -1)


def game(kind: type[ConnectFourObject] = ConnectFourObject) -> ObjectGame:
    return ObjectGame("mine", lambda seed: kind(), 7)


class ByBoard:
    """Predicts from the numbers of the board alone, so all forms of a game get the same predictions."""

    def __init__(self, game: ArrayGame) -> None:
        self._game = game

    def __call__(self, states: States, legal: Flags) -> tuple[Floats, Floats]:
        boards = self._game.observe(states)[OBSERVATION].reshape(len(states), -1)
        values = np.sin(boards @ np.arange(1.0, boards.shape[1] + 1)).astype(np.float32)
        return uniform(legal), values


def test_tree_search_in_a_cloneable_game_equals_tree_search_in_the_same_game_of_arrays() -> None:
    visits, values = [], []
    for each in (ConnectFourArrays(), game()):
        search = BatchedSearch(each, ByBoard(each), SearchSettings())
        search.begin(each.first(3))
        for action in (3, 3, 2):
            search.run(60)
            visits.append(search.visits)
            values.append(search.values)
            search.advance(np.full(3, action))
    assert all((visits[i] == visits[3 + i]).all() for i in range(3))
    assert all((values[i] == values[3 + i]).all() for i in range(3))


def test_playing_keeps_earlier_positions_and_positions_can_be_recovered_from_observations() -> None:
    objects = game()
    first = objects.first(2)
    then = objects.play(first, np.array([0, 6]))
    assert [position.own for position in first] == [0, 0]
    assert objects.movers(then).tolist() == [-1, -1]
    assert objects.legal(then).all()
    seen = objects.observe(then)
    assert seen[OBSERVATION].shape == (2, 6, 7, 2)
    assert (objects.positions(seen) == then).all()
    nothing = objects.observe(first[:0])
    assert nothing[OBSERVATION].shape == (0, 6, 7, 2)


class Shares(ConnectFourObject):
    def clone(self) -> Self:
        return self


class Lost(ConnectFourObject):
    def at(self, observation: Any) -> Self:
        return type(self)(1, 0)


class Short(ConnectFourObject):
    def legal(self) -> Flags:
        return super().legal()[:6]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            Shares,
            "mine does not support tree search: a clone is not independent: 20 actions in it changed the original: 1.0",
        ),
        (
            Lost,
            r"after 1 equal actions, a clone and a game created by at\(\) differ: 0\.0 and 1\.0 at index \[0, 0, 1\]",
        ),
        (Short, r"env mine does not support tree search: legal\(\) must return which of 7 actions are legal"),
    ],
)
def test_games_whose_clones_are_not_independent_or_equal_are_refused(kind: type[ConnectFourObject], said: str) -> None:
    with pytest.raises(EnvironmentUnusable, match=said):
        game(kind)
