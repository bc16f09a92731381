"""The search compared with a ten-line search and with perfect play, and its rules one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from rlrun.algorithms.alphazero.tree_search import BatchedSearch, SearchSettings
from rlrun.engine.worlds.games.array_game import ArrayGame, Flags, Floats, States, Symmetries
from rlrun.toys.game_arrays import ConnectFourArrays, HexArrays, TicTacToeArrays
from tests.unit.engine.worlds.random_play import RandomPlay, uniform

F = np.float32
SETTINGS = SearchSettings(exploration=1.5, first_play_reduction=0.25)


def hashed(states: States, legal: Flags) -> tuple[Floats, Floats]:
    """Priors and values that look random, but follow from the position."""
    numbers = [np.random.default_rng(crc32(state.tobytes())).random(legal.shape[1] + 1) for state in states]
    drawn = np.array(numbers).reshape(len(states), -1).astype(F)
    priors = drawn[:, :-1] * legal
    return priors / priors.sum(1, keepdims=True), 2 * drawn[:, -1] - 1


@dataclass
class Node:
    state: Any
    end: bool
    worth: Any
    priors: Any = None
    children: dict[int, Node] = field(default_factory=dict)
    visits: dict[int, int] = field(default_factory=dict)
    sums: dict[int, Any] = field(default_factory=dict)
    count: int = 1


def node(game: ArrayGame, predict: Any, state: States) -> Node:
    ended, outcomes = game.results(state)
    if ended[0]:
        return Node(state, True, outcomes[0])
    priors, values = predict(state, legal := game.legal(state))
    return Node(state, False, values[0], {a: priors[0, a] for a in legal[0].nonzero()[0].tolist()})


def simulate(game: ArrayGame, predict: Any, at: Node, settings: SearchSettings) -> Any:
    """Returns the value of a simulation from here, for the player to move."""
    if at.end:
        return at.worth
    first = at.worth - F(settings.first_play_reduction)

    def score(a: int) -> Any:
        visits = at.visits.get(a, 0)
        mean = at.sums[a] / F(visits) if visits else first
        return mean + F(settings.exploration) * np.sqrt(F(at.count)) * (at.priors[a] / F(1 + visits))

    action = max(at.priors, key=score)
    if action in at.children:
        child = at.children[action]
        worth = simulate(game, predict, child, settings)
    else:
        child = at.children[action] = node(game, predict, game.play(at.state, np.array([action])))
        worth = child.worth
    worth = worth if game.movers(child.state)[0] == game.movers(at.state)[0] else -worth
    at.visits[action], at.sums[action] = at.visits.get(action, 0) + 1, at.sums.get(action, F(0)) + worth
    at.count += 1
    return worth


def played(game: ArrayGame, number: int, moves: int, seed: int = 0) -> States:
    """Returns positions after some random moves from the start; none of the games has ended."""
    generator, states = np.random.default_rng(seed), game.first(number)
    for _ in range(moves):
        after = game.play(states, (generator.random((number, game.num_actions)) * game.legal(states)).argmax(1))
        states = np.where(game.results(after)[0][:, None], states, after)
    return states


@pytest.mark.parametrize(
    ("game", "moves"), [(TicTacToeArrays(), 2), (ConnectFourArrays(), 20), (HexArrays(3), 2)], ids=["ttt", "c4", "hex"]
)
def test_batched_visits_equal_a_recursive_search_of_each_game(game: ArrayGame, moves: int) -> None:
    states = played(game, 6, moves)
    search = BatchedSearch(game, hashed, SETTINGS)
    search.begin(states)
    search.run(120)
    for row, state in enumerate(states):
        root = node(game, hashed, state[None])
        for _ in range(120):
            simulate(game, hashed, root, SETTINGS)
        assert search.visits[row].tolist() == [root.visits.get(a, 0) for a in range(game.num_actions)]


def test_after_a_move_the_search_continues_from_the_kept_subtree() -> None:
    game = TicTacToeArrays()
    search = BatchedSearch(game, hashed, SETTINGS)
    search.begin(game.first(3))
    search.run(60)
    roots = [node(game, hashed, game.first(1)) for _ in range(3)]
    for root in roots:
        for _ in range(60):
            simulate(game, hashed, root, SETTINGS)
    actions = np.argsort(-search.visits[0])[:3]
    for _ in range(2):
        search.advance(actions)
        roots = [root.children[action] for root, action in zip(roots, actions, strict=True)]
        for visits, root in zip(search.visits, roots, strict=True):
            assert visits.tolist() == [root.visits.get(a, 0) for a in range(9)]
        search.run(40)
        for root in roots:
            for _ in range(40):
                simulate(game, hashed, root, SETTINGS)
        for visits, root in zip(search.visits, roots, strict=True):
            assert visits.tolist() == [root.visits.get(a, 0) for a in range(9)]
        actions = search.visits.argmax(1)


def test_each_tree_in_a_batch_can_play_an_untried_action_or_restart_with_a_new_game() -> None:
    game = TicTacToeArrays()
    search, apart = BatchedSearch(game, hashed, SETTINGS), BatchedSearch(game, hashed, SETTINGS)
    search.begin(game.first(3))
    search.advance(np.array([1, 2, 3]))
    search.restart(np.array([1]), game.first(1))
    search.run(50)
    expected = game.play(game.first(3), np.array([1, 2, 3]))
    expected[1] = game.first(1)
    assert (search.states == expected).all()
    apart.begin(expected)
    apart.run(50)
    assert (search.visits == apart.visits).all()
    assert (search.values == apart.values).all()


def test_all_simulations_visit_legal_actions_and_none_visit_illegal_ones() -> None:
    game = ConnectFourArrays()
    states = played(game, 20, 30)
    search = BatchedSearch(game, hashed, SETTINGS)
    search.begin(states)
    search.run(80, np.random.default_rng(0))
    assert (search.visits[~game.legal(states)] == 0).all()
    assert (search.visits.sum(1) == 80).all()


class Counting:
    """Predicts like `hashed`, and fails on a position that has ended."""

    def __init__(self, game: ArrayGame) -> None:
        self.game, self.asked = game, 0

    def __call__(self, states: States, legal: Flags) -> tuple[Floats, Floats]:
        assert not self.game.results(states)[0].any()
        self.asked += len(states)
        return hashed(states, legal)


def test_finished_games_are_not_sent_to_the_predictor() -> None:
    game = TicTacToeArrays()
    predict = Counting(game)
    search = BatchedSearch(game, predict, SETTINGS)
    search.begin(played(game, 4, 8, seed=3))
    asked = predict.asked
    search.run(50)
    empty = 9 - (np.array([bin(own | other).count("1") for own, other, _ in search.states]))
    assert predict.asked - asked < 50 * 4
    assert (search.visits.sum(1) == 50).all()
    assert empty.max() <= 3


def test_the_root_of_a_finished_game_keeps_its_state_and_has_the_value_of_the_result() -> None:
    game = TicTacToeArrays()
    states = game.first(2)
    for action in (0, 3, 1, 4):
        states = game.play(states, np.array([action, action]))
    search = BatchedSearch(game, hashed, SETTINGS)
    search.begin(states)
    search.advance(np.array([2, 5]))  # the first game is won
    assert search.ended.tolist() == [True, False]
    search.run(20, np.random.default_rng(0))
    assert search.visits.sum(1).tolist() == [0, 20]
    assert search.values[0] == -1  # for the player who would have moved next
    before = search.states
    search.advance(np.array([0, 2]))
    assert (search.states[0] == before[0]).all()


def test_an_immediately_winning_move_is_found_for_either_player() -> None:
    game, zeros = TicTacToeArrays(), lambda states, legal: (uniform(legal), np.zeros(len(states), F))
    first = np.array([0, 3, 1, 4])  # x holds 0 and 1, and o holds 3 and 4, so x wins at 2
    second = np.array([0, 3, 1, 4, 8])  # o wins at 5; otherwise, x would win at 2
    for moves, wins in ((first, 2), (second, 5)):
        states = game.first(1)
        for action in moves:
            states = game.play(states, np.array([action]))
        search = BatchedSearch(game, zeros, SearchSettings())
        search.begin(states)
        search.run(60)
        assert search.visits[0].argmax() == wins
        assert search.values[0] > 0.5


class TwoMovesEach:
    """A game in which each player moves twice in a row; whoever takes 1 more often in the four moves wins."""

    num_actions, symmetries = 2, Symmetries.none(1, 2)

    def first(self, number: int) -> States:
        return np.zeros((number, 3), np.int64)  # moves so far, and how often each of the two players took 1

    def legal(self, states: States) -> Flags:
        return np.ones((len(states), 2), np.bool_)

    def play(self, states: States, actions: Any) -> States:
        after = states.copy()
        after[np.arange(len(states)), 1 + states[:, 0] // 2 % 2] += actions
        after[:, 0] += 1
        return after

    def results(self, states: States) -> tuple[Flags, Floats]:
        ended = states[:, 0] == 4
        return ended, np.where(ended, np.sign(states[:, 1] - states[:, 2]), 0).astype(F) * self.movers(states)

    def movers(self, states: States) -> Floats:
        return np.where(states[:, 0] // 2 % 2 == 0, 1, -1).astype(F)


def test_values_change_sign_with_the_player_to_move_and_not_with_each_move() -> None:
    game: Any = TwoMovesEach()
    search = BatchedSearch(game, lambda states, legal: (uniform(legal), np.zeros(len(states), F)), SearchSettings())
    for states, best in ((game.first(1), 1), (np.array([[1, 1, 0]]), 1), (np.array([[2, 1, 0]]), 1)):
        search.begin(states)
        search.run(200)
        assert search.visits[0].argmax() == best
    search.begin(np.array([[2, 2, 0]]))
    search.run(100)
    assert -0.5 < search.values[0] < 0  # the second player can draw, but most of its moves lose


def test_noise_is_mixed_only_into_the_priors_of_the_root() -> None:
    game, number = TicTacToeArrays(), 3
    settings = SearchSettings(noise_fraction=0.5, noise_concentration=1.0)
    search = BatchedSearch(game, hashed, settings)
    search.begin(states := played(game, number, 2))
    search.run(120, np.random.default_rng(0))
    noise = np.random.default_rng(0).standard_gamma(1.0, (number, 9)) * game.legal(states)
    noise /= noise.sum(1, keepdims=True)
    roots = [node(game, hashed, state[None]) for state in states]
    for root, drawn in zip(roots, noise, strict=True):
        root.priors = {a: F(F(0.5) * prior + 0.5 * drawn[a]) for a, prior in root.priors.items()}
        for _ in range(120):
            simulate(game, hashed, root, settings)
    for _ in range(3):
        for visits, root in zip(search.visits, roots, strict=True):
            assert visits.tolist() == [root.visits.get(a, 0) for a in range(9)]
        actions = search.visits.argmax(1)
        assert search.visits.max(1).min() >= 5
        search.advance(actions)
        roots = [root.children[action] for root, action in zip(roots, actions, strict=True)]


def test_root_noise_is_seeded_per_game_and_disabled_without_a_generator() -> None:
    game = TicTacToeArrays()
    seen: list[Floats] = []
    for generator in (None, None, np.random.default_rng(0), np.random.default_rng(0), np.random.default_rng(1)):
        search = BatchedSearch(game, hashed, SETTINGS)
        search.begin(game.first(2))
        search.run(40, generator)
        seen.append(search.visits)
    assert (seen[0] == seen[1]).all()
    assert (seen[2] == seen[3]).all()
    assert not (seen[0] == seen[2]).all()
    assert not (seen[3] == seen[4]).all()
    assert not (seen[2][0] == seen[2][1]).all()  # each game has its own noise


def test_positions_may_be_python_objects_and_playing_a_move_does_not_modify_them() -> None:
    @dataclass(frozen=True)
    class Board:
        row: tuple[int, ...]

    class Objects(TicTacToeArrays):
        """Tic-tac-toe whose positions are objects."""

        def _rows(self, states: States) -> States:
            return np.array([state.row for state in states]).reshape(-1, 3)

        def _boards(self, rows: States) -> States:
            boards = np.empty(len(rows), object)
            boards[:] = [Board(tuple(row)) for row in rows.tolist()]
            return boards

        def first(self, number: int) -> States:
            return self._boards(super().first(number))

        def play(self, states: States, actions: Any) -> States:
            return self._boards(super().play(self._rows(states), actions))

        def legal(self, states: States) -> Flags:
            return super().legal(self._rows(states))

        def results(self, states: States) -> tuple[Flags, Floats]:
            return super().results(self._rows(states))

        def movers(self, states: States) -> Floats:
            return super().movers(self._rows(states))

    def by_row(states: States, legal: Flags) -> tuple[Floats, Floats]:
        return hashed(np.array([state.row for state in states]).reshape(-1, 3), legal)

    games: list[tuple[ArrayGame, Any]] = [(TicTacToeArrays(), hashed), (Objects(), by_row)]
    seen = []
    for game, predict in games:
        search = BatchedSearch(game, predict, SETTINGS)
        search.begin(game.first(3))
        search.run(50)
        search.advance(search.visits.argmax(1))
        search.run(50)
        seen.append(search.visits)
    assert (seen[0] == seen[1]).all()


@cache
def value(own: int, other: int) -> int:
    """Value of a tic-tac-toe position for the player to move if both play perfectly."""
    game = TicTacToeArrays()
    state = np.array([[own, other, 1]])
    ended, outcome = game.results(state)
    if ended[0]:
        return int(outcome[0])
    return max(
        -value(*game.play(state, np.array([a]))[0, :2].tolist()) for a in game.legal(state)[0].nonzero()[0].tolist()
    )


def perfect(states: States, generator: np.random.Generator) -> Any:
    """Returns one of the best actions if both play perfectly."""
    game, actions = TicTacToeArrays(), []
    for state, legal in zip(states, game.legal(states), strict=True):
        worth = {a: -value(*game.play(state[None], np.array([a]))[0, :2].tolist()) for a in legal.nonzero()[0].tolist()}
        actions.append(generator.choice([a for a, own in worth.items() if own == max(worth.values())]))
    return np.array(actions)


def test_a_search_with_500_random_playouts_does_not_lose_to_a_perfect_player() -> None:
    game, generator = TicTacToeArrays(), np.random.default_rng(5)
    search = BatchedSearch(game, RandomPlay(game, 7, games=8), SearchSettings(exploration=4.0))
    states = game.first(24)
    states[:12] = game.play(states[:12], perfect(states[:12], generator))
    while len(states):
        search.begin(states)
        search.run(500)
        states = game.play(states, search.visits.argmax(1))
        assert (game.results(states)[1] <= 0).all()
        states = states[~game.results(states)[0]]
        if len(states):
            states = game.play(states, perfect(states, generator))
            assert (game.results(states)[1] == 0).all()
            states = states[~game.results(states)[0]]
