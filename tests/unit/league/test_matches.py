"""Games between two sides."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.errors import UsageError
from rlrun.league.matches import Matches
from rlrun.league.ratings import Outcomes
from rlrun.league.scripted_opponent import ScriptedPlayer
from rlrun.worlds.world_config import WorldConfig

GAME = WorldConfig(world="rlrun.worlds.board_games:TicTacToe")


def scripted(name: str, seed: int = 0) -> ScriptedPlayer:
    return ScriptedPlayer(f"rlrun.worlds.scripted:{name}", np.dtype(np.int64), (), seed)


def test_perfect_players_draw_and_one_never_loses_against_chance() -> None:
    matches = Matches(GAME)
    perfect = scripted("perfect_tic_tac_toe")
    assert matches.play(perfect, perfect, 4, seed=0) == Outcomes(0, 4, 0)
    outcomes = matches.play(perfect, scripted("RandomLegal"), 30, seed=0)
    assert (outcomes.games, outcomes.losses) == (30, 0)
    assert outcomes.win_rate > 0.8


def first_free(observation: dict[str, np.ndarray]) -> int:
    """Takes the first free cell: whoever begins wins with the diagonal or a row before the other does."""
    return int(np.flatnonzero(observation["action_mask"])[0])


def test_both_play_each_side_in_half_of_the_games_rounded_up() -> None:
    player = ScriptedPlayer(f"{__name__}:first_free", np.dtype(np.int64), (), 0)
    assert Matches(GAME).play(player, player, 5, seed=0) == Outcomes(3, 0, 3)


def test_a_world_without_two_sides_is_refused() -> None:
    with pytest.raises(UsageError, match="need an even number of agents, not 3"):
        Matches(WorldConfig(world="rlrun.worlds.cartpoles:CartPoles", kwargs={"num_agents": 3}))


@pytest.mark.parametrize(
    ("player", "said"),
    [
        (
            "rlrun.worlds.scripted:GreedyForager",
            "no games of two sides can be played in it: mapping: agent 'forager_12'",
        ),
        (f"{__name__}:first_move", r"4 episodes of agents in 2 games: every agent has to live once in each"),
    ],
)
def test_a_world_in_which_agents_are_born_or_missing_is_refused(player: str, said: str) -> None:
    forager = ScriptedPlayer(player, np.dtype(np.int64), (), 0)
    world = WorldConfig(world="rlrun.worlds.foraging:Foraging", kwargs={"foragers": 8, "max_foragers": 12})
    with pytest.raises(UsageError, match=said):
        Matches(world).play(forager, forager, 4, seed=0)


def first_move(observation: object) -> int:
    """Stays where it is."""
    return 0
