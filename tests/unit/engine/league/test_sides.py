"""Mappings that swap sides."""

from rlrun.engine.league.sides import alternate, alternate_with_exploiter


def test_the_policies_swap_sides_from_episode_to_episode() -> None:
    for pair in (("x", "o"), ("red", "yellow"), ("player_0", "player_1")):
        assert [alternate(agent, 0) for agent in pair] == ["main", "opponent"]
        assert [alternate(agent, 1) for agent in pair] == ["opponent", "main"]


def test_main_and_exploiter_each_play_both_sides_in_four_episodes() -> None:
    seats = [tuple(alternate_with_exploiter(agent, episode) for agent in ("x", "o")) for episode in range(4)]
    assert seats == [("main", "opponent"), ("opponent", "main"), ("exploiter", "exploited"), ("exploited", "exploiter")]
