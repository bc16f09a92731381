"""Rules of two-player board games on bitboards (integers with one bit per cell).

Cell (row, column) is bit row * (columns + 1) + column. The bit after each row is never set, so that shifts along a row
cannot reach the next row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override


class BoardRules(ABC):
    """Base class of placement games: two players place pieces in turn; pieces are never moved or captured.

    Players are 0 and 1; player 0 moves first. A player whose pieces reach the goal wins; a full board without a winner
    is a draw.

    Args:
        actions: For each player, the action that places a piece on each cell, [rows, columns].

    Attributes:
        rows: Rows of the board.
        columns: Columns of the board.
        num_actions: A, number of actions of a player.
        full: Bitboard of all cells.
        is_slanted: Whether each row lies half a cell further right than the one above it.
    """

    is_slanted: ClassVar[bool] = False

    def __init__(self, actions: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
        rows, columns = actions[0].shape
        self.rows, self.columns = int(rows), int(columns)
        self.num_actions = int(actions[0].max()) + 1
        self._stride = self.columns + 1
        cells = [(row, column) for row in range(rows) for column in range(columns)]
        cells.sort(key=lambda cell: abs(2 * cell[0] - rows + 1) + abs(2 * cell[1] - columns + 1))
        self._pieces = {1 << row * self._stride + column: (row, column) for row, column in cells}
        self.full = sum(self._pieces)
        self._actions = [{piece: int(own[cell]) for piece, cell in self._pieces.items()} for own in actions]
        self._cells = [
            [sum(piece for piece, by in own.items() if by == action) for action in range(self.num_actions)]
            for own in self._actions
        ]

    @abstractmethod
    def wins(self, pieces: int, player: int) -> bool:
        """Whether a player's pieces (bitboard) form a win."""

    @abstractmethod
    def playable(self, taken: int) -> int:
        """Returns the bitboard of the cells on which a piece may be placed in a running game."""

    @abstractmethod
    def advantage(self, own: int, other: int, player: int) -> int:
        """Heuristic value of a position for a player, from -999 to 999.

        Args:
            own: Bitboard of the player's pieces.
            other: Bitboard of the opponent's pieces.
            player: The player's number, 0 or 1.
        """

    def pieces(self, taken: int) -> list[int]:
        """Returns the legal moves, ordered from the center outwards, each as a bitboard with one bit set.

        Alpha-beta search prunes the most if good moves come first.
        """
        playable = self.playable(taken)
        return [piece for piece in self._pieces if piece & playable]

    def action_of_piece(self, piece: int, player: int) -> int:
        """Returns the action by which a player places a piece, given as a bitboard with one bit set."""
        return self._actions[player][piece]

    def piece_of(self, action: int, player: int, taken: int) -> int:
        """Returns the piece that an action places, as a bitboard with one bit set; 0 for an illegal action."""
        return self.playable(taken) & self._cells[player][action]

    def action_at(self, row: int, column: int, player: int) -> int:
        """Returns the action by which a player places a piece on a given cell."""
        return self._actions[player][1 << row * self._stride + column]

    def cell_of(self, piece: int) -> tuple[int, int]:
        """Returns the row and the column of a piece, given as a bitboard with one bit set."""
        return self._pieces[piece]

    def legal(self, player: int, taken: int) -> NDArray[np.int8]:
        """Returns the mask [A] of a player's legal actions in a running game."""
        playable = self.playable(taken)
        return np.array([playable & cells != 0 for cells in self._cells[player]], np.int8)

    def seen_by(self, player: int, planes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Transforms board planes [2, rows, columns] to a player's point of view; the identity by default.

        Each point of view is a position of the same game, with the player as player 0.
        """
        return planes

    def planes(self, own: int, other: int, player: int) -> NDArray[np.float32]:
        """Returns a player's observation: planes of the player's and the opponent's pieces, [rows, columns, 2]."""
        size = self.rows * self._stride
        data = np.frombuffer((own | other << size).to_bytes(-(-size // 4), "little"), np.uint8)
        flags = np.unpackbits(data, count=2 * size, bitorder="little").view(np.bool_)
        planes = flags.reshape(2, self.rows, self._stride)[:, :, :-1]
        return self.seen_by(player, planes).transpose(1, 2, 0).astype(np.float32, order="C")

    def bits(self, plane: NDArray[np.bool_]) -> int:
        """Converts a board plane [rows, columns], nonzero at occupied cells, to a bitboard."""
        padded = np.pad(plane, ((0, 0), (0, 1)))
        return int.from_bytes(np.packbits(padded, bitorder="little").tobytes(), "little")


class LineRules(BoardRules):
    """Rules of k-in-a-row games; a row may have any of four directions.

    Args:
        rows: Rows of the board.
        columns: Columns of the board.
        length: Number of pieces in a row that wins.
        falls: Whether pieces fall to the lowest empty cell of a column, so that the action is a column; else the action
            is a cell, row by row.
    """

    def __init__(self, rows: int, columns: int, length: int, *, falls: bool) -> None:
        cells = np.arange(rows * columns).reshape(rows, columns)
        actions = cells % columns if falls else cells
        super().__init__((actions, actions))
        self._falls = falls
        self._shifts = (1, self._stride - 1, self._stride, self._stride + 1)
        self._steps = range(1, length)
        self._lowest = (1 << columns) - 1 << (rows - 1) * self._stride
        lines = (sum(1 << i * shift for i in range(length)) << bit for shift in self._shifts for bit in self._bits())
        self._lines = [line for line in lines if line & self.full == line]

    def _bits(self) -> range:
        return range(self.rows * self._stride)

    @override
    def wins(self, pieces: int, player: int) -> bool:
        """Whether a player's pieces (bitboard) contain `length` in a row."""
        for shift in self._shifts:
            line = pieces
            for step in self._steps:
                line &= pieces >> step * shift
            if line:
                return True
        return False

    @override
    def playable(self, taken: int) -> int:
        """Returns the bitboard of playable cells: all empty ones or, if pieces fall, the lowest of each column."""
        empty = self.full & ~taken
        return empty & (taken >> self._stride | self._lowest) if self._falls else empty

    @override
    def advantage(self, own: int, other: int, player: int) -> int:
        """Difference between the players' sums of squared piece counts over the lines that each can still win."""
        found = 0
        for line in self._lines:
            mine, theirs = line & own, line & other
            if not theirs:
                found += mine.bit_count() ** 2
            elif not mine:
                found -= theirs.bit_count() ** 2
        return found


class HexRules(BoardRules):
    """Rules of Hex: player 0 connects the top of the board with its bottom, player 1 its left with its right.

    A cell has six neighbors: the adjacent cells in its row and column, and the cells above right and below left. A
    full board holds exactly one connection, so there are no draws.

    Both players see the board with their own sides at the top and the bottom: player 1 sees the transposed board, and
    its actions are cells of that board.

    Args:
        size: Rows and columns of the board.
    """

    is_slanted = True

    def __init__(self, size: int) -> None:
        cells = np.arange(size * size).reshape(size, size)
        super().__init__((cells, cells.T))
        top, left = (1 << size) - 1, sum(1 << row * self._stride for row in range(size))
        self._sides = ((top, top << (size - 1) * self._stride), (left, left << size - 1))

    @override
    def wins(self, pieces: int, player: int) -> bool:
        """Whether a player's pieces (bitboard) connect the player's two sides of the board."""
        begin, end = self._sides[player]
        return bool(self._connected(pieces & begin, pieces) & end)

    @override
    def playable(self, taken: int) -> int:
        """Returns the bitboard of all empty cells, since a piece may be placed on each of them."""
        return self.full & ~taken

    @override
    def seen_by(self, player: int, planes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Transposes board planes [2, rows, columns] for player 1; returns them unchanged for player 0."""
        return planes.transpose(0, 2, 1) if player else planes

    @override
    def advantage(self, own: int, other: int, player: int) -> int:
        """Number of pieces that the opponent still needs for a connection, minus the number that the player needs."""
        return self._lacks(other, own, 1 - player) - self._lacks(own, other, player)

    def _lacks(self, own: int, other: int, player: int) -> int:
        """Minimum number of pieces missing for a connection; more than the number of cells if impossible."""
        begin, end = self._sides[player]
        free = self.full & ~(own | other)
        reached = self._connected(own & begin, own)
        edge = begin & free
        for number in range(self.full.bit_count()):
            if reached & end:
                return number
            grown = reached | edge | self._neighbours(reached) & free
            reached = self._connected(grown, own)
            edge = 0
        return self.full.bit_count() + 1

    def _connected(self, reached: int, pieces: int) -> int:
        """Flood fill: returns the given cells and all pieces connected with them."""
        while (grown := reached | self._neighbours(reached) & pieces) != reached:
            reached = grown
        return reached

    def _neighbours(self, cells: int) -> int:
        """Returns the neighbors of cells, some of which may lie beyond the board."""
        stride = self._stride
        along = cells << 1 | cells >> 1 | cells << stride | cells >> stride
        return along | cells << stride - 1 | cells >> stride - 1


TIC_TAC_TOE = LineRules(3, 3, 3, falls=False)
"""Rules of tic-tac-toe."""

CONNECT_FOUR = LineRules(6, 7, 4, falls=True)
"""Rules of connect four."""
