"""Wrappers change what they say they change, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.engine.worlds.wrappers import AgentIndicator, BlackDeath, PadSpaces, Team
from rlrun.toys.board_games import TicTacToe
from rlrun.toys.cartpoles import CartPoles
from rlrun.toys.foraging import Foraging
from rlrun.toys.matrix_games import MatrixGame, TwoStepGame

WIDTHS = {"small": 2, "large": 3}


class Countdown(World):
    """Small and large agents, shown how often each has acted; `small` dies in step 2, the world is truncated in step 4.

    Rewards are the actions.
    """

    possible_agents = ("small", "large")

    def spaces(self, agent: str) -> Spaces:
        width = WIDTHS[agent]
        return Spaces(Box(0.0, 9.0, (width,)), Discrete(width))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.steps = 0
        self.living = ["small", "large"]
        return self.shown()

    def shown(self) -> dict[str, Any]:
        return {agent: np.full(WIDTHS[agent], self.steps, np.float32) for agent in self.living}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        assert sorted(actions) == sorted(self.living)
        self.steps += 1
        shown, rewards = self.shown(), {agent: float(action) for agent, action in actions.items()}
        if self.steps == 2:
            self.living = ["large"]
            return WorldStep(shown, rewards, {"small": True}, {}, {"small": {"score": 5}}, False)
        return WorldStep(shown, rewards, {}, {}, {}, self.steps == 4)


def test_agent_indicator_appends_a_one_hot_code_of_the_agent_to_a_box_observation() -> None:
    world = AgentIndicator(TwoStepGame())
    shown = world.reset(0)
    np.testing.assert_array_equal(shown["agent_0"], [1, 0, 0, 1, 0])
    np.testing.assert_array_equal(shown["agent_1"], [1, 0, 0, 0, 1])
    step = world.step({"agent_0": 1, "agent_1": 0})
    np.testing.assert_array_equal(step.observations["agent_1"], [0, 0, 1, 0, 1])
    for agent, seen in shown.items():
        assert world.spaces(agent).observation.contains(seen)
    np.testing.assert_array_equal(world.state(), [0, 0, 1])


def test_agent_indicator_adds_a_one_hot_code_of_the_agent_to_a_dict_or_zeros_for_unknown_agents() -> None:
    world = AgentIndicator(Foraging(foragers=2, max_foragers=2))
    shown = world.reset(0)
    np.testing.assert_array_equal(shown["forager_1"]["agent"], [0, 1])
    assert world.spaces("forager_1").observation.contains(shown["forager_1"])
    assert world.spaces("forager_17").observation == world.spaces("forager_1").observation
    np.testing.assert_array_equal(world.shown("forager_17", shown["forager_1"])["agent"], [0, 0])


def test_padded_agents_have_equal_spaces_and_a_mask_of_their_own_actions() -> None:
    world = PadSpaces(Countdown())
    assert world.spaces("small") == world.spaces("large")
    shown = world.reset(0)
    assert shown["small"]["action_mask"].tolist() == [1, 1, 0]
    assert shown["large"]["action_mask"].tolist() == [1, 1, 1]
    step = world.step({"small": 1, "large": 2})
    assert step.observations["small"]["observation"].tolist() == [1, 1, 0]
    assert step.observations["large"]["observation"].tolist() == [1, 1, 1]
    assert step.rewards == {"small": 1.0, "large": 2.0}
    for agent, seen in shown.items():
        assert world.spaces(agent).observation.contains(seen)


def test_padding_adds_no_mask_to_agents_with_the_same_actions() -> None:
    world = PadSpaces(CartPoles())
    assert world.spaces("pole_0") == CartPoles().spaces("pole_0")
    np.testing.assert_array_equal(world.reset(1)["pole_1"], CartPoles().reset(1)["pole_1"])


def test_dict_observations_are_padded_key_by_key() -> None:
    world, plain = PadSpaces(Foraging(hunters=1)), Foraging(hunters=1)
    shown, expected = world.reset(0), plain.reset(0)
    assert world.spaces("forager_0") == world.spaces("hunter_0")
    assert world.spaces("forager_0").observation.contains(shown["forager_0"])
    window = np.zeros((9, 9))
    window[:7, :7] = expected["forager_0"]["window"]
    np.testing.assert_array_equal(shown["forager_0"]["window"], window)
    np.testing.assert_array_equal(shown["hunter_0"]["window"], expected["hunter_0"]["window"])
    assert shown["forager_0"]["action_mask"].tolist() == [1] * 5 + [0] * 4


def test_padding_keeps_the_restrictions_of_an_existing_action_mask() -> None:
    world = PadSpaces(TicTacToe())
    world.reset(0)
    step = world.step({"x": 4})
    assert step.observations["o"]["action_mask"].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1]
    assert world.spaces("x") == TicTacToe().spaces("x")


class Pushes(World):
    """Two agents whose actions are Boxes of different widths; keeps what it was given."""

    possible_agents = ("small", "large")

    def __init__(self, *, top: float = 2.0) -> None:
        self.own_spaces = {
            "small": Spaces(Box(0.0, 9.0, (2,)), Box(np.float32([0, -1]), np.float32([1, top]))),
            "large": Spaces(Box(0.0, 9.0, (3,)), Box(np.float32([0, -1, 4]), np.float32([1, 2, 8]))),
        }

    def spaces(self, agent: str) -> Spaces:
        return self.own_spaces[agent]

    def reset(self, seed: int) -> Mapping[str, Any]:
        return {agent: np.ones(WIDTHS[agent], np.float32) for agent in self.possible_agents}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.given = actions
        return WorldStep(self.reset(0), {}, {}, {}, {}, False)


def test_box_actions_are_padded_and_the_world_receives_each_agents_own_part() -> None:
    world = PadSpaces(Pushes())
    action = Box(np.float32([0, -1, 4]), np.float32([1, 2, 8]))
    assert world.spaces("small") == world.spaces("large") == Spaces(Box(0.0, 9.0, (3,)), action)
    assert world.reset(0)["small"].tolist() == [1, 1, 0]
    world.step({"small": np.float32([0.5, 1, 7]), "large": np.float32([0.25, -1, 6])})
    inner = world.world
    assert isinstance(inner, Pushes)
    assert {agent: action.tolist() for agent, action in inner.given.items()} == {
        "small": [0.5, 1],
        "large": [0.25, -1, 6],
    }


def test_padding_actions_of_different_kinds_or_bounds_is_refused(wording) -> None:
    with wording.raised(EnvironmentUnusable):
        PadSpaces(Pushes(top=3.0))
    mixed = Pushes()
    mixed.own_spaces["small"] = Spaces(Box(0.0, 9.0, (2,)), Discrete(2))
    with wording.raised(EnvironmentUnusable):
        PadSpaces(mixed)


def test_black_death_shows_zeros_to_dead_agents_until_the_world_ends() -> None:
    world = BlackDeath(Countdown())
    world.reset(0)
    world.step({"small": 1, "large": 2})
    death = world.step({"small": 1, "large": 2})
    assert death.rewards == {"small": 1.0, "large": 2.0}
    assert (death.terminateds, death.truncateds, death.infos) == ({}, {}, {})
    assert death.observations["small"].tolist() == [0, 0]
    assert death.observations["large"].tolist() == [2, 2, 2]
    after = world.step({"small": 1, "large": 2})
    assert after.rewards == {"large": 2.0}
    assert after.observations["small"].tolist() == [0, 0]
    last = world.step({"small": 0, "large": 0})
    assert last.ended
    assert (last.terminateds, last.truncateds) == ({"small": True}, {"large": True})
    assert last.infos == {"small": {"score": 5}}
    assert last.observations["large"].tolist() == [4, 4, 4]


def test_black_death_ends_all_agents_when_the_last_one_ends() -> None:
    world, lengths = BlackDeath(CartPoles(3)), dict.fromkeys(CartPoles(3).possible_agents, 0.0)
    world.reset(2)
    while True:
        step = world.step(dict.fromkeys(lengths, 1))
        for agent, reward in step.rewards.items():
            lengths[agent] += reward
        assert set(step.observations) == set(lengths)
        if step.ended:
            break
        assert not step.terminateds
    assert step.terminateds == dict.fromkeys(lengths, True)
    assert len(set(lengths.values())) > 1


def test_black_death_refuses_agents_missing_from_possible_agents() -> None:
    world = BlackDeath(Foraging(size=4, foragers=3, max_foragers=4, food=16, growth=16))
    world.reset(0)

    def stay_until_somebody_is_born() -> None:
        for _ in range(80):
            world.step(dict.fromkeys(world.possible_agents, 0))

    with pytest.raises(ValueError, match="not forager_4"):
        stay_until_somebody_is_born()


def test_a_team_observes_and_acts_as_all_its_members_together() -> None:
    world = Team(TwoStepGame(), "team", ("agent_0", "agent_1"), reward="once")
    assert world.possible_agents == ["team"]
    shown = world.reset(0)
    assert world.spaces("team").observation.contains(shown["team"])
    step = world.step({"team": (1, 0)})
    assert (step.rewards, step.ended) == ({"team": 0.0}, False)
    assert [seen.tolist() for seen in step.observations["team"]] == [[0, 0, 1]] * 2
    step = world.step({"team": (1, 1)})
    assert step.rewards == {"team": 8.0}
    assert step.terminateds == {"team": True}
    assert step.ended


def test_the_reward_of_a_team_is_the_sum_of_its_members_rewards() -> None:
    world = Team(MatrixGame("prisoners_dilemma"), "team", ("agent_0", "agent_1"))
    world.reset(0)
    assert world.step({"team": (0, 1)}).rewards == {"team": -3.0}


def test_a_team_reward_counted_once_is_refused_if_members_get_different_rewards(wording) -> None:
    world = Team(MatrixGame("prisoners_dilemma"), "team", ("agent_0", "agent_1"), reward="once")
    world.reset(0)
    with wording.raised(ValueError, "-3.0", "0.0"):
        world.step({"team": (0, 1)})


def test_a_team_lives_as_long_as_any_member_and_is_truncated_with_the_last_members() -> None:
    world = Team(Countdown(), "team", ("small", "large"))
    world.reset(0)
    steps = [world.step({"team": (1, 2)}) for _ in range(4)]
    assert [step.rewards["team"] for step in steps] == [3.0, 3.0, 2.0, 2.0]
    assert [[seen.tolist() for seen in step.observations["team"]] for step in steps] == [
        [[1, 1], [1, 1, 1]],
        [[0, 0], [2, 2, 2]],
        [[0, 0], [3, 3, 3]],
        [[0, 0], [4, 4, 4]],
    ]
    assert [step.terminateds for step in steps] == [{}] * 4
    assert [step.truncateds for step in steps] == [{}] * 3 + [{"team": True}]


def test_agents_outside_the_team_are_unchanged() -> None:
    world, plain = Team(CartPoles(3), "team", ("pole_0", "pole_2")), CartPoles(3)
    shown, expected = world.reset(4), plain.reset(4)
    assert world.possible_agents == ["pole_1", "team"]
    assert set(shown) == {"pole_1", "team"}
    np.testing.assert_array_equal(shown["pole_1"], expected["pole_1"])
    one, other = world.step({"pole_1": 1, "team": (0, 1)}), plain.step({"pole_0": 0, "pole_1": 1, "pole_2": 1})
    np.testing.assert_array_equal(one.observations["pole_1"], other.observations["pole_1"])
    np.testing.assert_array_equal(one.observations["team"][1], other.observations["pole_2"])
    assert one.rewards == {"pole_1": 1.0, "team": 2.0}


def test_black_death_and_teams_refuse_turn_based_worlds_and_teams_refuse_unknown_agents(wording) -> None:
    with wording.raised(EnvironmentUnusable):
        BlackDeath(TicTacToe())
    with wording.raised(EnvironmentUnusable):
        Team(TicTacToe(), "team", ("x", "o"))
    with wording.raised(EnvironmentUnusable, "pole_9"):
        Team(CartPoles(), "team", ("pole_0", "pole_9"))
