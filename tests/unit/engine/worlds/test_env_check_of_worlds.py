"""Findings for a world stepped at random, if it is correct and if it does one thing wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import EnvFinding
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.env_check import check_by_stepping
from rlrun.engine.worlds.make import kinds_of_agents
from rlrun.engine.worlds.world import World, WorldStep


class Walks(World):
    """Two walkers and a guest who joins for steps 2 to 4, in episodes of 8 steps; a name selects what is wrong."""

    def __init__(self, fault: str = "", agents: int = 3) -> None:
        self.fault = fault
        self.possible_agents = [*(f"walker_{number}" for number in range(agents)), "guest"]
        self.own = np.random.default_rng()

    def spaces(self, agent: str) -> Spaces:
        if agent == "guest":
            seen = Dict({"place": Box(-np.inf, np.inf, (1,)), "action_mask": MultiBinary(3)})
            return Spaces(seen, Discrete(3))
        return Spaces(Box(-np.inf, np.inf, (1,)), Discrete(2))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.draws = self.own if self.fault == "noise" else np.random.default_rng(seed)
        self.taken = 0
        self.places = {agent: float(self.draws.normal()) for agent in self.possible_agents}
        return {agent: self.seen(agent) for agent in ("walker_0", "walker_1")}

    def seen(self, agent: str) -> Any:
        place = np.array([1000.0 * self.places[agent] if self.fault == "far" else self.places[agent]], np.float32)
        if agent != "guest":
            return place
        mask = np.zeros(3) if self.fault == "mask" else np.array([1, 0, 1])
        return {"place": place, "action_mask": mask.astype(np.int8)}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.taken += 1
        for agent, action in actions.items():
            self.places[agent] += action + (float(self.own.normal()) if self.fault == "late noise" else 0.0)
        shown = {agent: self.seen(agent) for agent in actions}
        rewards = {agent: 100.0 if self.fault == "large" else self.places[agent] for agent in actions}
        if self.fault == "reward noise":
            rewards = {agent: reward + float(self.own.normal()) for agent, reward in rewards.items()}
        ends: dict[str, bool] = {}
        if self.taken == 1:
            shown["guest"] = self.seen("guest")
        if self.taken == 4:
            ends["guest"] = True
            if self.fault == "no final":
                return WorldStep({k: v for k, v in shown.items() if k != "guest"}, rewards, {}, ends, {}, False)
        if self.taken == 6 and self.fault == "NaN reward":
            rewards["walker_0"] = float("nan")
        if self.taken == 6 and self.fault == "late reward":
            rewards["guest"] = 1.0
        if self.taken == 6 and self.fault == "stranger":
            ends["walker_2"] = True
        over = self.taken == 8
        if over and self.fault != "left":
            ends |= dict.fromkeys(("walker_0", "walker_1"), True)
        return WorldStep(shown, rewards, ends, ends if self.fault == "both" else {}, {}, over)


def findings(fault: str, **more: Any) -> list[EnvFinding]:
    config = EnvConfig(world=f"{__name__}:Walks", kwargs={"fault": fault, **more})
    return check_by_stepping(config, kinds_of_agents(config), {}, steps=60)


def not_ok(fault: str, **more: Any) -> dict[str, str]:
    """Returns the verdicts for a world with a fault, by topic, without those that are ok."""
    return {one.topic: one.verdict for one in findings(fault, **more) if one.verdict != "ok"}


def test_agents_with_equal_spaces_count_as_one_kind() -> None:
    mapping = kinds_of_agents(EnvConfig(world=f"{__name__}:Walks"))
    assert mapping.policies == ("walker", "guest")
    assert (mapping.policy_of("walker_17", 0), mapping.policy_of("guest", 0)) == ("walker", "guest")
    arrays = kinds_of_agents(EnvConfig(world="rlrun.toys:CartPoleArrays"))
    assert arrays.policies == ("pole",)


def test_a_correct_world_is_reported_with_its_statistics(wording) -> None:
    assert not_ok("") == {}
    found = {one.topic: one.found for one in findings("")}
    assert found["clock"] == "parallel"
    assert found["episodes"] == wording()
    assert found["walker: lives"] == wording("12")
    assert found["guest: lives"] == wording()
    assert found["guest: action masks"] == wording("67%")
    assert found["births and ends"] == wording("24", "22")  # in 7 episodes and 4 steps of an eighth
    assert found["seeds"] == wording()
    assert found["resume"].endswith("exactly")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("noise", {"seeds": "wrong", "resume": "wrong"}),
        ("late noise", {"seeds": "wrong", "resume": "wrong"}),
        ("reward noise", {"seeds": "wrong"}),
        ("far", {"walker: observations": "note", "guest: observations": "note"}),
        ("large", {"walker: rewards": "note", "guest: rewards": "note"}),
        ("late reward", {"births and ends": "note"}),
        ("stranger", {"births and ends": "note"}),
        ("left", {"births and ends": "note"}),
        ("both", {"births and ends": "note"}),
    ],
)
def test_each_defect_of_a_world_is_found(fault: str, expected: dict[str, str]) -> None:
    assert not_ok(fault) == expected


def test_unused_slots_are_reported_with_the_number_of_slots_needed(wording) -> None:
    (told,) = (one for one in findings("", agents=7) if one.verdict == "note")
    assert (told.topic, told.found) == ("walker: slots", wording())
    assert "policies.walker.slots: 3" in told.advice


def test_agents_that_end_without_a_final_observation_are_counted_in_a_finding(wording) -> None:
    told = {one.topic: one for one in findings("no final")}["final observations"]
    assert (told.verdict, told.found) == ("note", wording())


def test_an_empty_action_mask_in_the_first_observation_is_the_only_finding() -> None:
    assert not_ok("mask") == {"returns": "wrong"}


def test_an_invalid_return_value_has_the_verdict_wrong_but_does_not_hide_other_findings(wording) -> None:
    found = {one.topic: one for one in findings("NaN reward")}
    assert found["returns"].verdict == "wrong"
    assert found["returns"].found == wording("walker_0")
    assert [topic for topic, one in found.items() if one.verdict == "note"] == ["walker: lives"]  # no life has ended
    assert found["seeds"].found == wording()


def test_an_array_world_can_be_checked_by_stepping() -> None:
    config = EnvConfig(world="rlrun.toys:CartPoleArrays")
    found = check_by_stepping(config, kinds_of_agents(config), {}, steps=60)
    assert {one.verdict for one in found} == {"ok"}
    assert next(one.found for one in found if one.topic == "resume").endswith("exactly")
