"""What a running world shows to a thread that looks at it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.engine.envs.env_watch import waits_for
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.worlds import running_world
from rlrun.engine.worlds.loop_worlds import LoopWorlds
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.running_world import EarlyRewards
from rlrun.engine.worlds.world import World, WorldStep

SPACES = Spaces(Box(-1, 1, (1,)), Discrete(2))


class Watched(World):
    """Looks at its own thread from inside, like the watch that finds it hung."""

    possible_agents = ("a",)

    def __init__(self) -> None:
        self.told: list[str] = []

    def spaces(self, agent: str) -> Spaces:
        return SPACES

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.told.append(waits_for(sys._getframe()))
        return {"a": np.zeros(1, np.float32)}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        return WorldStep(self.reset(0), {}, {}, {}, {}, ended=False)


def test_a_hanging_world_is_named_with_its_episode_and_step() -> None:
    worlds, seeds = [Watched(), Watched()], EpisodeSeeds(0, worker_index=3)
    vector = LoopWorlds("x:y", worlds, seeds, PolicyMapping(["p"]), {"p": ("a", SPACES)}, {"p": 1})
    vector.reset()
    vector.step({"p": np.zeros(2, int)})
    vector.step({"p": np.zeros(2, int)})
    where = f"worker 3, world 1, episode 0 with seed {seeds.seed(1, 0)}, step"
    assert worlds[1].told == [f"{where} {step}" for step in (0, 1, 2)]


def test_a_thread_that_is_not_calling_a_world_is_not_reported_as_waiting_for_one() -> None:
    assert waits_for(sys._getframe()) == ""


class Scripted(World):
    """Two agents in episodes of four steps; the second step differs from the defaults.

    Args:
        second: Parts of the second step.
    """

    possible_agents = ("runner_0", "runner_1")

    def __init__(self, **second: Any) -> None:
        self.second, self.taken = second, 0

    def spaces(self, agent: str) -> Spaces:
        return SPACES

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.taken = 0
        return {agent: np.zeros(1, np.float32) for agent in self.possible_agents}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.taken += 1
        seen = {agent: np.zeros(1, np.float32) for agent in self.possible_agents}
        step = WorldStep(seen, dict.fromkeys(seen, 1.0), {}, {}, {}, ended=self.taken == 4)
        return step._replace(**self.second) if self.taken == 2 else step


def stepped(world: World, steps: int) -> LoopWorlds:
    spaces = {"p": ("runner_0", SPACES)}
    vector = LoopWorlds("x:y", [world], EpisodeSeeds(0, worker_index=3), PolicyMapping(["p"]), spaces, {"p": 3})
    vector.reset()
    for _ in range(steps):
        vector.step({"p": np.zeros(3, int)})
    return vector


@pytest.mark.parametrize(
    ("second", "agent", "said"),
    [
        ({"rewards": {"runner_1": "1.5"}}, "runner_1", "the reward must be a number, not '1.5'"),
        ({"terminateds": {"runner_0": "yes"}}, "runner_0", "terminateds must contain True or False, not 'yes'"),
        ({"truncateds": {"runner_0": float("nan")}}, "runner_0", "truncateds must contain True or False, not nan"),
        ({"ended": "no"}, "", "ended must be True or False, not 'no'"),
    ],
)
def test_rewards_and_end_flags_of_wrong_types_are_refused_at_later_steps_too(
    second: dict[str, Any], agent: str, said: str, wording
) -> None:
    whose = f", agent '{agent}'" if agent else ""
    with wording.raised(EnvError, whose, said):
        stepped(Scripted(**second), 2)


def test_a_reward_for_an_id_that_belongs_to_no_agent_is_refused_when_the_episode_ends() -> None:
    world = Scripted(rewards={"runer_1": 1.0})
    stepped(world, 3)
    told = r"step 4, agent 'runer_1'\): it received a reward, but .* this id; did you mean 'runner_1'\?"
    with pytest.raises(EnvError, match=told):
        stepped(world, 4)


def test_rewards_are_accepted_for_known_agents_and_for_agents_that_appear_later() -> None:
    class Born(Scripted):
        def step(self, actions: Mapping[str, Any]) -> WorldStep:
            step = super().step(actions)
            seen = {"late": np.zeros(1, np.float32)} if self.taken >= 3 else {}
            late = {"late": 1.0} if self.taken == 2 else {}
            last = {"last": 1.0} if self.taken == 4 else {}  # comes with the agent's only observation
            shown = {**step.observations, **seen, **{agent: np.zeros(1, np.float32) for agent in last}}
            return step._replace(observations=shown, rewards={**step.rewards, **late, **last})

    stepped(Born(), 5)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_rewards_whose_sum_over_agents_overflows_are_accepted() -> None:
    vector = stepped(Scripted(rewards={"runner_0": 1e308, "runner_1": 1e308}), 1)
    assert vector.step({"p": np.zeros(3, int)}).policies["p"].rewards.tolist() == [1e308, 1e308, 0.0]


def test_an_agent_gets_the_sum_of_its_earlier_rewards_once_when_it_appears() -> None:
    early = EarlyRewards()
    assert [early.keep_or_drop("a", reward) for reward in (1.0, 2.5)] == [0, 0]
    assert early.take("a") == 3.5
    assert early.take("a") == 0.0


def test_rewards_of_ended_agents_are_dropped_at_once_and_unclaimed_rewards_when_the_episode_ends() -> None:
    early = EarlyRewards()
    early.ended["a"] = None
    assert early.keep_or_drop("a", 1.0) == 1
    for agent in ("b", "b", "c"):
        early.keep_or_drop(agent, 1.0)
    assert early.drop() == 3
    assert (early.rewards, early.drop()) == ({}, 0)


def test_only_the_latest_ended_agents_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_world, "MOST_ENDED", 2)
    early = EarlyRewards()
    early.ended.update(dict.fromkeys("abc"))
    early.forget_oldest()
    assert list(early.ended) == ["b", "c"]
