"""Measures tree search: with games as arrays, with games as Python objects, and with a plain tree of objects.

    python -m benchmarks.planning.run [--games 64] [--simulations 50] [--repeats 5] [--json FILE]

64 games run side by side, and each move follows 50 simulations, with a network of two layers of 64. Rates are
simulations per second of CPU, with one thread. The candidates take turns, and the fastest turn of each counts, because
other work on the machine slows all of them down.

arrays   `BatchedSearch` over tic-tac-toe, connect four and Hex 5 x 5 as arrays
objects  the same search over tic-tac-toe as a Python object that is cloned for each action
plain    a simple tree of Python objects, over the same game objects; like the others, it evaluates the leaves of all
         games in one call of the network
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.peers import fastest, parser_of, print_row, surroundings, write_json
from rlrun.algorithms.alphazero.alphazero import AlphaZeroConfig
from rlrun.algorithms.alphazero.policy import SearchingPolicy
from rlrun.algorithms.alphazero.searching import SearchingBehavior
from rlrun.algorithms.alphazero.tree_search import BatchedSearch, Predict, SearchSettings
from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.policy.weights import Weights
from rlrun.engine.worlds.games.array_game import OBSERVATION, ArrayGame, Flags
from rlrun.engine.worlds.games.searchable import ObjectGame
from rlrun.engine.worlds.world import World
from rlrun.engine.worlds.world_view import WorldView
from rlrun.toys.board_games import ConnectFour, Hex, TicTacToe
from rlrun.toys.game_arrays import ConnectFourArrays, HexArrays, TicTacToeArrays

MOVES = 4
LINES = (0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124)
SETTINGS = SearchSettings()


class Board:
    """Tic-tac-toe as a Python object."""

    __slots__ = ("mover", "other", "own")

    def __init__(self, own: int = 0, other: int = 0, mover: int = 1) -> None:
        self.own, self.other, self.mover = own, other, mover

    @property
    def result(self) -> float | None:
        """The result for the player to move, None before the end."""
        if any(self.other & line == line for line in LINES):
            return -1.0
        return 0.0 if self.own | self.other == 0o777 else None

    def observe(self) -> dict[str, NDArray[Any]]:
        """Returns the board and the action mask."""
        planes = [[self.own >> cell & 1, self.other >> cell & 1] for cell in range(9)]
        return {
            OBSERVATION: np.array(planes, np.float32).reshape(3, 3, 2),
            ACTION_MASK: self.legal().astype(np.int8),
        }

    def legal(self) -> Flags:
        """Returns which cells are empty."""
        taken = self.own | self.other
        return np.array([not taken >> cell & 1 for cell in range(9)])

    def play(self, action: int) -> None:
        """Places a piece."""
        self.own, self.other, self.mover = self.other, self.own | 1 << action, -self.mover

    def clone(self) -> Self:
        """Returns a copy of the position."""
        return type(self)(self.own, self.other, self.mover)

    def at(self, observation: Any) -> Self:
        """Returns the position in an observation."""
        own, other = (
            sum(1 << int(cell) for cell in np.flatnonzero(observation[OBSERVATION][..., plane])) for plane in (0, 1)
        )
        return type(self)(own, other, 1 if own.bit_count() == other.bit_count() else -1)


class Node:
    """A node of the plain tree."""

    def __init__(self, board: Board, prior: float) -> None:
        self.board, self.prior = board, prior
        self.visits, self.sum = 0, 0.0
        self.children: dict[int, Node] = {}

    def best(self) -> Node:
        """Returns the child with the highest score."""
        root = math.sqrt(self.visits)

        def score(child: Node) -> float:
            mean = -child.sum / child.visits if child.visits else 0.0
            return mean + SETTINGS.exploration * child.prior * root / (1 + child.visits)

        return max(self.children.values(), key=score)


def plain_search(boards: list[Board], predict: Predict, simulations: int) -> list[int]:
    """Returns the most visited action of each game."""
    roots = [Node(board, 1.0) for board in boards]
    for _ in range(simulations + 1):
        ways, worth = [], []
        for root in roots:
            way = [root]
            while way[-1].children:
                way.append(way[-1].best())
            ways.append(way)
            worth.append(way[-1].board.result)
        open_leaves = [way[-1] for way, own in zip(ways, worth, strict=True) if own is None]
        if open_leaves:
            states = np.empty(len(open_leaves), object)
            states[:] = [leaf.board for leaf in open_leaves]
            legal = np.array([leaf.board.legal() for leaf in open_leaves])
            priors, values = predict(states, legal)
            found = iter(values.tolist())
            worth = [next(found) if own is None else own for own in worth]
            for leaf, allowed, probabilities in zip(open_leaves, legal, priors.tolist(), strict=True):
                for action in allowed.nonzero()[0].tolist():
                    board = leaf.board.clone()
                    board.play(action)
                    leaf.children[action] = Node(board, probabilities[action])
        for way, own in zip(ways, worth, strict=True):
            assert own is not None
            for node in reversed(way):
                node.visits += 1
                node.sum += own
                own = -own
    return [max(root.children, key=lambda action: root.children[action].visits) for root in roots]


def prediction(world: World, game: ArrayGame) -> Predict:
    """Returns the predictions of a network with two layers of 64 and random parameters."""
    policy = SearchingPolicy(
        world.spaces(world.possible_agents[0]),
        AlphaZeroConfig.parse({"model": {"hiddens": [64, 64]}, "evaluation_simulations": 1}),
        seed=0,
        world=WorldView(None, 2, "per_agent", game),
    )
    behavior = policy.behavior()
    assert isinstance(behavior, SearchingBehavior)
    generator = np.random.default_rng(0)
    behavior.load(Weights(0, generator.normal(0.0, 0.15, policy.parameters.size).astype(np.float32)))
    return behavior.prediction


def batched(game: ArrayGame, predict: Predict, games: int, simulations: int) -> Callable[[], None]:
    """Returns a function that plays a few moves from the start, each after a search."""

    def turn() -> None:
        search = BatchedSearch(game, predict, SETTINGS)
        search.begin(game.first(games))
        for _ in range(MOVES):
            search.run(simulations, np.random.default_rng(0))
            search.advance(search.visits.argmax(1))

    return turn


def plain(predict: Predict, games: int, simulations: int) -> Callable[[], None]:
    """Returns a function that does the same with the plain tree."""

    def turn() -> None:
        boards = [Board() for _ in range(games)]
        for _ in range(MOVES):
            for board, action in zip(boards, plain_search(boards, predict, simulations), strict=True):
                board.play(action)

    return turn


def measured(games: int, simulations: int, repeats: int) -> dict[str, float]:
    """Returns simulations per second of CPU."""
    objects: Any = ObjectGame("tic-tac-toe", lambda seed: Board(), 9)
    turns: dict[str, Callable[[], None]] = {
        name: batched(game, prediction(world, game), games, simulations)
        for name, game, world in (
            ("arrays, tic-tac-toe", TicTacToeArrays(), TicTacToe()),
            ("arrays, connect four", ConnectFourArrays(), ConnectFour()),
            ("arrays, Hex 5 x 5", HexArrays(5), Hex(5)),
            ("objects, tic-tac-toe", objects, TicTacToe()),
        )
    }
    turns["plain, tic-tac-toe"] = plain(prediction(TicTacToe(), objects), games, simulations)
    found = fastest(turns, repeats)
    return {name: games * simulations * MOVES / seconds for name, seconds in found.items()}


def main() -> None:
    """Prints the rates, and writes them to a file if the command line names one."""
    parser = parser_of(str(__doc__))
    parser.add_argument("--games", type=int, default=64)
    parser.add_argument("--simulations", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    surroundings(("numpy",))
    with threadpool_limits(1):
        rates = measured(given.games, given.simulations, given.repeats)
    print_row("", "simulations/s", "against plain", width=15)
    for name, rate in rates.items():
        print_row(name, f"{rate:,.0f}", f"{rate / rates['plain, tic-tac-toe']:.1f}x", width=15)
    write_json(given.json, rates)


if __name__ == "__main__":
    main()
