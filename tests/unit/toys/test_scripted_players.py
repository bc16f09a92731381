"""Players of board games play as well as they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.toys.board_games import BoardGame, ConnectFour, Hex, TicTacToe
from rlrun.toys.scripted_players import Minimax, OnePly, RandomLegal, TreeSearch

Player = Callable[[Any], int]


def play(world: BoardGame, players: tuple[Player, Player]) -> float:
    """Returns the first player's reward in a game."""
    shown = world.reset(0)
    while True:
        ((agent, seen),) = shown.items()
        step = world.step({agent: players[world.possible_agents.index(agent)](seen)})
        if step.ended:
            return step.rewards[world.possible_agents[0]]
        shown = step.observations


def points(world: BoardGame, player: Player, other: Player, games: int) -> list[float]:
    """Returns a player's rewards in a number of games on each side."""
    as_first = [play(world, (player, other)) for _ in range(games)]
    return as_first + [-play(world, (other, player)) for _ in range(games)]


def shown(pieces: list[str], *, falls: bool = False) -> dict[str, Any]:
    """Returns the observation of a player whose pieces are o; the other player's are x."""
    board = np.array([list(row) for row in pieces])
    planes = np.stack([board == "o", board == "x"], -1).astype(np.float32)
    return {"observation": planes, "action_mask": (board[0] == "." if falls else board.ravel() == ".").astype(np.int8)}


EMPTY = ["......."] * 2


def connect_four(pieces: list[str]) -> dict[str, Any]:
    return shown(pieces, falls=True)


def test_minimax_draws_tic_tac_toe_against_itself_and_never_loses_to_a_random_player() -> None:
    world = TicTacToe()
    assert points(world, Minimax(0), Minimax(1), 10) == [0.0] * 20
    results = points(world, Minimax(0), RandomLegal(0), 100)
    assert min(results) >= 0.0
    assert sum(results[:100]) > 80


def test_minimax_chooses_among_equally_good_moves_by_its_seed() -> None:
    nothing = shown(["...", "...", "..."])
    assert {Minimax(seed)(nothing) for seed in range(60)} == set(range(9))  # all moves lead to a draw
    corner = shown(["x..", "...", "..."])
    assert {Minimax(seed)(corner) for seed in range(20)} == {4}  # any other move loses


def test_minimax_prefers_the_quicker_win_and_the_later_loss() -> None:
    assert {Minimax(seed)(shown(["oo.", "o.x", ".xx"])) for seed in range(10)} == {2, 6}
    seen = connect_four([*EMPTY, ".......", ".......", ".......", "..xx..."])  # two open ends
    assert {Minimax(seed, depth=4)(seen) for seed in range(10)} <= {1, 4}


LINES = ["012", "345", "678", "036", "147", "258", "048", "246"]


def brute_force(board: list[int], player: int) -> int:
    """Returns the value of a tic-tac-toe position for the player to move."""
    if has_won(board, -player):
        return -1
    values = []
    for cell in (cell for cell in range(9) if not board[cell]):
        board[cell] = player
        values.append(-brute_force(board, -player))
        board[cell] = 0
    return max(values, default=0)


def has_won(board: list[int], player: int) -> bool:
    return any(all(board[int(cell)] == player for cell in line) for line in LINES)


def test_a_move_of_minimax_is_as_good_as_the_best_move_of_an_exhaustive_search() -> None:
    generator = np.random.default_rng(0)
    looked_at = 0
    while looked_at < 20:
        pieces = int(generator.integers(3, 8))
        board, player = [0] * 9, 1 if pieces % 2 == 0 else -1
        for turn, cell in enumerate(generator.permutation(9)[:pieces].tolist()):
            board[cell] = 1 if turn % 2 == 0 else -1
        if has_won(board, 1) or has_won(board, -1):
            continue
        text = "".join({player: "o", -player: "x", 0: "."}[cell] for cell in board)
        best = brute_force(board, player)
        board[Minimax(0)(shown([text[:3], text[3:6], text[6:]]))] = player
        assert -brute_force(board, -player) == best
        looked_at += 1


def test_alpha_beta_to_full_depth_chooses_the_same_moves_as_memoized_minimax() -> None:
    for rows in (["ox.", ".x.", "o.."], ["x..", ".o.", "..x"], ["oxo", "x..", ".x."]):
        exact = {Minimax(seed)(shown(rows)) for seed in range(30)}
        assert {Minimax(seed, depth=9)(shown(rows)) for seed in range(30)} == exact


def test_in_hex_minimax_wins_at_once_if_it_can_at_depth_1_and_beats_a_one_ply_player_by_default() -> None:
    world = Hex(4)
    almost = shown([".o..", ".ox.", ".o.x", "...x"])
    assert Minimax(0, depth=1)(almost) in (12, 13)
    assert sum(points(world, Minimax(0), OnePly(1), 2)) == 4.0


def test_in_connect_four_minimax_beats_a_one_ply_player_as_it_sees_wins_further_ahead() -> None:
    assert sum(points(ConnectFour(), Minimax(0), OnePly(1), 5)) >= 6.0


def test_a_one_ply_player_prefers_winning_to_blocking() -> None:
    seen = connect_four([*EMPTY, ".......", "o.....x", "o.....x", "o.....x"])
    assert OnePly(0)(seen) == 0
    assert OnePly(0)(shown(["oo.", "xx.", "..."])) == 2


def test_a_one_ply_player_blocks_threats_in_every_direction() -> None:
    player = OnePly(0)
    assert player(connect_four([*EMPTY, ".......", "......x", "oo....x", "oo....x"])) == 6
    assert player(connect_four([*EMPTY, ".......", ".......", ".......", "oxx.xo."])) == 3
    diagonal = [*EMPTY, ".......", "..xo...", ".xox...", "xoox..."]
    assert player(connect_four(diagonal)) == 3
    assert player(connect_four([row[::-1] for row in diagonal])) == 3
    assert player(shown(["....", "xx.x", "o...", "o..."])) == 6  # Hex: the other player connects left and right


def test_a_one_ply_player_beats_a_random_player() -> None:
    assert sum(points(ConnectFour(), OnePly(1), RandomLegal(2), 20)) >= 32


def test_tree_search_plays_better_with_more_simulations() -> None:
    replies = [TreeSearch(seed, 1000)(shown(["x..", "...", "..."])) for seed in range(2)]
    assert replies == [4, 4]  # any other reply loses
    assert sum(points(ConnectFour(), TreeSearch(0, 100), TreeSearch(1, 4), 2)) >= 3.0


def test_tree_search_wins_at_once_if_it_can_and_blocks_immediate_threats() -> None:
    assert TreeSearch(0, 200)(shown(["oo.", "xx.", "..."])) == 2
    assert TreeSearch(0, 400)(shown(["o..", "xx.", "..o"])) in (4, 5)


@pytest.mark.parametrize(
    ("observation", "said"),
    [
        ({"action_mask": np.ones(9)}, "tic-tac-toe, connect four and Hex, whose observations contain a board"),
        (
            {"observation": np.zeros((8, 8, 2)), "action_mask": np.ones(60)},
            r"not a board \[8, 8, 2\] with 60 actions",
        ),
    ],
)
def test_players_of_board_games_reject_observations_that_are_not_of_a_board_game(observation: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        OnePly(0)(observation)


def test_a_player_with_an_invalid_depth_or_without_simulations_is_rejected(wording) -> None:
    with wording.raised(ValueError, "-1"):
        Minimax(0, depth=-1)
    with wording.raised(ValueError):
        TreeSearch(0, simulations=0)
