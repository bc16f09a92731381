"""``rlrun play``: a person at stdin against a saved policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from rlrun.algorithms.alphazero.alphazero import AlphaZero
from rlrun.algorithms.ppo import PPO
from rlrun.cli.main import cli
from rlrun.cli.play import board_text
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training
from rlrun.toys.board_games import ConnectFour, Hex

GAMES = "rlrun.toys"
SMALL = {"model": {"hiddens": [4]}, "compile": False}


def play(checkpoint: Path, *words: str, moves: str = "") -> Result:
    return CliRunner().invoke(cli, ["play", str(checkpoint), *words], input=moves)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with checkpoints of untrained policies, by the name of their game."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for game in ("TicTacToe", "ConnectFour", "Hex"):
        policies = Policies({"both": PPO(PPO.Config.parse(SMALL))}, WorldSamplingSettings(), mapping={"*": "both"})
        with Training(EnvConfig(world=f"{GAMES}:{game}"), policies, seed=0) as training:
            training.save(folder / game)
    return folder


def test_a_game_can_be_played_to_its_end_by_trying_every_cell(saved: Path, wording) -> None:
    cells = [f"{column}{row}" for row in "123" for column in "abc"]
    done = play(saved / "TicTacToe", moves="\n".join(cells))
    assert done.exit_code == 0
    assert wording("a1", "c3") in done.output.splitlines()
    assert "x to move: \n   a b c\n 1 x . .\n" in done.output
    assert any(ending in done.output for ending in ("You win.", "You lose.", "A draw."))


def test_the_policy_plays_greedy_moves_and_each_move_is_printed(saved: Path, wording) -> None:
    with Training.restore(saved / "TicTacToe", eager=True) as training:
        planes = np.zeros((3, 3, 2), np.float32)
        action = training.act({"observation": planes, "action_mask": np.ones(9, np.int8)}, episode_start=True)
    done = play(saved / "TicTacToe", "--as", "o", moves="q\n")
    assert done.exit_code == 0
    assert f"x plays {'abc'[action % 3]}{action // 3 + 1}.\n" in done.output
    assert done.output.splitlines()[-2:] == wording()


def test_the_player_is_asked_again_after_an_invalid_or_illegal_move(saved: Path, wording) -> None:
    done = play(saved / "TicTacToe", moves="b2\nb2\nd1\nhello\n\nQ\n")
    assert done.exit_code == 0
    assert "b2 is taken.\n" in done.output
    for text in ("d1", "hello", ""):
        assert wording(f"'{text}'") in done.output.splitlines()


def test_end_of_input_quits_the_game(saved: Path, wording) -> None:
    done = play(saved / "ConnectFour", moves="3\n")
    assert done.exit_code == 0
    assert done.output.splitlines()[-1] == wording()


def test_connect_four_pieces_fall_into_columns_and_full_columns_are_refused(tmp_path: Path, wording) -> None:
    with Training(EnvConfig(world=f"{GAMES}:ConnectFour"), PPO(PPO.Config.parse(SMALL)), seed=0) as training:
        learner = training.running.trainee.learner
        learner.load_flat(0 * learner.flat())  # all actions are equal, so it plays the first column that is not full
        training.save(tmp_path / "first_column")
    done = play(tmp_path / "first_column", "--as", "red", moves="\n".join(["0", "8", "one", *"1111", "q"]))
    assert done.exit_code == 0
    assert wording("'8'") in done.output.splitlines()
    for pieces in ("r", "yr", "ryr", "yryr", "ryryr", "yryryr"):
        assert "".join(f"\n{piece} . . . . . ." for piece in pieces.rjust(6, ".")) in done.output
    assert [line for line in done.output.splitlines() if "Column 1" in line] == wording("Column 1")


def test_both_hex_players_use_the_same_cell_names(saved: Path) -> None:
    done = play(saved / "Hex", "--as", "o", "--actions", "sampled", "--seed", "1", moves="c1\nd1\nq\n")
    assert done.exit_code == 0
    first = next(line for line in done.output.splitlines() if line.startswith("x plays "))
    cell = "d1" if first == "x plays c1." else "c1"
    shown = done.output.split(f"plays {first.split()[-1]}")[1].split("to move:")[1].splitlines()[2].split()
    assert shown["abcde".index(cell[0]) + 1] == "o"


def test_an_untrained_policy_that_searches_blocks_a_win_and_other_policies_refuse_simulations(
    saved: Path, tmp_path: Path
) -> None:
    settings = AlphaZero.Config.parse({**SMALL, "evaluation_simulations": 0})
    with Training(EnvConfig(world=f"{GAMES}:TicTacToe"), AlphaZero(settings), seed=0) as training:
        training.save(tmp_path / "game")
    done = play(tmp_path / "game", "--simulations", "300", moves="b2\nc1\nb1\na3\nq\n")  # a3 would win
    replies = [line for line in done.output.splitlines() if line.startswith("o plays")]
    assert "o plays a3." in replies[:2] or "o plays c1." in replies[:1]
    refused = play(saved / "TicTacToe", "--simulations", "5")
    assert refused.exit_code == 2
    assert "does not use tree search" in refused.output


def test_an_unknown_player_is_refused_with_the_list_of_players(saved: Path, wording) -> None:
    done = play(saved / "ConnectFour", "--as", "x")
    assert done.exit_code == 2
    assert done.output == wording()


def test_envs_that_are_not_board_games_are_refused(tmp_path: Path, wording) -> None:
    with Training(EnvConfig(id="CartPole-v1"), PPO(PPO.Config.parse(SMALL)), seed=0) as training:
        training.save(tmp_path / "pole")
    poles = EnvConfig(world="rlrun.toys:CartPoles", kwargs={"num_agents": 2})
    policies = Policies({"both": PPO(PPO.Config.parse(SMALL))}, WorldSamplingSettings(), mapping={"*": "both"})
    with Training(poles, policies, seed=0) as training:
        training.save(tmp_path / "poles")
    for name, env in (("pole", "CartPole-v1"), ("poles", "rlrun.toys:CartPoles")):
        done = play(tmp_path / name)
        assert done.exit_code == 2
        assert done.output == wording(env)


def test_boards_are_printed_with_player_initials_and_the_hex_board_is_slanted(wording) -> None:
    game = Hex(4)
    game.reset(0)
    game.step({"x": 4})
    game.step({"o": 4})  # o's observation is transposed
    assert board_text(game).splitlines() == wording()
    columns = ConnectFour()
    columns.reset(0)
    columns.step({"red": 2})
    assert board_text(columns).splitlines()[0] == wording()
    assert board_text(columns).splitlines()[-1] == wording()
