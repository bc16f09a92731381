"""Turn-based two-player board games as multi-agent envs: tic-tac-toe, Connect Four and Hex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.games.array_game import OBSERVATION, ArrayGame
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.toys.board_rules import CONNECT_FOUR, TIC_TAC_TOE, BoardRules, HexRules
from rlrun.toys.game_arrays import ConnectFourArrays, HexArrays, TicTacToeArrays

_PIXELS = 24
_FRAME = 40
_EMPTY = (235, 235, 235)
_BLUE, _ORANGE, _RED, _YELLOW = (40, 90, 200), (220, 120, 30), (210, 50, 50), (240, 200, 40)


class BoardGame(World):
    """Turn-based two-player board game, defined by its rules.

    Args:
        rules: Rules of the game.
        players: Ids of both players; the first one moves first.
        colors: Colors (red, green, blue) of both players' pieces.

    Attributes:
        rules: Rules of the game.
        mover: Player to move, 0 or 1.
    """

    clock: WorldClock = "per_agent"

    def __init__(self, rules: BoardRules, players: tuple[str, str], colors: Sequence[tuple[int, int, int]]) -> None:
        self.rules = rules
        self.possible_agents = players
        self.mover = 0
        observation = Dict(
            {
                OBSERVATION: Box(0.0, 1.0, (rules.rows, rules.columns, 2)),
                ACTION_MASK: MultiBinary(rules.num_actions),
            },
        )
        self._spaces = Spaces(observation, Discrete(rules.num_actions))
        self._pieces = [0, 0]
        self._colors = np.array([_EMPTY, *colors], np.uint8)

    @override
    def spaces(self, agent: str) -> Spaces:
        return self._spaces

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Starts a game on the empty board; the game is deterministic."""
        self._pieces = [0, 0]
        self.mover = 0
        return {self.possible_agents[0]: self._seen_by(0, goes_on=True)}

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Applies the mover's action, and passes the turn or ends the game.

        Raises:
            ValueError: If the action is illegal.
        """
        mover, agent = self.mover, self.possible_agents[self.mover]
        first, second = self._pieces
        piece = self.rules.piece_of(int(actions[agent]), mover, first | second)
        if not piece:
            raise ValueError(f"action {actions[agent]} of {agent} is illegal")
        self._pieces[mover] |= piece
        self.mover = 1 - mover
        wins = self.rules.wins(self._pieces[mover], mover)
        if wins or first | second | piece == self.rules.full:
            return self._end(mover, 1.0 if wins else 0.0)
        seen = self._seen_by(self.mover, goes_on=True)
        return WorldStep({self.possible_agents[self.mover]: seen}, {}, {}, {}, {}, False)

    def cell_of(self, action: int) -> tuple[int, int] | None:
        """Returns the (row, column) that an action of the player to move fills; None if the action is illegal."""
        first, second = self._pieces
        piece = self.rules.piece_of(action, self.mover, first | second)
        return self.rules.cell_of(piece) if piece else None

    def board(self) -> NDArray[np.int8]:
        """Returns the board, [rows, columns]: 1 and 2 for the players' pieces, 0 for empty cells."""
        first, second = self._pieces
        planes = self.rules.planes(first, second, player=0).astype(np.int8)
        found: NDArray[np.int8] = planes[..., 0] + 2 * planes[..., 1]
        return found

    @override
    def render(self) -> NDArray[np.uint8]:
        """Renders the board as an RGB image of colored squares."""
        return _drawn(self.board(), self._colors)

    def _end(self, mover: int, reward: float) -> WorldStep:
        """Ends the game with a reward for the last mover, and the negative of that reward for the other player."""
        players = self.possible_agents
        return WorldStep(
            {player: self._seen_by(index, goes_on=False) for index, player in enumerate(players)},
            {players[mover]: reward, players[1 - mover]: -reward},
            dict.fromkeys(players, True),
            {},
            {},
            True,
        )

    def _seen_by(self, player: int, *, goes_on: bool) -> dict[str, Any]:
        first, second = self._pieces
        own, other = (second, first) if player else (first, second)
        legal = self.rules.legal(player, own | other) if goes_on else np.zeros(self.rules.num_actions, np.int8)
        return {OBSERVATION: self.rules.planes(own, other, player), ACTION_MASK: legal}


