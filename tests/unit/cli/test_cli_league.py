"""``rlrun league`` and ``rlrun evaluate --against``: how policies do against each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlrun.algorithms.alphazero.alphazero import AlphaZero
from rlrun.algorithms.ppo import PPO
from rlrun.cli.league import league_text
from rlrun.cli.versus import Versus
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.league.ratings import Outcomes
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training
from tests.command import rlrun

GAME = EnvConfig(world="rlrun.toys:TicTacToe")
SMALL = {"train_batch_size": 32, "minibatch_size": 32, "num_epochs": 1, "model": {"hiddens": [4]}, "compile": False}


def document(*words: object) -> Any:
    done = rlrun(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns the checkpoints of a league, and of one policy for both sides."""
    folder = tmp_path_factory.mktemp("checkpoints")
    league = Policies(
        {"main": PPO(PPO.Config.parse(SMALL))},
        WorldSamplingSettings(),
        mapping="rlrun.plugin:alternate",
        seats={"opponent": SeatSettings(plays_against="main")},
        league=LeagueSettings(snapshot_every=1, rating_episodes=4),
    )
    alone = Policies({"both": PPO(PPO.Config.parse(SMALL))}, WorldSamplingSettings(), mapping={"*": "both"})
    for name, policies in (("league", league), ("alone", alone)):
        with Training(GAME, policies, seed=0) as training:
            training.step()
            training.save(folder / name)
    return folder / "league", folder / "alone"


def test_the_league_command_shows_the_ratings_and_payoffs_of_a_checkpoint(saved: tuple[Path, Path]) -> None:
    found = document("league", saved[0])
    assert set(found["ratings"]) == {"main:0", "main:1"}
    assert found["ratings"]["main:0"] == 0.0
    first, second = found["payoffs"]
    assert (first["wins"], first["draws"], first["losses"]) == (second["losses"], second["draws"], second["wins"])
    assert first["wins"] + first["draws"] + first["losses"] == 4
    shown = rlrun("league", saved[0]).stdout
    assert "main:0" in shown
    assert "Elo" in shown


def test_the_payoff_table_has_a_row_for_each_member_and_a_column_for_each_opponent() -> None:
    found = {
        "ratings": {"main:1": 100.4, "main:0": 0.0},
        "payoffs": [
            {"first": "main:1", "second": "main:0", "wins": 5, "draws": 2, "losses": 3},
            {"first": "main:0", "second": "main:1", "wins": 3, "draws": 2, "losses": 5},
        ],
    }
    lines = [line.split() for line in league_text(found).splitlines()]
    assert lines[0] == ["member", "Elo", "1", "2"]
    assert lines[1:] == [["1", "main:1", "100", "-", "0.60"], ["2", "main:0", "0", "0.40", "-"]]


def test_a_checkpoint_without_a_league_is_refused(saved: tuple[Path, Path]) -> None:
    done = rlrun("league", saved[1])
    assert done.exit_code == 2
    assert "the spec has no seats, so there is no league" in done.output


def test_a_policy_can_play_against_a_script_and_against_another_checkpoint(saved: tuple[Path, Path]) -> None:
    script = "minimax"
    found = document("evaluate", saved[1], "--against", script, "--episodes", 6)
    assert found["wins"]["number"] == 0
    assert [own["games"] for own in found["sides"].values()] == [3, 3]
    assert (found["games"], found["against"]) == (6, script)
    other = document("evaluate", saved[1], "--against", saved[0], "--episodes", 4, "--actions", "sampled", "--trust")
    assert (other["games"], other["against"]) == (4, str(saved[0]))
    assert sum(other[ending]["number"] for ending in ("wins", "draws", "losses")) == 4


def test_an_opponent_can_be_given_settings_and_misspellings_are_answered_with_suggestions(
    saved: tuple[Path, Path], wording
) -> None:
    found = document("evaluate", saved[1], "--against", "mcts(simulations=4)", "--episodes", 2)
    assert (found["games"], found["against"]) == (2, "mcts(simulations=4)")
    wrong = rlrun("evaluate", saved[1], "--against", "minimax(deph=5)")
    assert wrong.exit_code == 2
    assert wrong.output == wording("deph", "depth")
    wrong = rlrun("evaluate", saved[1], "--against", "minmax")
    assert wrong.exit_code == 2
    assert wrong.output == wording("minimax")


def test_playing_an_opponent_in_an_env_other_than_the_training_env_is_refused(saved: tuple[Path, Path]) -> None:
    done = rlrun("evaluate", saved[1], "--against", "rlrun.toys:RandomLegal", "--env", "CartPole-v1")
    assert done.exit_code == 2
    assert "--against plays in the world in which the policy was trained; leave out --env" in done.output


def test_wins_draws_and_losses_are_shown_with_confidence_intervals(wording) -> None:
    lines = Versus("mine", "theirs", {"first": Outcomes(50, 0, 0), "second": Outcomes(0, 20, 30)}).text().splitlines()
    assert lines[:3] == ["mine", "against theirs", "100 games"]
    assert lines[3].split() == ["wins", "50", "0.500", "(95%", "interval", "0.398", "to", "0.602)"]
    assert lines[6:8] == wording("50", "1.000", "95")
    assert lines[10] == wording()


def test_more_simulations_lose_fewer_games_and_are_refused_for_a_policy_that_does_not_search(
    saved: tuple[Path, Path], tmp_path: Path, wording
) -> None:
    settings = {"evaluation_simulations": 3, "model": {"hiddens": [4]}, "compile": False}
    with Training(GAME, AlphaZero(AlphaZero.Config.parse(settings)), seed=0) as training:
        training.save(tmp_path / "searching")
    found = [
        document("evaluate", tmp_path / "searching", "--against", "minimax", "--episodes", 20, *words)["sides"]
        for words in ((), ("--simulations", 3), ("--simulations", 80))
    ]
    assert found[0] == found[1]
    assert found[2]["first"]["losses"]["number"] < found[0]["first"]["losses"]["number"]
    refused = rlrun("evaluate", saved[1], "--simulations", 3)
    assert refused.exit_code == 2
    assert refused.output == wording()
