"""Scripted players: search algorithms for board games, and simple rules for other multi-agent envs and CartPole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.worlds.games.array_game import OBSERVATION
from rlrun.toys.board_rules import CONNECT_FOUR, TIC_TAC_TOE, BoardRules, HexRules

EXACT_CELLS = 9
"""Maximum board size, in cells, for exhaustive minimax by default."""

PLIES = 3
"""Default search depth of minimax on larger boards, in moves."""

_WIN = 1000
"""Minimax value of a win on the last cell; a win with k empty cells left is worth k more."""

_INFINITE = 10 * _WIN
_GAMES = "this player supports only tic-tac-toe, connect four and Hex"


class RandomLegal:
    """Uniformly random policy over legal actions.

    Args:
        seed: Seed of the random actions.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Samples a legal action uniformly.

        Raises:
            ValueError: The observation holds no action mask.
        """
        if not isinstance(observation, Mapping) or ACTION_MASK not in observation:
            raise ValueError(f"RandomLegal needs a Dict observation with {ACTION_MASK}")
        return int(self._generator.choice(np.flatnonzero(observation[ACTION_MASK])))


def balance_pole(observation: NDArray[np.float32]) -> int:
    """Scripted policy that balances CartPole indefinitely with a linear rule in angle, position and velocities."""
    position, velocity, angle, angular_velocity = observation.tolist()
    return int(angle + 0.4 * angular_velocity + 0.02 * position + 0.08 * velocity > 0)


class GreedyForager:
    """Greedy forager policy: moves to the nearest visible food, or randomly if none is visible.

    Args:
        seed: Seed of the random actions.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Returns the forager's action: stay, up, down, left or right."""
        window = observation["window"]
        food = np.argwhere(window) - len(window) // 2
        if not len(food):
            return int(self._generator.integers(1, 5))
        down, right = food[np.abs(food).sum(1).argmin()].tolist()
        if down == right == 0:
            return 0
        if abs(down) > abs(right):
            return 2 if down > 0 else 1
        return 4 if right > 0 else 3


class TribeForager:
    """Peaceful policy for `Tribes`: walks to the nearest visible water or food, whichever the agent has less of.

    The agent walks in a random direction if it sees neither, and also in about one step in five, to get around lakes.

    Args:
        seed: Seed of the random actions.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> NDArray[np.int64]:
        """Returns the agent's move, and no strike, [2]."""
        food, water, _, _ = observation["self"]
        wanted = observation["window"][int(water < food)]
        places = np.argwhere(wanted) - len(wanted) // 2
        move = int(self._generator.integers(1, 5))
        if len(places):
            away = places[np.abs(places).sum(1).argmin()]
            if np.abs(away).sum() <= (water < food):
                move = 0
            elif self._generator.random() < 0.8:
                axis = int(np.abs(away[1]) > np.abs(away[0]))
                move = 1 + 2 * axis + int(away[axis] > 0)
        return np.array([move, 0])


class Position(NamedTuple):
    """Board position from the perspective of the player to move, who becomes player 0.

    Attributes:
        rules: The game's rules.
        own: Bitboard of the player to move.
        other: Bitboard of the opponent.
    """

    rules: BoardRules
    own: int
    other: int

    def pieces(self) -> list[int]:
        """Returns the legal moves, each as a bitboard with one bit set."""
        return self.rules.pieces(self.own | self.other)


def position_of(observation: Any) -> Position:
    """Parses a board game observation into a position, seen from the player to move.

    Raises:
        UsageError: The observation is not from one of rlrun's board games.
    """
    if not isinstance(observation, Mapping) or not {OBSERVATION, ACTION_MASK} <= observation.keys():
        raise UsageError(f"{_GAMES}, whose observations contain a board and an action mask")
    planes = np.asarray(observation[OBSERVATION])
    rules = _rules_of(planes.shape, len(observation[ACTION_MASK]))
    own, other = (rules.bits(planes[..., plane] > 0.5) for plane in (0, 1))
    return Position(rules, own, other)


