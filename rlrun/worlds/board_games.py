"""Turn-based games of two players on a board, in which whoever has enough in a row wins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK
from rlrun.envs.spaces import Spaces
from rlrun.worlds.world import World, WorldClock, WorldStep

OBSERVATION = "observation"

_EMPTY, _FIRST = 0, 1
_PIXELS = 24
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


class LineGame(World):
    """Two players put pieces on a board in turn; the first with enough of its own in a row wins.

    Subclasses say which cell an action means, and which actions are legal.

    Args:
        players: Ids of both players; the first one begins.
        rows: Rows of the board.
        columns: Columns of the board.
        length: Pieces in a row that win.
        num_actions: Actions of a player, A.
        colors: Colors (red, green, blue) of an empty cell and of both players' pieces.
    """

    clock: WorldClock = "per_agent"

    def __init__(
        self,
        players: tuple[str, str],
        *,
        rows: int,
        columns: int,
        length: int,
        num_actions: int,
        colors: Sequence[tuple[int, int, int]],
    ) -> None:
        self.possible_agents = players
        observation = Dict(
            {OBSERVATION: Box(0.0, 1.0, (rows, columns, 2)), ACTION_MASK: MultiBinary(num_actions)},
        )
        self._spaces = Spaces(observation, Discrete(num_actions))
        self._board = np.zeros((rows, columns), np.int8)
        self._cells = self._board.reshape(-1)  # a view
        self._lines = [_lines_through(cell, rows, columns, length) for cell in range(rows * columns)]
        self._mover = 0
        self._colors = np.array(colors, np.uint8)

    @abstractmethod
    def cell_of(self, action: int) -> int:
        """Returns the cell, row by row, that a legal action puts a piece on."""

    @abstractmethod
    def legal(self) -> NDArray[np.bool_]:
        """Returns which actions are legal while the game goes on, [A]."""

    def spaces(self, agent: str) -> Spaces:
        """Returns the spaces that both players have."""
        return self._spaces

    def reset(self, seed: int) -> Mapping[str, Any]:
        """Empties the board; there is no chance in the game."""
        self._cells[:] = _EMPTY
        self._mover = 0
        return {self.possible_agents[0]: self._seen_by(0, self.legal())}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Puts the mover's piece.

        Raises:
            ValueError: If the action is illegal.
        """
        mover = self._mover
        action = int(actions[self.possible_agents[mover]])
        if not self.legal()[action]:
            raise ValueError(f"action {action} of {self.possible_agents[mover]} is illegal")
        cell = self.cell_of(action)
        self._cells[cell] = _FIRST + mover
        self._mover = 1 - mover
        wins = bool((self._cells[self._lines[cell]] == _FIRST + mover).all(1).any())
        if wins or self._cells.all():
            return self._end(mover, 1.0 if wins else 0.0)
        seen = self._seen_by(self._mover, self.legal())
        return WorldStep({self.possible_agents[self._mover]: seen}, {}, {}, {}, {}, False)

    def render(self) -> NDArray[np.uint8]:
        """Returns a picture of the board; each cell is a square of one color in a dark frame."""
        squares = np.kron(self._board, np.ones((_PIXELS, _PIXELS), np.int8))
        picture: NDArray[np.uint8] = self._colors[squares]
        picture[::_PIXELS] = picture[:, ::_PIXELS] = 40
        return picture

    def _end(self, mover: int, reward: float) -> WorldStep:
        """Pays who moved last, and the other one the opposite."""
        players, nothing = self.possible_agents, np.zeros(len(self.legal()), np.bool_)
        return WorldStep(
            {player: self._seen_by(index, nothing) for index, player in enumerate(players)},
            {players[mover]: reward, players[1 - mover]: -reward},
            dict.fromkeys(players, True),
            {},
            {},
            True,
        )

    def _seen_by(self, player: int, legal: NDArray[np.bool_]) -> dict[str, Any]:
        own, other = _FIRST + player, _FIRST + 1 - player
        planes = np.stack([self._board == own, self._board == other], axis=-1)
        return {OBSERVATION: planes.astype(np.float32), ACTION_MASK: legal.astype(np.int8)}


class TicTacToe(LineGame):
    """Three in a row on a board of 3 x 3.

    Observation: {observation: the own and the other player's pieces, [3, 3, 2]; action_mask: [9]}, shown to the player
    whose turn it is. Actions: Discrete(9), the cell, row by row. Rewards: 1 to the winner and -1 to the loser at
    the end, 0 to both in a draw. Ends: for both, with three in a row or a full board. `x` begins. The game is a draw if
    both play perfectly (`rlrun.worlds.scripted.perfect_tic_tac_toe`).
    """

    def __init__(self) -> None:
        colors = ((235, 235, 235), (40, 90, 200), (220, 120, 30))
        super().__init__(("x", "o"), rows=3, columns=3, length=3, num_actions=9, colors=colors)

    def cell_of(self, action: int) -> int:
        """Returns the action itself."""
        return action

    def legal(self) -> NDArray[np.bool_]:
        """Returns which cells are empty, [9]."""
        empty: NDArray[np.bool_] = self._cells == _EMPTY
        return empty


class ConnectFour(LineGame):
    """Four in a row on a board of 6 x 7 whose pieces fall to the lowest empty cell of their column.

    Observation: {observation: the own and the other player's pieces, [6, 7, 2]; action_mask: [7]}, shown to the player
    whose turn it is. Actions: Discrete(7), the column. Rewards: 1 to the winner and -1 to the loser at the end, 0 to
    both in a draw. Ends: for both, with four in a row or a full board. `red` begins.
    """

    def __init__(self) -> None:
        colors = ((235, 235, 235), (210, 50, 50), (240, 200, 40))
        super().__init__(("red", "yellow"), rows=6, columns=7, length=4, num_actions=7, colors=colors)

    def cell_of(self, action: int) -> int:
        """Returns the lowest empty cell of a column."""
        lowest = int(np.count_nonzero(self._board[:, action] == _EMPTY)) - 1
        return lowest * self._board.shape[1] + action

    def legal(self) -> NDArray[np.bool_]:
        """Returns which columns are not full, [7]."""
        open_columns: NDArray[np.bool_] = self._board[0] == _EMPTY
        return open_columns


def _lines_through(cell: int, rows: int, columns: int, length: int) -> NDArray[np.int64]:
    """Returns the cells of all lines of a length that hold a cell, [lines, length]."""
    row, column = divmod(cell, columns)
    lines = []
    for down, right in _DIRECTIONS:
        for back in range(length):
            first, last = ((row + step * down, column + step * right) for step in (-back, length - 1 - back))
            if all(0 <= r < rows and 0 <= c < columns for r, c in (first, last)):
                lines.append([(first[0] + i * down) * columns + first[1] + i * right for i in range(length)])
    return np.array(lines)
