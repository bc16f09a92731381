"""Scripted agents play as well as they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlrun.worlds.board_games import ConnectFour, LineGame, TicTacToe
from rlrun.worlds.scripted import OnePlyConnectFour, RandomLegal, perfect_tic_tac_toe

Player = Callable[[Any], int]


def play(world: LineGame, players: tuple[Player, Player]) -> float:
    """Returns what the first player is paid in a game."""
    shown = world.reset(0)
    while True:
        ((agent, seen),) = shown.items()
        step = world.step({agent: players[world.possible_agents.index(agent)](seen)})
        if step.ended:
            return step.rewards[world.possible_agents[0]]
        shown = step.observations


def test_perfect_players_of_tic_tac_toe_draw() -> None:
    assert play(TicTacToe(), (perfect_tic_tac_toe, perfect_tic_tac_toe)) == 0.0


def test_a_perfect_player_of_tic_tac_toe_never_loses() -> None:
    world, random = TicTacToe(), RandomLegal(0)
    as_first = [play(world, (perfect_tic_tac_toe, random)) for _ in range(100)]
    as_second = [play(world, (random, perfect_tic_tac_toe)) for _ in range(100)]
    assert min(as_first) >= 0.0
    assert max(as_second) <= 0.0
    assert sum(as_first) > 80


def connect_four(pieces: list[str]) -> dict[str, Any]:
    """Returns what a player sees whose pieces are o, beside the other's x."""
    board = np.array([list(row) for row in pieces])
    planes = np.stack([board == "o", board == "x"], -1).astype(np.float32)
    return {"observation": planes, "action_mask": (board[0] == ".").astype(np.int8)}


EMPTY = ["......."] * 2


def test_a_one_ply_player_wins_if_it_can_even_where_it_might_block() -> None:
    seen = connect_four([*EMPTY, ".......", "o.....x", "o.....x", "o.....x"])
    assert OnePlyConnectFour(0)(seen) == 0


def test_a_one_ply_player_blocks_if_it_must_in_every_direction() -> None:
    player = OnePlyConnectFour(0)
    assert player(connect_four([*EMPTY, ".......", "......x", "oo....x", "oo....x"])) == 6
    assert player(connect_four([*EMPTY, ".......", ".......", ".......", "oxx.xo."])) == 3
    diagonal = [*EMPTY, ".......", "..xo...", ".xox...", "xoox..."]
    assert player(connect_four(diagonal)) == 3
    assert player(connect_four([row[::-1] for row in diagonal])) == 3


def test_a_one_ply_player_beats_a_random_one() -> None:
    world, player, random = ConnectFour(), OnePlyConnectFour(1), RandomLegal(2)
    assert sum(play(world, (player, random)) for _ in range(20)) >= 16
    assert sum(play(world, (random, player)) for _ in range(20)) <= -16