@cache
def _rules_of(shape: tuple[int, ...], num_actions: int) -> BoardRules:
    """Identifies a game's rules by the shapes of observation and action mask."""
    for rules in (TIC_TAC_TOE, CONNECT_FOUR):
        if (shape, num_actions) == ((rules.rows, rules.columns, 2), rules.num_actions):
            return rules
    if len(shape) == 3 and shape == (shape[0], shape[0], 2) and num_actions == shape[0] ** 2:
        return HexRules(shape[0])
    raise UsageError(f"{_GAMES}, not a board {list(shape)} with {num_actions} actions")


class OnePly:
    """One-ply lookahead player: wins if possible, else blocks an immediate loss, else moves at random.

    Args:
        seed: Seed of the random choices.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Chooses an action for an observation."""
        position = position_of(observation)
        rules, own, other = position
        pieces = position.pieces()
        winning = (piece for piece in pieces if rules.wins(own | piece, 0))
        blocking = (piece for piece in pieces if rules.wins(other | piece, 1))
        chosen = next(winning, None) or next(blocking, None) or self._random.choice(pieces)
        return rules.action_of_piece(chosen, 0)


class Minimax:
    """Minimax player with alpha-beta pruning; ties between best moves are broken at random.

    The player prefers quick wins and late losses. Games on a board of up to 9 cells are solved exhaustively, with
    memoization. Larger games are searched to a fixed depth, with alpha-beta pruning (Knuth and Moore, 1975, "An
    analysis of alpha-beta pruning"). Leaves are evaluated by the game's heuristic `BoardRules.advantage`.

    Args:
        seed: Seed of the choice among equally good moves.
        depth: Search depth in plies (moves of both players); 0 for exhaustive search on a board of up to 9 cells, and
            3 plies on larger ones.

    Raises:
        ValueError: The depth is negative.
    """

    def __init__(self, seed: int, depth: int = 0) -> None:
        if depth < 0:
            raise ValueError(f"depth must be at least 0, not {depth}")
        self._random = Random(seed)
        self._depth = depth

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Chooses an action for an observation."""
        position = position_of(observation)
        best, chosen = -_INFINITE, []
        for piece in position.pieces():
            value = self._value(position, piece, best - 1)
            if value > best:
                best, chosen = value, [piece]
            elif value == best:
                chosen.append(piece)
        return position.rules.action_of_piece(self._random.choice(chosen), 0)

    def _value(self, position: Position, piece: int, alpha: int) -> int:
        """Minimax value of a move; only an upper bound if not above alpha."""
        rules, own, other = position
        if self._depth == 0 and rules.full.bit_count() <= EXACT_CELLS:
            return _solved(rules, own | piece, other, 0)
        return _searched(rules, own | piece, other, 0, self._depth or PLIES, alpha, _INFINITE)


@cache
def _solved(rules: BoardRules, own: int, other: int, player: int) -> int:
    """Exact minimax value of a position for the player who has just moved."""
    if rules.wins(own, player):
        return _win(rules, own | other)
    replies = (_solved(rules, other | piece, own, 1 - player) for piece in rules.pieces(own | other))
    return -max(replies, default=0)


def _searched(rules: BoardRules, own: int, other: int, player: int, depth: int, alpha: int, beta: int) -> int:
    """Depth-limited alpha-beta value of a position for the player who has just moved; exact within the window.

    Args:
        rules: The game's rules.
        own: Bitboard of the player's pieces.
        other: Pieces of the opponent, whose turn it is.
        player: The player's number, 0 or 1.
        depth: Number of moves to search, including the player's.
        alpha: Lower bound of the search window.
        beta: Upper bound of the search window.
    """
    if rules.wins(own, player):
        return _win(rules, own | other)
    if depth == 1:
        return rules.advantage(own, other, player)
    value = _INFINITE
    for piece in rules.pieces(own | other):
        value = min(value, -_searched(rules, other | piece, own, 1 - player, depth - 1, -min(beta, value), -alpha))
        if value <= alpha:
            break
    return 0 if value == _INFINITE else value  # still infinite on a full board without a winner


def _win(rules: BoardRules, taken: int) -> int:
    return _WIN + (rules.full & ~taken).bit_count()


@dataclass(slots=True)
class _Node:
    """Node of the Monte Carlo search tree.

    Attributes:
        piece: Move (piece) that leads to the node.
        own: Bitboard of the player to move.
        other: Bitboard of the opponent.
        player: Player to move, 0 or 1.
        untried: Unexpanded moves in random order.
        ending: Outcome of the game for player 0: 1, 0 or -1; None in non-terminal nodes.
        children: Expanded child nodes.
        visits: Visit count.
        total: Sum of the simulations' outcomes for the player who moved last.
    """

    piece: int
    own: int
    other: int
    player: int
    untried: list[int]
    ending: float | None
    children: list[_Node] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0


class TreeSearch:
    """Monte Carlo tree search with random rollouts (UCT; Kocsis and Szepesvari, 2006).

    Each simulation descends the tree along the moves with the highest mean + c sqrt(ln N / n). N and n are the visit
    counts of a position and of its child. The simulation adds one position, and continues from there with random moves.
    The returned move is the most visited one.

    Args:
        seed: Seed of the random choices.
        simulations: Number of simulations per move.
        exploration: Exploration constant c.

    Raises:
        ValueError: There are no simulations.
    """

    def __init__(self, seed: int, simulations: int = 100, exploration: float = math.sqrt(2.0)) -> None:
        if simulations < 1:
            raise ValueError(f"simulations must be at least 1, not {simulations}")
        self._random = Random(seed)
        self._simulations = simulations
        self._exploration = exploration

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Chooses an action for an observation."""
        rules, own, other = position_of(observation)
        root = self._node(rules, 0, own, other, 0)
        for _ in range(self._simulations):
            self._simulate(rules, root)
        return rules.action_of_piece(max(root.children, key=lambda child: child.visits).piece, 0)

    def _node(self, rules: BoardRules, piece: int, own: int, other: int, player: int) -> _Node:
        """Creates the node after a move of the other player."""
        won = piece != 0 and rules.wins(other, 1 - player)
        untried = [] if won else rules.pieces(own | other)
        self._random.shuffle(untried)
        ending = _points(1 - player) if won else None if untried else 0.0
        return _Node(piece, own, other, player, untried, ending)

    def _simulate(self, rules: BoardRules, root: _Node) -> None:
        node, path = root, [root]
        while node.ending is None and not node.untried:
            node = self._chosen(node)
            path.append(node)
        if node.ending is None:
            piece = node.untried.pop()
            child = self._node(rules, piece, node.other, node.own | piece, 1 - node.player)
            node.children.append(child)
            path.append(child)
            node = child
        points = self._rollout(rules, node) if node.ending is None else node.ending
        for passed in path:
            passed.visits += 1
            passed.total += points if passed.player else -points

    def _chosen(self, node: _Node) -> _Node:
        logarithm = math.log(node.visits)
        return max(
            node.children,
            key=lambda child: child.total / child.visits + self._exploration * math.sqrt(logarithm / child.visits),
        )

    def _rollout(self, rules: BoardRules, node: _Node) -> float:
        """Random rollout from a position to the game's end; returns the outcome for player 0."""
        own, other, player = node.own, node.other, node.player
        while pieces := rules.pieces(own | other):
            own |= pieces[int(self._random.random() * len(pieces))]
            if rules.wins(own, player):
                return _points(player)
            own, other, player = other, own, 1 - player
        return 0.0


def _points(winner: int) -> float:
    """Outcome of a finished game for player 0."""
    return -1.0 if winner else 1.0
