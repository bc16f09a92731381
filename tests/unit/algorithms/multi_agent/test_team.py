"""Fragments of agents as steps of their team: who counts, what the team gets, and when its episode ends."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.multi_agent.team import GIVEN, JoinTeams
from rlrun.engine.data.sample_batch import ACTS, WORLD_STATE, SampleBatch
from rlrun.engine.worlds.world_view import WorldView

TEAM_OF_TWO = SimpleNamespace(world=WorldView(None, 2, "parallel"))


def flags(*rows: str) -> np.ndarray:
    return np.array([[mark != "." for mark in row] for row in rows])


def fragment_with_ticks(
    acts: np.ndarray, terminateds: np.ndarray, truncateds: np.ndarray, rewards: Any = 1.0
) -> SampleBatch:
    """A fragment in which agents see 1, 2, 3, ... and the state is ten times that; empty slots hold nothing."""
    length, slots = terminateds.shape
    shown = acts.copy()
    shown[1:] |= terminateds | truncateds
    tick = 1.0 + np.arange(length + 1, dtype=np.float32)[:, None, None] + np.zeros((1, slots, 1), np.float32)
    return SampleBatch(
        obs=tick * shown[..., None],
        actions=np.ones((length, slots), np.int64),
        rewards=np.broadcast_to(np.asarray(rewards, np.float32), (length, slots)),
        terminateds=terminateds,
        truncateds=truncateds,
        valid=acts[:-1],
        **{ACTS: acts, WORLD_STATE: 10 * tick * shown[..., None]},
    )


def team_of(made: SampleBatch, reward: Any = "sum") -> SampleBatch:
    return JoinTeams(TEAM_OF_TWO, reward)((0, made))[1]


NOBODY = flags("..", "..", "..")


def test_a_row_joins_all_agent_slots_of_a_world_at_the_same_step() -> None:
    acts = np.ones((3, 4), np.bool_)
    made = fragment_with_ticks(acts, np.zeros((2, 4), np.bool_), np.zeros((2, 4), np.bool_))
    made["obs"] = np.arange(12, dtype=np.float32).reshape(3, 4, 1)
    team = team_of(made)
    assert team["obs"]["agents"].shape == (3, 2, 2, 1)
    assert team["obs"]["agents"][1, 1, :, 0].tolist() == [6.0, 7.0]
    assert team["obs"]["state"].tolist() == [[[10.0]] * 2, [[20.0]] * 2, [[30.0]] * 2]
    assert team["valid"].shape == team["rewards"].shape == (2, 2)
    assert team["actions"].shape == (2, 2, 2)
    assert not (team["terminateds"] | team["truncateds"]).any()


def test_a_member_that_died_is_absent_while_its_team_continues() -> None:
    acts = flags("xx", "xx", "x.", "x.")
    team = team_of(fragment_with_ticks(acts, flags("..", ".x", ".."), NOBODY, [[1, 2], [1, 2], [1, 0]]))
    assert team["obs"]["present"][:, 0].tolist() == [[True, True], [True, True], [True, False], [True, False]]
    assert team["obs"]["agents"][2:, 0, 1].tolist() == [[0.0], [0.0]]
    assert team["actions"][:, 0].tolist() == [[1, 1], [1, 1], [1, 0]]
    assert team["rewards"][:, 0].tolist() == [3, 3, 1]
    assert team["valid"].all()
    assert not team["terminateds"].any()


def test_the_world_state_is_recorded_whichever_members_are_left() -> None:
    team = team_of(fragment_with_ticks(flags("xx", "xx", ".x", ".x"), flags("..", "x.", ".."), NOBODY))
    assert team["obs"]["state"][:, 0, 0].tolist() == [10.0, 20.0, 30.0, 40.0]


def test_the_teams_episode_ends_with_its_last_member() -> None:
    team = team_of(fragment_with_ticks(flags("xx", "x.", "..", "xx"), flags(".x", "x.", ".."), NOBODY))
    assert team["valid"][:, 0].tolist() == [True, True, False]
    assert team["terminateds"][:, 0].tolist() == [False, True, False]
    assert not team["truncateds"].any()
    assert not team["obs"]["present"][2].any()


def test_a_teams_termination_in_the_last_row_is_detected() -> None:
    team = team_of(fragment_with_ticks(flags("xx", "xx", "xx", ".."), flags("..", "..", "xx"), NOBODY))
    assert team["terminateds"][:, 0].tolist() == [False, False, True]


def test_a_truncated_team_keeps_the_final_observations_of_its_living_members() -> None:
    acts = flags("xx", "xx", "..", "xx")
    team = team_of(fragment_with_ticks(acts, flags("..", "x.", ".."), flags("..", ".x", "..")))
    assert team["truncateds"][:, 0].tolist() == [False, True, False]
    assert not team["terminateds"].any()
    assert team["obs"]["present"][2, 0].tolist() == [False, True]
    assert team["obs"]["agents"][2, 0].tolist() == [[0.0], [3.0]]
    assert team["obs"]["state"][2, 0].tolist() == [30.0]


def test_the_closing_row_of_a_truncated_team_is_the_first_row_of_the_next_fragment() -> None:
    team = JoinTeams(TEAM_OF_TWO, "sum")
    _, before = team((3, fragment_with_ticks(flags("xx", "xx", ".."), NOBODY[:2], flags("..", ".x"))))
    resumed = JoinTeams(TEAM_OF_TWO, "sum")
    resumed.load_state(team.state())
    for own in (team, resumed):
        _, after = own((3, fragment_with_ticks(flags("..", "xx", "xx"), NOBODY[:2], NOBODY[:2])))
        np.testing.assert_array_equal(before["obs"]["present"][-1], after["obs"]["present"][0])
        assert not after["valid"][0].any()


@pytest.mark.parametrize(("reward", "expected"), [("sum", [10.0, 5.0]), ("once", [5.0, 5.0])])
def test_a_teams_reward_is_either_summed_over_its_members_or_counted_once(reward: str, expected: list[float]) -> None:
    made = fragment_with_ticks(flags("xx", "x.", "x."), flags(".x", ".."), NOBODY[:2], [[5, 5], [5, 0]])
    assert team_of(made, reward)["rewards"][:, 0].tolist() == expected


def test_each_members_reward_is_shown_in_the_row_after_the_step_that_earned_it() -> None:
    made = fragment_with_ticks(flags("xx", "xx", "x."), flags("..", ".x"), NOBODY[:2], [[1, 2], [3, 4]])
    team = JoinTeams(TEAM_OF_TWO, "sum", shows_given=True)
    _, before = team((0, made))
    assert before["obs"][GIVEN][:, 0].tolist() == [[0, 0], [1, 2], [3, 4]]
    resumed = JoinTeams(TEAM_OF_TWO, "sum", shows_given=True)
    resumed.load_state(team.state())
    for own in (team, resumed):
        _, after = own((0, made))
        assert after["obs"][GIVEN][0, 0].tolist() == [3, 4]
