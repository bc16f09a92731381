"""Tic-tac-toe, Connect Four and Hex as vectorized games for tree search, on bitboards of at most 63 cells."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.worlds.games.array_game import OBSERVATION, Flags, Floats, Indices, States, Symmetries

_TOP, _BOTTOM = 1, 2
_FIRST_GROUP = 3

_OWN, _OTHER, _MOVER = 0, 1, 2
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


class LineGameArrays:
    """Vectorized k-in-a-row games (m,n,k-games) on bitboards, for tree search.

    Two players place pieces in turn. Positions are an array [n, 3]: bitboards (cells row by row) of the mover and of
    the other player, then the mover, 1 or -1. Observations are from the mover's perspective.

    Args:
        rows: Rows of the board.
        columns: Columns of the board.
        length: Number of pieces in a row that wins.
        num_actions: A, number of actions of a player.
        symmetries: Symmetries of the board, which map positions to positions of equal value.
    """

    def __init__(self, rows: int, columns: int, length: int, num_actions: int, symmetries: Symmetries) -> None:
        self.num_actions = num_actions
        self.symmetries = symmetries
        self.rows, self.columns = rows, columns
        self._cells = np.arange(rows * columns)
        self._lines = _lines(rows, columns, length)
        self._full = (1 << rows * columns) - 1

    @abstractmethod
    def cells_of(self, taken: Indices, actions: Indices) -> Indices:
        """Returns the cells that n actions fill, [n], given the occupied cells, `taken`, [n]; all are bitboards."""

    @abstractmethod
    def legal(self, states: States) -> Flags:
        """Returns the mask of the A actions that are legal in each of n positions, [n, A]."""

    def first(self, number: int, seed: int = 0) -> States:
        """Returns initial positions (empty boards)."""
        states = np.zeros((number, 3), np.int64)
        states[:, _MOVER] = 1
        return states

    def play(self, states: States, actions: Indices) -> States:
        """Applies one action per position; returns the next positions, with the other player to move."""
        taken = np.bitwise_or(states[:, _OWN], states[:, _OTHER])
        cells = self.cells_of(taken, actions)
        played = np.empty_like(states)
        played[:, _OWN] = states[:, _OTHER]
        played[:, _OTHER] = states[:, _OWN] | 1 << cells
        played[:, _MOVER] = -states[:, _MOVER]
        return played

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Returns the mask of ended games, and the outcomes for the movers: -1 for a loss, else 0."""
        other = states[:, _OTHER]
        lost = ((other[:, None] & self._lines) == self._lines).any(1)
        full = (states[:, _OWN] | other) == self._full
        return lost | full, -lost.astype(np.float32)

    def movers(self, states: States) -> Floats:
        """Returns the player to move in each position: 1 for the first player, -1 for the second."""
        return states[:, _MOVER].astype(np.float32)

    def observe(self, states: States) -> dict[str, NDArray[np.float32 | np.int8]]:
        """Returns the observations of the players to move, in the format of `rlrun.toys.board_games`."""
        planes = (states[:, None, :2] >> self._cells[:, None] & 1).astype(np.float32)
        board = planes.reshape(len(states), self.rows, self.columns, 2)
        return {OBSERVATION: board, ACTION_MASK: self.legal(states).astype(np.int8)}

    def positions(self, observations: dict[str, NDArray[np.float32 | np.int8]]) -> States:
        """Reconstructs positions from the movers' observations.

        The first player is to move if both players have the same number of pieces.
        """
        board = observations[OBSERVATION]
        bits = board.reshape(len(board), -1, 2).astype(np.int64)
        states = np.empty((len(board), 3), np.int64)
        states[:, :2] = (bits << self._cells[:, None]).sum(1)
        states[:, _MOVER] = np.where(bits[..., _OWN].sum(1) == bits[..., _OTHER].sum(1), 1, -1)
        return states


