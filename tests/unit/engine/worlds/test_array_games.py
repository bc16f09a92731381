"""Games as arrays equal the games of `rlrun.toys.board_games`, move by move."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.worlds.games.array_game import OBSERVATION, ArrayGame
from rlrun.engine.worlds.world import World
from rlrun.toys.board_games import ConnectFour, Hex, TicTacToe
from rlrun.toys.game_arrays import ConnectFourArrays, HexArrays, TicTacToeArrays

GAMES = [TicTacToe, ConnectFour, Hex]
ALL_GAMES = [TicTacToeArrays(), ConnectFourArrays(), HexArrays(3), HexArrays(5)]
NAMES = ["tic-tac-toe", "connect four", "hex 3", "hex 5"]


def random_actions(legal: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return (generator.random(legal.shape) * legal).argmax(1)


@pytest.mark.parametrize("world", GAMES)
def test_an_array_game_matches_its_world_move_by_move(world: type[World]) -> None:
    generator, worlds = np.random.default_rng(0), [world() for _ in range(20)]
    game = worlds[0].array_game()
    assert game is not None
    shown = [next(iter(each.reset(0).values())) for each in worlds]
    states = game.first(20)
    while worlds:
        seen, movers = game.observe(states), game.movers(states)
        for row, own in enumerate(shown):
            assert (seen[OBSERVATION][row] == own[OBSERVATION]).all()
            assert (seen[ACTION_MASK][row] == own[ACTION_MASK]).all()
        actions = random_actions(game.legal(states), generator)
        agents = [each.possible_agents[0 if mover > 0 else 1] for each, mover in zip(worlds, movers, strict=True)]
        steps = [each.step({who: own}) for each, who, own in zip(worlds, agents, actions, strict=True)]
        states = game.play(states, actions)
        ended, outcomes = game.results(states)
        assert ended.tolist() == [step.ended for step in steps]
        for row in ended.nonzero()[0]:
            after = worlds[row].possible_agents[0 if game.movers(states)[row] > 0 else 1]
            assert outcomes[row] == steps[row].rewards[after]
        worlds = [each for each, over in zip(worlds, ended, strict=True) if not over]
        shown = [next(iter(step.observations.values())) for step in steps if not step.ended]
        states = states[~ended]


@pytest.mark.parametrize("game", ALL_GAMES, ids=NAMES)
def test_positions_can_be_reconstructed_from_observations(game: ArrayGame) -> None:
    generator, states = np.random.default_rng(1), game.first(50)
    while len(states):
        again = game.positions(game.observe(states))
        actions = random_actions(game.legal(states), generator)
        states, again = game.play(states, actions), game.play(again, actions)
        for own, other in zip(game.results(states), game.results(again), strict=True):
            assert (own == other).all()
        assert (game.observe(states)[OBSERVATION] == game.observe(again)[OBSERVATION]).all()
        assert (game.movers(states) == game.movers(again)).all()
        for own, other in zip(game.results(states), game.results(game.positions(game.observe(states))), strict=True):
            assert (own == other).all()
        states = states[~game.results(states)[0]]


def test_a_hex_position_that_shows_the_players_own_connection_is_a_win() -> None:
    board = np.zeros((1, 3, 3, 2), np.float32)
    board[0, :, 1, 0] = 1
    board[0, :2, 0, 1] = 1
    ended, outcomes = HexArrays(3).results(HexArrays(3).positions({OBSERVATION: board}))
    assert (ended[0], outcomes[0]) == (True, 1.0)


@pytest.mark.parametrize("game", ALL_GAMES, ids=NAMES)
def test_playing_a_move_does_not_modify_the_given_positions(game: ArrayGame) -> None:
    states = game.first(4)
    before = states.copy()
    game.play(states, np.arange(4))
    assert (states == before).all()


@pytest.mark.parametrize("game", ALL_GAMES, ids=NAMES)
def test_a_transformed_action_leads_to_the_transformed_position(game: ArrayGame) -> None:
    generator, symmetries = np.random.default_rng(2), game.symmetries
    states = game.first(len(symmetries))
    moved = game.first(len(symmetries))
    which = np.arange(len(symmetries))
    for _ in range(4):
        at = np.repeat(random_actions(game.legal(states[:1]), generator), len(symmetries))
        chosen = np.eye(game.num_actions, dtype=np.float32)[at]
        states, moved = game.play(states, at), game.play(moved, symmetries.move_actions(chosen, which).argmax(1))
        board = game.observe(states)[OBSERVATION]
        assert (symmetries.move_cells(board, which) == game.observe(moved)[OBSERVATION]).all()


def test_no_two_symmetries_of_a_game_are_the_same() -> None:
    assert [len(np.unique(game.symmetries.cells, axis=0)) for game in ALL_GAMES] == [8, 2, 2, 2]
    assert (ALL_GAMES[0].symmetries.cells[0] == np.arange(9)).all()


def flood(board: np.ndarray) -> bool:
    """Whether pieces connect the first row with the last, by walking."""
    size = len(board)
    found = {(0, column) for column in range(size) if board[0, column]}
    while True:
        more = {
            (row + down, column + right)
            for row, column in found
            for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0), (-1, 1), (1, -1))
            if 0 <= row + down < size and 0 <= column + right < size and board[row + down, column + right]
        }
        if more <= found:
            return any(row == size - 1 for row, _ in found)
        found |= more


@pytest.mark.parametrize("size", [2, 5])
def test_the_winner_of_hex_is_the_player_whose_stones_connect_their_two_sides(size: int) -> None:
    game, generator = HexArrays(size), np.random.default_rng(3)
    states = game.first(40)
    while len(states):
        states = game.play(states, random_actions(game.legal(states), generator))
        boards = game.observe(states)[OBSERVATION]
        ended, outcomes = game.results(states)
        assert ended.tolist() == [flood(board[..., 1].T) for board in boards]
        assert outcomes.tolist() == [-1.0 if over else 0.0 for over in ended]
        assert not any(flood(board[..., 0]) for board in boards)
        states = states[~ended]
