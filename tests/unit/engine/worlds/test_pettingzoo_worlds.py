"""PettingZoo's envs as worlds, compared with their own interface in the same episode."""

from __future__ import annotations

import importlib
from collections import defaultdict
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from pettingzoo import AECEnv, ParallelEnv

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.worlds.loop_worlds import LoopWorlds
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.make_worlds import make_world
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.pettingzoo_worlds import ParallelWorld, TurnBasedWorld

pytestmark = pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")

SEEDS = EpisodeSeeds(3, worker_index=1)


def chosen(observation: Any, width: int) -> int:
    """Returns an action that depends on the observation and is allowed by its mask, if it has one."""
    if isinstance(observation, dict):
        allowed = np.flatnonzero(observation["action_mask"])
        return int(allowed[int(np.abs(observation["observation"]).sum()) * 7 % len(allowed)])
    return int(np.abs(observation).sum() * 1000) % width


def test_an_episode_of_simple_spread_matches_its_parallel_env() -> None:
    config = EnvConfig(pettingzoo="mpe2.simple_spread_v3", kwargs={"max_cycles": 6})
    worlds = make_vector_world(config, 2, SEEDS, PolicyMapping(["p"]), {}, with_states=True)
    assert (worlds.clock, worlds.slots) == ("parallel", {"p": 6})
    rows = worlds.reset()
    env = importlib.import_module("mpe2.simple_spread_v3").parallel_env(max_cycles=6)
    env.reset(seed=1)  # worlds are reset once to read their agents
    observations, _ = env.reset(seed=SEEDS.seed(1, 0))
    for t in range(6):
        slots = rows.policies["p"]
        assert worlds.owners("p")[3:] == list(observations)
        assert (slots.observations[3:] == np.stack(list(observations.values()))).all()
        assert rows.states is not None
        assert (rows.states[1] == env.state()).all()
        assert slots.acts.all()
        actions = np.array([chosen(observation, 5) for observation in slots.observations])
        observations, rewards, _, _, _ = env.step(dict(zip(observations, actions[3:], strict=True)))
        rows = worlds.step({"p": actions})
        assert rows.policies["p"].rewards[3:].tolist() == list(rewards.values())
        assert rows.ended.tolist() == [t == 5] * 2
    assert rows.policies["p"].truncateds.all()
    assert not rows.policies["p"].acts.any()
    assert rows.missing_finals == 0
    assert (rows.policies["p"].observations[3:] == np.stack(list(observations.values()))).all()


def episode_by_last(env: Any, seed: int) -> dict[str, list[tuple[str, float, bool, bool]]]:
    """Returns for each agent what `last()` shows at each of its turns: observation, reward since then, ends."""
    env.reset(seed=seed)
    turns = defaultdict(list)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        turns[agent].append((repr(observation), float(reward), bool(terminated), bool(truncated)))
        env.step(None if terminated or truncated else chosen(observation, env.action_space(agent).n))
    return turns


def episode_by_world(world: TurnBasedWorld, seed: int) -> dict[str, list[tuple[str, float, bool, bool]]]:
    """Returns the same for a world; rewards are summed from one turn of an agent to its next."""
    shown = world.reset(seed)
    turns, rewards = defaultdict(list), defaultdict(float)
    terminateds: Any = {}
    truncateds: Any = {}
    ended = False
    while True:
        acting = {}
        for agent, observation in shown.items():
            over = bool(terminateds.get(agent)), bool(truncateds.get(agent))
            turns[agent].append((repr(observation), rewards.pop(agent, 0.0), *over))
            if not any(over):
                acting[agent] = chosen(observation, world.spaces(agent).action.n)
        if ended:
            return turns
        shown, given, terminateds, truncateds, _, ended = world.step(acting)
        for agent, reward in given.items():
            rewards[agent] += reward


CLASSIC = ["tictactoe_v3", "connect_four_v3", "rps_v2"]


@pytest.mark.parametrize("name", CLASSIC)
def test_turns_of_a_classic_game_match_the_results_of_its_last_method(name: str) -> None:
    module = importlib.import_module(f"pettingzoo.classic.{name}")
    turns = episode_by_world(TurnBasedWorld(module.env()), 5)
    assert turns == episode_by_last(module.env(), 5)
    assert all(len(of_agent) > 1 for of_agent in turns.values())