class TicTacToeArrays(LineGameArrays):
    """Vectorized tic-tac-toe; an action is a cell of the 3 x 3 board."""

    def __init__(self) -> None:
        board = np.arange(9).reshape(3, 3)
        turned = [np.rot90(side, turns) for side in (board, board.T) for turns in range(4)]
        super().__init__(3, 3, 3, 9, Symmetries.from_boards(turned, [side.ravel() for side in turned]))

    @override
    def cells_of(self, taken: Indices, actions: Indices) -> Indices:
        """Returns the actions unchanged: an action is a cell."""
        return actions

    @override
    def legal(self, states: States) -> Flags:
        """Returns the mask of empty cells, for n positions, [n, 9]."""
        empty: Flags = (states[:, :1] | states[:, 1:2]) >> self._cells & 1 == 0
        return empty


class ConnectFourArrays(LineGameArrays):
    """Vectorized Connect Four on a 6 x 7 board; an action is a column, whose lowest empty cell is filled."""

    def __init__(self) -> None:
        board, columns = np.arange(42).reshape(6, 7), np.arange(7)
        symmetries = Symmetries.from_boards([board, board[:, ::-1]], [columns, columns[::-1]])
        super().__init__(6, 7, 4, 7, symmetries)
        self._tops = columns
        self._column = 7 * np.arange(6)

    @override
    def cells_of(self, taken: Indices, actions: Indices) -> Indices:
        """Returns the cells that actions fill: the lowest empty cell of each chosen column."""
        pieces: Indices = (taken[:, None] >> (self._column + actions[:, None]) & 1).sum(1)
        return 7 * (5 - pieces) + actions

    @override
    def legal(self, states: States) -> Flags:
        """Returns the mask of columns with an empty cell, for n positions, [n, 7]."""
        empty: Flags = (states[:, :1] | states[:, 1:2]) >> self._tops & 1 == 0
        return empty


def _lines(rows: int, columns: int, length: int) -> Indices:
    """Returns bitboards of all winning lines, [lines]."""
    found = []
    for row in range(rows):
        for column in range(columns):
            for down, right in _DIRECTIONS:
                last_row, last_column = row + (length - 1) * down, column + (length - 1) * right
                if last_row < rows and 0 <= last_column < columns:
                    cells = [(row + i * down) * columns + column + i * right for i in range(length)]
                    found.append(sum(1 << cell for cell in cells))
    return np.array(found, np.int64)