class TicTacToe(BoardGame):
    """Tic-tac-toe: three in a row on a 3 x 3 board.

    Observation: {observation: the player's own and the opponent's pieces, [3, 3, 2]; action_mask: [9]}, shown to the
    player whose turn it is. Actions: Discrete(9), the cell, row by row. Rewards: 1 to the winner and -1 to the loser at
    the end, 0 to both in a draw. Ends: for both, with three in a row or a full board. `x` begins. The game is a draw if
    both play perfectly (`rlrun.toys.scripted_players.Minimax`).
    """

    def __init__(self) -> None:
        super().__init__(TIC_TAC_TOE, ("x", "o"), (_BLUE, _ORANGE))

    @override
    def array_game(self) -> ArrayGame:
        """Returns the vectorized version of tic-tac-toe for tree search."""
        return TicTacToeArrays()


class ConnectFour(BoardGame):
    """Connect Four: four in a row on a 6 x 7 board, on which pieces fall to the lowest empty cell of a column.

    Observation: {observation: the player's own and the opponent's pieces, [6, 7, 2]; action_mask: [7]}, shown to the
    player whose turn it is. Actions: Discrete(7), the column. Rewards: 1 to the winner and -1 to the loser at the end,
    0 to both in a draw. Ends: for both, with four in a row or a full board. `red` begins.
    """

    def __init__(self) -> None:
        super().__init__(CONNECT_FOUR, ("red", "yellow"), (_RED, _YELLOW))

    @override
    def array_game(self) -> ArrayGame:
        """Returns the vectorized version of Connect Four for tree search."""
        return ConnectFourArrays()


class Hex(BoardGame):
    """Hex (Hein, 1942): two players connect opposite sides of a board of n x n hexagons.

    `x` begins and connects the top with the bottom, `o` the left with the right. Each player sees the board with its
    own sides at the top and the bottom, so `o` sees the transposed board. A cell has six neighbors: the adjacent cells
    in its row and column, and the cells above right and below left.

    Observation: {observation: the player's own and the opponent's pieces, [n, n, 2]; action_mask: [n * n]}, shown to
    the player whose turn it is. Actions: Discrete(n * n), the cell, row by row, in the player's view. Rewards: 1 to the
    winner and -1 to the loser at the end. Ends: for both, with a connection; there are no draws. The first player wins
    if both play perfectly.

    Args:
        size: n, from 4 to 26. Scripted players recognize games by the shape of observations, and 3 x 3 is tic-tac-toe.

    Raises:
        ValueError: The size is out of range.
    """

    def __init__(self, size: int = 5) -> None:
        if not 4 <= size <= 26:
            raise ValueError(f"a Hex board must have 4 to 26 rows, not {size}")
        super().__init__(HexRules(size), ("x", "o"), (_BLUE, _ORANGE))

    @override
    def array_game(self) -> ArrayGame:
        """Returns the vectorized version of Hex for tree search."""
        return HexArrays(self.rules.rows)

    @override
    def render(self) -> NDArray[np.uint8]:
        """Renders the slanted board as an RGB image, including the players' sides."""
        framed = np.pad(self.board(), 1)
        framed[[0, -1], 1:-1] = 1
        framed[1:-1, [0, -1]] = 2
        upright = _drawn(framed, self._colors)
        half = _PIXELS // 2
        width = upright.shape[1] + half * (len(framed) - 1)
        picture = np.full((len(upright), width, 3), _EMPTY, np.uint8)
        for row in range(len(framed)):
            lines = slice(row * _PIXELS, (row + 1) * _PIXELS)
            picture[lines, row * half : row * half + upright.shape[1]] = upright[lines]
        return picture


def _drawn(board: NDArray[np.int8], colors: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Renders a board [rows, columns] as an RGB image, with a color for each cell value."""
    squares = np.kron(board, np.ones((_PIXELS, _PIXELS), np.int8))
    picture: NDArray[np.uint8] = colors[squares]
    picture[::_PIXELS] = picture[:, ::_PIXELS] = _FRAME
    return picture
