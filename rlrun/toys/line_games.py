"""Tic-tac-toe and Connect Four as vectorized games on bitboards of at most 63 cells."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.worlds.games.array_game import Flags, Floats, States
from rlrun.engine.worlds.games.symmetries import OBSERVATION, Indices, Symmetries

_OWN, _OTHER, _MOVER = 0, 1, 2
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


class LineGameArrays:
    """Vectorized k-in-a-row games (m,n,k-games) on bitboards, for tree search.

    Two players place pieces in turn. Positions are an array [n, 3]: bitboards (cells row by row) of the mover and of
    the other player, then the mover, 1 or -1. Observations are from the mover's perspective.

    Args:
        rows: Rows of the board.
        columns: Columns of the board.
        length: Pieces in a row that win.
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
        """Returns the target cells of actions as bitboards, given the occupied cells `taken` [n]."""

    @abstractmethod
    def legal(self, states: States) -> Flags:
        """Returns the mask of legal actions in each position, [n, A]."""

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
        """Returns (mask of ended games, outcomes for the mover): -1 for a loss, else 0."""
        other = states[:, _OTHER]
        lost = ((other[:, None] & self._lines) == self._lines).any(1)
        full = (states[:, _OWN] | other) == self._full
        return lost | full, -lost.astype(np.float32)

    def movers(self, states: States) -> Floats:
        """Returns the player to move in each position: 1 for the first player, -1 for the second."""
        return states[:, _MOVER].astype(np.float32)

    def observe(self, states: States) -> dict[str, NDArray[np.float32 | np.int8]]:
        """Returns the movers' observations, as in `rlrun.toys.board_games`."""
        planes = (states[:, None, :2] >> self._cells[:, None] & 1).astype(np.float32)
        board = planes.reshape(len(states), self.rows, self.columns, 2)
        return {OBSERVATION: board, ACTION_MASK: self.legal(states).astype(np.int8)}

    def positions(self, observations: dict[str, NDArray[np.float32 | np.int8]]) -> States:
        """Reconstructs positions from the movers' observations.

        The first player is the mover where both players have the same number of pieces.
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
        """Returns the mask of empty cells, [n, 9]."""
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
        """Returns the lowest empty cell of each column."""
        pieces: Indices = (taken[:, None] >> (self._column + actions[:, None]) & 1).sum(1)
        return 7 * (5 - pieces) + actions

    @override
    def legal(self, states: States) -> Flags:
        """Returns the mask of columns with an empty cell, [n, 7]."""
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