class HexArrays:
    """Vectorized Hex on a k x k board, from the mover's perspective: the mover's sides are top and bottom.

    Positions are an array [n, k * k + 2]. A row holds a number for each cell, row by row as the mover sees the board;
    then the mover, 1 or -1; then 1 if the other player has won, else 0. An empty cell is 0. Other cells hold the number
    of the piece's group of connected pieces: positive for the mover, negative for the opponent. Groups that touch a
    side have the side's number, so a piece wins if it touches groups of both sides, without a search for a path.

    A cell has six neighbors: the adjacent cells in its row and column, and the cells above right and below left.

    Args:
        size: Rows and columns of the board, k, at least 2.
    """

    def __init__(self, size: int = 5) -> None:
        cells = size * size
        board = np.arange(cells).reshape(size, size)
        turned = board[::-1, ::-1]
        self.num_actions = cells
        self.symmetries = Symmetries.from_boards([board, turned], [board.ravel(), turned.ravel()])
        self.size = size
        self._transposed = board.T.ravel()
        self._neighbours = _neighbours(board)
        self._sides = np.zeros(cells, np.int16)
        self._sides[:size], self._sides[-size:] = _TOP, _BOTTOM
        self._mover, self._lost = cells, cells + 1

    def first(self, number: int, seed: int = 0) -> States:
        """Returns initial positions (empty boards)."""
        states = np.zeros((number, self.num_actions + 2), np.int16)
        states[:, self._mover] = 1
        return states

    def legal(self, states: States) -> Flags:
        """Returns the mask of legal actions (empty cells) in n positions on a k x k board, [n, k * k]."""
        empty: Flags = states[:, : self.num_actions] == 0
        return empty

    def play(self, states: States, actions: Indices) -> States:
        """Applies one action per position: merges touched groups, and transposes boards for the other player."""
        rows, cells = np.arange(len(states)), states[:, : self.num_actions].copy()
        touched = np.zeros((len(states), 8), np.int16)
        around = self._neighbours[actions]
        touched[:, :6] = np.where(around >= 0, cells[rows[:, None], around], 0)
        touched[:, 6] = self._sides[actions]
        touched[:, 7] = actions + _FIRST_GROUP
        touched = np.maximum(touched, 0)
        joined = np.where(touched > 0, touched, np.iinfo(np.int16).max).min(1)
        belongs = ((cells[:, :, None] == touched[:, None, :]) & (cells[:, :, None] > 0)).any(2)
        cells = np.where(belongs, joined[:, None], cells)
        cells[rows, actions] = joined
        played = np.empty_like(states)
        played[:, : self.num_actions] = -cells[:, self._transposed]
        played[:, self._mover] = -states[:, self._mover]
        played[:, self._lost] = (touched == _TOP).any(1) & (touched == _BOTTOM).any(1)
        return played

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Returns the mask of ended games, and outcomes: -1 if the mover has lost, else 0 (Hex has no draws)."""
        lost = states[:, self._lost].astype(np.float32)
        return lost != 0, -lost

    def movers(self, states: States) -> Floats:
        """Returns the player to move in each position: 1 for the first player, -1 for the second."""
        return states[:, self._mover].astype(np.float32)

    def observe(self, states: States) -> dict[str, NDArray[Any]]:
        """Returns the observations of the players to move, in the format of `rlrun.toys.board_games`."""
        cells = states[:, : self.num_actions]
        board = np.stack([cells > 0, cells < 0], -1).reshape(len(states), self.size, self.size, 2)
        return {OBSERVATION: board.astype(np.float32), ACTION_MASK: self.legal(states).astype(np.int8)}

    def positions(self, observations: dict[str, NDArray[Any]]) -> States:
        """Reconstructs positions from the movers' observations.

        The first player is to move if both players have the same number of pieces. A player with a connection has won.
        """
        pieces = observations[OBSERVATION].reshape(-1, self.num_actions, 2) > 0
        states = self.first(len(pieces))
        own, other = self._groups(pieces[..., 0]), self._groups(pieces[:, self._transposed, 1])
        states[:, : self.num_actions] = own - other[:, self._transposed]
        bottom = slice(-self.size, None)
        states[:, self._lost] += (other[:, bottom] == _TOP).any(1)
        states[:, self._lost] -= (own[:, bottom] == _TOP).any(1)
        states[:, self._mover] = np.where(pieces[..., 0].sum(1) == pieces[..., 1].sum(1), 1, -1)
        return states

    def _groups(self, pieces: Flags) -> NDArray[np.int16]:
        """Returns the group numbers of the pieces of one player, with sides at top and bottom, [n, k * k]; else 0."""
        nobody = np.int16(np.iinfo(np.int16).max)
        alone = np.where(self._sides > 0, self._sides, np.arange(self.num_actions) + _FIRST_GROUP)
        groups = np.full((len(pieces), self.num_actions + 1), nobody, np.int16)
        groups[:, :-1] = np.where(pieces, alone, nobody)
        while True:
            least = groups[:, self._neighbours].min(2)
            joined = np.where(pieces, np.minimum(groups[:, :-1], least), nobody)
            if (joined == groups[:, :-1]).all():
                return np.where(pieces, joined, np.int16(0))
            groups[:, :-1] = joined


def _neighbours(board: Indices) -> Indices:
    """Neighbor table [k * k, 6] of the hexagonal board; -1 beyond the edge."""
    padded = np.pad(board, 1, constant_values=-1)
    size = len(board)
    moves = ((0, -1), (0, 1), (-1, 0), (1, 0), (-1, 1), (1, -1))
    around = [padded[1 + down : 1 + down + size, 1 + right : 1 + right + size] for down, right in moves]
    return np.stack(around, -1).reshape(-1, 6)
