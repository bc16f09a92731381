"""Games between two sides."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.league.league_settings import SeatSettings
from rlrun.engine.league.matches import Matches
from rlrun.engine.league.ratings import Outcomes, total
from rlrun.engine.league.scripted_opponent import ScriptedPlayer
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.worlds.mapping import PolicyMapping

GAME = EnvConfig(world="rlrun.toys:TicTacToe")
ONE_POLICY = PolicyMapping(("everybody",))


def poles(number: int) -> EnvConfig:
    return EnvConfig(world="rlrun.toys:CartPoles", kwargs={"num_agents": number})


def scripted(name: str, seed: int = 0) -> ScriptedPlayer:
    return ScriptedPlayer(name, np.dtype(np.int64), (), seed)


def test_perfect_players_draw_against_each_other_and_never_lose_to_a_random_player() -> None:
    matches = Matches(GAME, ONE_POLICY, {})
    perfect = scripted("minimax")
    assert matches.play(perfect, perfect, 4, seed=0) == {"first": Outcomes(0, 2, 0), "second": Outcomes(0, 2, 0)}
    outcomes = total(matches.play(perfect, scripted("random"), 30, seed=0).values())
    assert (outcomes.games, outcomes.losses) == (30, 0)
    assert outcomes.win_rate > 0.8


def first_free(observation: dict[str, np.ndarray]) -> int:
    """Takes the first free cell; the first player wins with a diagonal or row before the other does."""
    return int(np.flatnonzero(observation["action_mask"])[0])


def test_a_player_plays_each_side_in_half_of_the_games_rounded_up() -> None:
    player = ScriptedPlayer(f"{__name__}:first_free", np.dtype(np.int64), (), 0)
    found = Matches(GAME, ONE_POLICY, {}).play(player, player, 5, seed=0)
    assert found == {"first": Outcomes(3, 0, 0), "second": Outcomes(0, 0, 3)}
    assert Matches(GAME, ONE_POLICY, {}).play(player, player, 5, seed=0, sides=("second",)) == {
        "second": Outcomes(0, 0, 5)
    }


def test_a_world_without_two_sides_is_refused(wording) -> None:
    with wording.raised(UsageError):
        Matches(poles(3), ONE_POLICY, {})
    with wording.raised(UsageError):
        Matches(poles(3), PolicyMapping(("a", "b", "c"), {"pole_0": "a", "pole_1": "b", "*": "c"}), {})


def test_the_groups_of_a_mapping_are_the_sides_regardless_of_their_size() -> None:
    mapping = PolicyMapping(("hunters", "prey"), {"pole_2": "prey", "*": "hunters"})
    matches = Matches(poles(3), mapping, {})
    assert (matches.sides_of("hunters"), matches.sides_of("prey")) == (("first",), ("second",))
    assert matches.sides_against("prey", "hunters") == ("second",)
    assert matches.sides_against("prey", "prey") == ()


def test_a_player_takes_the_sides_mapped_to_its_policy_or_to_a_seat_that_plays_it() -> None:
    seat = SeatSettings(plays_against="main", scripted={"a:B": 0.1}, checkpoints={"old:run": 0.1})
    fixed = Matches(GAME, PolicyMapping(("main", "seat"), {"x": "main", "o": "seat"}), {"seat": seat})
    assert fixed.sides_of("main") == ("first", "second")
    assert fixed.sides_of("a:B") == fixed.sides_of("old:run") == ("second",)
    assert fixed.sides_against("main", "a:B") == ("first",)
    alternating = Matches(GAME, PolicyMapping(("main", "opponent"), "rlrun.plugin:alternate"), {"opponent": seat})
    assert alternating.sides_of("a:B") == alternating.sides_of("main") == ("first", "second")


def test_a_policy_with_a_fixed_role_plays_only_against_policies_of_the_opposite_role() -> None:
    seats = {
        "first_opponent": SeatSettings(plays_against="first", selves_of=("second",)),
        "second_opponent": SeatSettings(plays_against="second", selves_of=("first",)),
    }
    names = ("first", "second", *seats)
    game = EnvConfig(world="rlrun.toys:MatrixGame", kwargs={"game": "matching_pennies"})
    matches = Matches(game, PolicyMapping(names, "rlrun.plugin:alternate_roles"), seats)
    assert (matches.sides_of("first"), matches.sides_of("second")) == (("first",), ("second",))
    assert matches.sides_against("first", "first") == ()
    assert matches.sides_against("second", "first") == ("second",)


@pytest.mark.parametrize(
    ("player", "said"),
    [
        (
            "rlrun.toys:GreedyForager",
            "does not support two-sided games: mapping: agent 'forager_12'",
        ),
        (f"{__name__}:first_move", r"4 agent episodes in 2 games: every agent must live exactly once per game"),
    ],
)
def test_a_world_in_which_agents_are_born_or_missing_is_refused(player: str, said: str) -> None:
    forager = ScriptedPlayer(player, np.dtype(np.int64), (), 0)
    world = EnvConfig(world="rlrun.toys:Foraging", kwargs={"foragers": 8, "max_foragers": 12})
    with pytest.raises(UsageError, match=said):
        Matches(world, ONE_POLICY, {}).play(forager, forager, 4, seed=0)


def first_move(observation: object) -> int:
    """Stays where it is."""
    return 0