def test_an_mpe_env_played_turn_by_turn_gives_the_same_episode_as_calls_to_last() -> None:
    module = importlib.import_module("mpe2.simple_adversary_v3")
    assert episode_by_world(TurnBasedWorld(module.env(max_cycles=4)), 5) == episode_by_last(module.env(max_cycles=4), 5)


def test_a_game_of_tictactoe_ends_for_both_players_at_once() -> None:
    config = EnvConfig(pettingzoo="pettingzoo.classic.tictactoe_v3")
    worlds = make_vector_world(config, 1, SEEDS, PolicyMapping(["p"]), {})
    assert worlds.clock == "per_agent"
    rows = worlds.reset()
    for action in (0, 3, 1, 4, 2):
        slots = rows.policies["p"]
        assert slots.acts.sum() == 1
        assert slots.observations["action_mask"][slots.acts][0, action] == 1
        rows = worlds.step({"p": np.full(2, action)})
    assert rows.ended.tolist() == [True]
    assert rows.policies["p"].rewards.tolist() == [1, -1]
    assert rows.policies["p"].terminateds.tolist() == [True, True]
    assert rows.policies["p"].observations["observation"][0].sum() == 5
    assert rows.missing_finals == 0
    assert not worlds.step({"p": np.zeros(2, int)}).stepped.any()


def test_a_turn_based_game_is_restored_by_replay() -> None:
    config = EnvConfig(pettingzoo="pettingzoo.classic.connect_four_v3")
    worlds, again = (make_vector_world(config, 1, SEEDS, PolicyMapping(["p"]), {}) for _ in range(2))
    worlds.reset()
    moves = np.array([[3, 0], [0, 3], [4, 0], [0, 4]])
    for move in moves:
        worlds.step({"p": move})
    _, exact = again.restore(worlds.places(), [{"p": moves}], worlds.hashes(), 60.0)
    assert exact == [True]


class MaskedInfos(ParallelEnv[str, Any, Any]):
    """Two agents with masks in their infos and a third whose actions are real numbers; the last mask is missing."""

    metadata: dict[str, Any] = {}  # noqa: RUF012
    possible_agents = ["x", "y", "real"]  # noqa: RUF012

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        return Box(-1, 1, (1,))

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        return Box(-1, 1, (1,)) if agent == "real" else Discrete(3)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents = self.possible_agents[:]
        self.t = 0
        return self._observations(), {agent: {"action_mask": [1, 0, 1]} for agent in ("x", "y")} | {"real": {}}

    def step(self, actions: dict[str, Any]) -> Any:
        self.t += 1
        everyone = dict.fromkeys(self.agents, False)
        ended = dict.fromkeys(self.agents, True)
        # The env keeps listing its agents, although all of them have ended.
        return self._observations(), dict.fromkeys(self.agents, 1.0), everyone, ended, {}

    def _observations(self) -> dict[str, Any]:
        return {agent: np.zeros(1, np.float32) for agent in self.agents}


def test_action_masks_in_infos_become_part_of_the_observation() -> None:
    world = ParallelWorld(MaskedInfos())
    observation, action = world.spaces("x")
    assert isinstance(observation, Dict)
    assert list(observation) == ["action_mask", "observation"]
    assert observation["action_mask"].shape == (3,)
    assert action == Discrete(3)
    assert world.spaces("real").observation == Box(-1, 1, (1,))
    shown = world.reset(0)
    assert shown["x"]["action_mask"].tolist() == [1, 0, 1]
    assert shown["real"].tolist() == [0]


class MaskedPairs(MaskedInfos):
    """The same with actions of several parts, one of which is a masked choice among three."""

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        return Tuple([super().action_space(agent), Box(-1, 1, (2,))])


def test_action_masks_in_infos_work_with_nested_actions() -> None:
    world = ParallelWorld(MaskedPairs())
    assert world.spaces("real").observation == Box(-1, 1, (1,))
    shown = world.reset(0)
    assert shown["x"]["action_mask"].tolist() == [1, 0, 1]


def test_an_info_without_a_mask_allows_all_actions_and_a_world_without_agents_has_ended() -> None:
    world = ParallelWorld(MaskedInfos())
    world.reset(0)
    step = world.step({"x": 0, "y": 2, "real": np.zeros(1)})
    assert step.observations["y"]["action_mask"].tolist() == [1, 1, 1]
    assert step.ended


