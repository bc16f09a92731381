"""Which worlds are games that can be searched."""

from __future__ import annotations

import pytest

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.worlds.make import game_of
from rlrun.toys.game_arrays import ConnectFourArrays, HexArrays, TicTacToeArrays

GAMES = "rlrun.toys"


@pytest.mark.parametrize(
    ("world", "game"), [("TicTacToe", TicTacToeArrays), ("ConnectFour", ConnectFourArrays), ("Hex", HexArrays)]
)
def test_a_board_game_world_has_an_array_game(world: str, game: type) -> None:
    assert isinstance(game_of(EnvConfig(world=f"{GAMES}:{world}")), game)


def test_the_array_game_of_a_hex_world_has_the_board_size_of_that_world() -> None:
    game = game_of(EnvConfig(world=f"{GAMES}:Hex", kwargs={"size": 7}))
    assert isinstance(game, HexArrays)
    assert game.size == 7


def test_worlds_that_are_no_board_games_and_wrapped_board_games_have_no_array_game() -> None:
    wrapped = {"world": f"{GAMES}:TicTacToe", "wrappers": [{"id": "rlrun.plugin:AgentIndicator"}]}
    for world in (
        EnvConfig(world="rlrun.toys:TwoStepGame"),
        EnvConfig(world="rlrun.toys:Foraging"),
        EnvConfig.parse(wrapped),
    ):
        assert game_of(world) is None