class BlackDeath(ParallelEnv[str, Any, Any]):
    """An agent that dies in the first step and continues with zeros, as with SuperSuit's black_death."""

    metadata: dict[str, Any] = {}  # noqa: RUF012
    possible_agents = ["x", "y"]  # noqa: RUF012

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        return Box(-1, 1, (1,))

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        return Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents, self.t = ["x", "y"], 0
        return {agent: np.ones(1, np.float32) for agent in self.agents}, {"x": {}, "y": {}}

    def step(self, actions: dict[str, Any]) -> Any:
        self.t += 1
        seen = {"x": np.ones(1, np.float32), "y": np.zeros(1, np.float32)}
        over = dict.fromkeys(self.agents, self.t == 3)
        names = self.agents
        self.agents = [] if self.t == 3 else names
        return seen, {"x": 1.0, "y": 0.0}, over, dict.fromkeys(names, False), {"x": {}, "y": {}}


def test_a_dead_agent_that_is_shown_zeros_keeps_its_slot_until_the_episode_ends() -> None:
    world = ParallelWorld(BlackDeath())
    worlds = LoopWorlds("b:d", [world], SEEDS, PolicyMapping(["p"]), {"p": ("x", world.spaces("x"))}, {"p": 2})
    worlds.reset()
    for t in range(3):
        rows = worlds.step({"p": np.zeros(2, int)})
        assert rows.policies["p"].acts.all() == (t < 2)
    assert rows.policies["p"].terminateds.tolist() == [True, True]
    assert rows.policies["p"].observations.tolist() == [[1], [0]]


class Staggered(AECEnv[str, Any, Any]):
    """Three players; a move costs the others 1 each. The second dies by the first one's second move, which it is
    told at its own turn; at the third one's second move all are cut off."""

    metadata: dict[str, Any] = {}  # noqa: RUF012
    possible_agents = ["p0", "p1", "p2"]  # noqa: RUF012

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        return Box(0, 99, (1,))

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        return Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.agents = self.possible_agents[:]
        self.moves = 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "p0"

    def observe(self, agent: str) -> Any:
        return np.array([self.moves], np.float32)

    def step(self, action: Any) -> None:
        mover = self.agent_selection
        following = self.agents[(self.agents.index(mover) + 1) % len(self.agents)]
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            if self.agents and mover == self.agent_selection:
                self.agent_selection = following
            return
        self.moves += 1
        self._cumulative_rewards[mover] = 0.0
        self.rewards = {agent: 0.0 if agent == mover else -1.0 for agent in self.agents}
        self._accumulate_rewards()
        self.terminations["p1"] = self.terminations.get("p1", False) or self.moves == 4
        if "p1" not in self.agents:
            del self.terminations["p1"]
        if self.moves == 5:
            self.truncations = dict.fromkeys(self.agents, True)
        self.agent_selection = following


def test_ends_dead_steps_and_rewards_from_other_agents_turns_match_results_of_the_last_method() -> None:
    turns = episode_by_world(TurnBasedWorld(Staggered()), 0)
    assert turns == episode_by_last(Staggered(), 0)
    assert [reward for _, reward, _, _ in turns["p1"]] == [-1.0, -2.0]
    assert [(terminated, truncated) for *_, terminated, truncated in turns["p1"]] == [(False, False), (True, False)]
    assert turns["p0"][-1][2:] == turns["p2"][-1][2:] == (False, True)


def test_possible_agents_known_only_during_reset_are_taken_from_the_first_reset() -> None:
    class Generated(Staggered):
        possible_agents = None

        def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
            self.possible_agents = Staggered.possible_agents
            super().reset(seed)
            self.possible_agents = None

    assert TurnBasedWorld(Generated()).possible_agents == ["p0", "p1", "p2"]


def test_an_episode_limit_truncates_turn_based_agents() -> None:
    config = EnvConfig(pettingzoo="pettingzoo.classic.tictactoe_v3", max_episode_steps=3)
    worlds = make_vector_world(config, 1, SEEDS, PolicyMapping(["p"]), {})
    worlds.reset()
    for action in (0, 3, 1):
        rows = worlds.step({"p": np.full(2, action)})
    assert rows.policies["p"].truncateds.tolist() == [True, True]
    assert rows.missing_finals == 1


def test_the_clock_setting_determines_the_worlds_clock() -> None:
    config = EnvConfig(pettingzoo="mpe2.simple_spread_v3", clock="per_agent")
    world = make_world(config)
    assert world.clock == "per_agent"
    world.close()
