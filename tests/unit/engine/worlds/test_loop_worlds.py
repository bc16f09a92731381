"""How agents come, act and go in the slots of their policies, in scripted worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.step_marks import enable_step_marks, end_marks, stepped_env
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.loop_worlds import LoopWorlds
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import WorldRows
from rlrun.engine.worlds.world import World, WorldStep

SPACES = Spaces(Box(-np.inf, np.inf, (1,)), Discrete(10))
SEEDS = EpisodeSeeds(0, worker_index=4)


def seen(**numbers: float) -> dict[str, Any]:
    return {agent: np.array([number], np.float32) for agent, number in numbers.items()}


def gives(observations: Mapping[str, Any], rewards: Mapping[str, Any] | None = None, **parts: Any) -> WorldStep:
    """Returns a step, with flags given as lists of agents."""
    flags = {name: dict.fromkeys(parts.get(name, ()), True) for name in ("terminated", "truncated")}
    return WorldStep(
        observations,
        rewards or {},
        flags["terminated"],
        flags["truncated"],
        parts.get("infos", {}),
        parts.get("ended", False),
    )


class Scripted(World):
    """Follows a script at the reset and at each step, and keeps the actions that it was given."""

    possible_agents: Sequence[str] = ("a", "b")

    def __init__(
        self, first: Mapping[str, Any], *steps: Any, clock: WorldClock = "per_agent", spaces: Any = None
    ) -> None:
        self.clock = clock
        self.first, self.steps = first, steps
        self.actions: list[dict[str, Any]] = []
        self.seeds: list[int] = []
        self.own_spaces: Mapping[str, Spaces] = spaces or {}

    def spaces(self, agent: str) -> Spaces:
        return self.own_spaces.get(agent, SPACES)

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.seeds.append(seed)
        self.t = 0
        return self.first

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.actions.append(dict(actions))
        self.t += 1
        step: WorldStep = self.steps[self.t - 1]
        return step


def looped(*worlds: World, slots: int = 2, spaces: Spaces = SPACES, **arguments: Any) -> LoopWorlds:
    return LoopWorlds(
        "my_lab:make", worlds, SEEDS, PolicyMapping(["p"]), {"p": ("a", spaces)}, {"p": slots}, **arguments
    )


def acted(worlds: LoopWorlds, *actions: int) -> WorldRows:
    return worlds.step({"p": np.array(actions)})


def flags(rows: WorldRows, name: str, policy: str = "p") -> list[int]:
    """Returns the numbers of the slots in which a flag is raised."""
    return np.flatnonzero(getattr(rows.policies[policy], name)).tolist()  # type: ignore[no-any-return]


def shown(rows: WorldRows) -> list[float]:
    return rows.policies["p"].observations[:, 0].tolist()  # type: ignore[no-any-return]


def test_each_possible_agent_of_each_world_has_its_own_slot() -> None:
    first, second = Scripted(seen(a=1, b=2), gives(seen(a=3, b=4))), Scripted(seen(b=5), gives(seen(b=6)))
    worlds = looped(first, second)
    rows = worlds.reset()
    assert worlds.slots == {"p": 4}
    assert shown(rows) == [1, 2, 0, 5]
    assert flags(rows, "acts") == flags(rows, "starts") == flags(rows, "living") == [0, 1, 3]
    rows = acted(worlds, 7, 8, 0, 9)
    assert (first.actions, second.actions) == ([{"a": 7, "b": 8}], [{"b": 9}])
    assert shown(rows) == [3, 4, 0, 6]
    assert flags(rows, "starts") == []
    assert worlds.owners("p") == ["a", "b", "", "b"]


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({}, r"it is missing \(entries: \[\]\)"),
        ({"cots": 1.0}, r"it is missing \(entries: \['cots'\]\)"),
        ({"cost": np.nan}, "nan"),
        ({"cost": "dear"}, "'dear'"),
    ],
)
def test_the_info_of_an_acting_agent_must_contain_a_number_for_each_column(
    info: dict[str, Any], found: str, wording
) -> None:
    world = Scripted(seen(a=1, b=2), gives(seen(a=3, b=4), infos={"a": {"cost": 1.5}, "b": info}))
    worlds = looped(world, columns=["cost"])
    worlds.reset()
    with wording.raised(EnvError, "cost"):
        acted(worlds, 0, 0)


def test_info_columns_contain_the_numbers_of_the_current_step_and_none_of_the_previous_one() -> None:
    world = Scripted(
        seen(a=1, b=2),
        gives(seen(a=3), infos={"a": {"cost": 1.5}, "b": {"cost": 2}}),
        gives(seen(a=4), infos={"a": {"cost": True}}),
        gives({}, infos={"a": {"cost": 4.0}, "b": {"cost": 8.0}, "stranger": {"cost": 1.0}}, ended=True),
    )
    worlds = looped(world, columns=["cost"])
    assert not worlds.reset().policies["p"].columns["cost"].any()
    told = [acted(worlds, 0, 0).policies["p"].columns["cost"].tolist() for _ in range(3)]
    assert told == [[1.5, 2.0], [1.0, 0.0], [4.0, 8.0]]
    assert not acted(worlds, 0, 0).policies["p"].columns["cost"].any()  # the next episode begins


def test_a_possible_agent_keeps_its_slot_while_other_agents_get_the_lowest_free_slot() -> None:
    world = Scripted(
        seen(b=1, stranger=2),
        gives(seen(a=3, stranger=4, b=5), terminated=["b"]),
        gives(seen(a=6, stranger=7)),
        gives(seen(a=8, stranger=9, b=10)),
    )
    worlds = looped(world, slots=3)
    worlds.reset()
    assert worlds.owners("p") == ["stranger", "b", ""]
    acted(worlds, 0, 0, 0)
    assert worlds.owners("p") == ["stranger", "b", "a"]
    acted(worlds, 0, 0, 0)
    rows = acted(worlds, 0, 0, 0)
    assert worlds.owners("p") == ["stranger", "b", "a"]
    assert shown(rows) == [9, 10, 8]


def test_a_slot_shows_its_agents_final_observation_and_is_free_one_step_later() -> None:
    world = Scripted(
        seen(a=1),
        gives(seen(a=2, b=3), {"a": 1.5}, terminated=["a"], infos={"a": {"score": 3}}),
        gives(seen(b=4, c=5)),
    )
    worlds = looped(world)
    worlds.reset()
    rows = acted(worlds, 1, 0)
    assert shown(rows) == [2, 3]
    assert flags(rows, "terminateds") == [0]
    assert flags(rows, "acts") == flags(rows, "starts") == flags(rows, "living") == [1]
    assert rows.policies["p"].rewards.tolist() == [1.5, 0]
    assert rows.infos == {"p": {0: {"score": 3}}}
    assert worlds.owners("p") == ["a", "b"]
    rows = acted(worlds, 9, 2)
    assert world.actions[1] == {"b": 2}
    assert shown(rows) == [5, 4]
    assert flags(rows, "starts") == [0]
    assert worlds.owners("p") == ["c", "b"]
    assert rows.infos == {}


def test_the_error_for_more_agents_than_slots_names_the_setting(wording) -> None:
    worlds = looped(Scripted(seen(a=1), gives(seen(a=2, b=3, c=4))))
    worlds.reset()
    with wording.raised(EnvError, "policies.p.slots"):
        acted(worlds, 0, 0)


def test_the_slot_of_an_agent_that_has_just_ended_is_not_yet_free(wording) -> None:
    worlds = looped(Scripted(seen(a=1), gives(seen(a=2, b=3), terminated=["a"])), slots=1)
    worlds.reset()
    with wording.raised(EnvError):
        acted(worlds, 0)


def test_an_agent_id_that_reappears_starts_a_new_episode() -> None:
    world = Scripted(seen(a=1), gives(seen(a=2), terminated=["a"]), gives(seen(a=3)))
    worlds = looped(world)
    worlds.reset()
    acted(worlds, 1, 0)
    rows = acted(worlds, 1, 0)
    assert world.actions == [{"a": 1}, {}]
    assert flags(rows, "starts") == flags(rows, "acts") == [0]


def test_agents_receive_rewards_even_in_steps_in_which_they_do_not_act() -> None:
    worlds = looped(Scripted(seen(a=1, b=2), gives(seen(a=3), {"b": -1.0}), gives(seen(b=4), {"b": 0.5})))
    worlds.reset()
    rows = acted(worlds, 0, 0)
    assert flags(rows, "acts") == [0]
    assert flags(rows, "living") == [0, 1]
    assert rows.policies["p"].rewards.tolist() == [0, -1]
    assert acted(worlds, 0, 0).policies["p"].rewards.tolist() == [0, 0.5]


def test_rewards_before_an_agents_first_observation_are_given_with_that_observation() -> None:
    worlds = looped(
        Scripted(seen(a=1), gives(seen(a=2), {"b": -1.0}), gives(seen(b=3), {"b": 0.25}), gives(seen(a=1), {"b": 2}))
    )
    worlds.reset()
    assert acted(worlds, 0, 0).policies["p"].rewards.tolist() == [0, 0]
    assert acted(worlds, 0, 0).policies["p"].rewards.tolist() == [0, -0.75]
    assert acted(worlds, 0, 0).policies["p"].rewards.tolist() == [0, 2]


def test_a_reward_for_a_dead_agent_is_dropped_and_counted_even_if_the_agent_comes_back() -> None:
    script = [
        gives(seen(a=2, b=2), {"a": 1, "b": 2}, terminated=["b"]),  # the last reward comes with the final observation
        gives(seen(a=3), {"a": 1, "b": 4}),
        gives(seen(a=4, b=5), {"a": 1, "b": 8}),  # b is back
        gives(seen(a=5), {"a": 1, "b": 16}, truncated=["b"]),
        gives({}, {"a": 1, "b": 32}, ended=True),
    ]
    worlds = looped(Scripted(seen(a=1, b=1), *script))
    worlds.reset()
    told = []
    for _ in script:
        rows = acted(worlds, 0, 0)
        told.append((rows.policies["p"].rewards.tolist(), rows.dropped_rewards))
    assert told == [([1, 2], 0), ([1, 0], 1), ([1, 8], 0), ([1, 16], 0), ([1, 0], 1)]
    assert acted(worlds, 0, 0).dropped_rewards == 0
    assert acted(worlds, 0, 0).policies["p"].rewards.tolist() == [1, 2]


def test_rewards_of_agents_that_never_appear_are_counted_as_dropped_when_the_episode_ends() -> None:
    script = [gives(seen(a=2), {"b": -1.0}), gives(seen(a=3), {"b": 0.5, "a": 0.0}), gives(seen(b=1), ended=True)]
    worlds = looped(Scripted(seen(a=1), *script))
    worlds.reset()
    assert [acted(worlds, 0, 0).dropped_rewards for _ in script] == [0, 0, 2]
    assert acted(worlds, 0, 0).dropped_rewards == 0


def test_the_last_observation_of_an_agent_stands_in_for_a_missing_final_one() -> None:
    worlds = looped(
        Scripted(seen(a=1, b=2), gives(seen(a=3)), gives({}, truncated=["a"], terminated=["b"])),
    )
    worlds.reset()
    assert acted(worlds, 0, 0).missing_finals == 0
    rows = acted(worlds, 0, 0)
    assert shown(rows) == [3, 2]
    assert (flags(rows, "truncateds"), flags(rows, "terminateds")) == ([0], [1])
    assert rows.missing_finals == 1


def test_the_end_of_a_world_truncates_agents_that_have_not_ended() -> None:
    world = Scripted(seen(a=1, b=2), gives(seen(a=3, b=4, c=5), terminated=["b"], ended=True))
    worlds = looped(world)
    worlds.reset()
    rows = acted(worlds, 0, 0)
    assert (flags(rows, "truncateds"), flags(rows, "terminateds")) == ([0], [1])
    assert rows.missing_finals == 0
    assert flags(rows, "acts") == flags(rows, "living") == []
    assert (rows.ended.tolist(), rows.stepped.tolist()) == ([True], [True])
    rows = acted(worlds, 0, 0)
    assert (rows.ended.tolist(), rows.stepped.tolist()) == ([False], [False])
    assert shown(rows) == [1, 2]
    assert flags(rows, "starts") == [0, 1]
    assert len(world.actions) == 1
    assert world.seeds == [SEEDS.seed(0, 0), SEEDS.seed(0, 1)]


def test_an_agent_that_ends_in_the_step_of_its_first_observation_gets_no_slot() -> None:
    worlds = looped(Scripted(seen(a=1), gives(seen(a=2, b=3, c=4), terminated=["b"], truncated=["c"])))
    worlds.reset()
    rows = acted(worlds, 0, 0)
    assert worlds.owners("p") == ["a", ""]
    assert flags(rows, "terminateds") == flags(rows, "truncateds") == []


def test_the_episode_limit_truncates_all_living_agents() -> None:
    world = Scripted(seen(a=1, b=2), gives(seen(a=3)), gives(seen(b=4)))
    worlds = looped(world, max_episode_steps=2)
    worlds.reset()
    assert not acted(worlds, 0, 0).ended.any()
    rows = acted(worlds, 0, 0)
    assert rows.ended.tolist() == [True]
    assert flags(rows, "truncateds") == [0, 1]
    assert (shown(rows), rows.missing_finals) == ([3, 4], 1)


def test_an_agent_without_an_observation_in_a_parallel_world_raises_an_error_that_names_the_clock(wording) -> None:
    worlds = looped(Scripted(seen(a=1, b=2), gives(seen(a=3)), clock="parallel"))
    worlds.reset()
    with wording.raised(EnvError, "per_agent"):
        acted(worlds, 0, 0)


def test_the_error_for_an_agent_whose_spaces_differ_from_its_policys_shows_both_spaces(wording) -> None:
    other = Spaces(Box(-1, 1, (2,)), Discrete(10))
    worlds = looped(Scripted(seen(a=1), gives(seen(z=3)), spaces={"z": other}))
    worlds.reset()
    with wording.raised(EnvironmentUnusable):
        acted(worlds, 0, 0)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (
            "abc",
            "step 1): it must return WorldStep(observations, rewards, terminateds, truncateds, infos, ended), not a s",
        ),
        ((1, 2), "infos, ended), not a tuple of 2"),
        (gives([]), "observations must be a dict keyed by agent id, not list"),  # type: ignore[arg-type]
        (gives({3: np.zeros(1)}), "an id must be a string, not 3"),  # type: ignore[dict-item]
        (gives({"a": np.zeros(2)}), "agent 'a'): the observation has shape (2,), but its space has (1,)"),
        (gives(seen(a=np.nan)), "agent 'a'): the observation contains NaN"),
        (gives(seen(a=1), {"a": None}), "agent 'a'): the reward must be a number, not None"),
        (gives(seen(a=1), {"a": np.inf}), "agent 'a'): the reward must be a finite number, not inf"),
        (gives(seen(a=1))._replace(truncateds={"a": 1}), "agent 'a'): truncateds must contain True or False, not 1"),
        (gives(seen(a=1))._replace(infos={"a": 1}), "agent 'a'): the info must be a dict, not int"),
        (gives(seen(a=1))._replace(ended=1), "ended must be True or False, not 1"),
    ],
)
def test_invalid_return_values_of_the_first_step_are_refused(returned: Any, said: str, wording) -> None:
    worlds = looped(Scripted(seen(a=1), gives(seen(a=1))), Scripted(seen(a=1), returned))
    worlds.reset()
    with pytest.raises(EnvError) as raised:
        acted(worlds, 0, 0, 0, 0)
    assert said in str(raised.value)
    assert str(raised.value) == wording("my_lab:make")


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "it must return WorldStep"),
        (gives({"a": np.zeros(2)}), "agent 'a'): the observation has shape (2,)"),
        (gives(seen(a=1), {"a": None}), "agent 'a'): the reward must be a number, not None"),
        (gives(seen(a=1), {"a": np.nan}), "agent 'a'): the reward must be a finite number, not nan"),
    ],
)
def test_changed_shapes_and_rewards_that_are_not_finite_numbers_are_refused_at_later_steps(
    returned: Any, said: str
) -> None:
    worlds = looped(Scripted(seen(a=1), gives(seen(a=1)), returned))
    worlds.reset()
    acted(worlds, 0, 0)
    with pytest.raises(EnvError) as raised:
        acted(worlds, 0, 0)
    assert said in str(raised.value)
    assert "step 2" in str(raised.value)


def test_an_exception_in_a_world_is_reported_with_its_own_traceback() -> None:
    worlds = looped(Scripted(seen(a=1)))
    worlds.reset()
    with pytest.raises(
        EnvError, match=r"(?s)env my_lab:make raised an exception in step\(\) \(worker 4, world 0.*IndexError"
    ) as raised:
        acted(worlds, 0, 0)
    assert "running_world" not in str(raised.value)


def test_observations_returned_by_reset_are_validated(wording) -> None:
    with wording.raised(EnvError):
        looped(Scripted({**seen(a=1), "b": np.zeros(3)})).reset()


def test_an_action_mask_that_allows_no_action_is_refused_for_an_acting_agent(wording) -> None:
    spaces = Spaces(Dict(action_mask=MultiBinary(2), observation=Box(-1, 1, (1,))), Discrete(2))

    def masked(*mask: int) -> dict[str, Any]:
        return {"a": {"action_mask": np.array(mask, np.int8), "observation": np.zeros(1, np.float32)}}

    def stepped(last: WorldStep) -> WorldRows:
        worlds = looped(Scripted(masked(1, 0), last, spaces={"a": spaces}), spaces=spaces)
        worlds.reset()
        return acted(worlds, 0, 0)

    with wording.raised(EnvError, "action_mask"):
        stepped(gives(masked(0, 0)))
    assert flags(stepped(gives(masked(0, 0), terminated=["a"])), "terminateds") == [0]


def test_actions_outside_the_action_space_are_refused_for_slots_that_act(wording) -> None:
    worlds = looped(Scripted(seen(a=1), gives(seen(a=1))))
    worlds.reset()
    with wording.raised(EnvError, "11"):
        acted(worlds, 11, 0)
    acted(worlds, 0, 11)


def test_observations_and_actions_may_be_nested_in_dicts() -> None:
    spaces = Spaces(Dict(x=Box(-1, 1, (2,)), n=Discrete(3)), Dict(move=Discrete(4), aim=Box(-1, 1, (2,))))
    first = {"a": {"x": np.array([0.5, -0.5], np.float32), "n": 2}}
    world = Scripted(first, gives(first), spaces={"a": spaces})
    worlds = looped(world, spaces=spaces)
    rows = worlds.reset()
    assert rows.policies["p"].observations["x"].tolist() == [[0.5, -0.5], [0, 0]]
    worlds.step({"p": {"move": np.array([3, 0]), "aim": np.array([[0.25, 1.0], [0, 0]])}})
    assert world.actions[0]["a"]["move"] == 3
    assert world.actions[0]["a"]["aim"].tolist() == [0.25, 1.0]


class Stateful(Scripted):
    state_space = Box(0, 9, (2,))

    def state(self) -> Any:
        return np.array([self.t, 7], np.float32)


def test_the_reported_world_states_belong_to_the_current_steps_of_the_worlds() -> None:
    worlds = looped(
        Stateful(seen(a=1), gives(seen(a=2)), gives({}, ended=True)),
        Stateful(seen(a=1), gives({}, ended=True)),
        with_states=True,
    )
    states = [worlds.reset().states]
    assert states[0] is not None
    assert states[0].tolist() == [[0, 7], [0, 7]]
    rows = acted(worlds, 0, 0, 0, 0)
    assert rows.states is not None
    assert rows.states.tolist() == [[1, 7], [1, 7]]
    assert acted(worlds, 0, 0, 0, 0).states.tolist() == [[2, 7], [0, 7]]  # type: ignore[union-attr]


class WithoutFinalState(Stateful):
    def state(self) -> Any:
        if self.t:
            raise IndexError("no agent is left")
        return super().state()


def test_the_world_state_is_not_computed_if_no_policy_uses_it() -> None:
    def world() -> World:
        return WithoutFinalState(seen(a=1), gives({}, ended=True))

    without = looped(world())
    assert without.reset().states is None
    assert acted(without, 0, 0).ended.all()
    with_states = looped(world(), with_states=True)
    with_states.reset()
    with pytest.raises(EnvError, match="no agent is left"):
        acted(with_states, 0, 0)


class Busy(World):
    """Agents come, act, wait, end and come back at random; rewards follow from the actions."""

    possible_agents = tuple("abcdef")
    clock: WorldClock = "per_agent"

    def spaces(self, agent: str) -> Spaces:
        return SPACES

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.rng = np.random.default_rng(seed)
        self.count = 0
        self.living = {agent for agent in self.possible_agents if self.rng.random() < 0.4}
        return self.see(sorted(self.living))

    def see(self, agents: Sequence[str]) -> dict[str, Any]:
        self.count += 1
        return {agent: np.array([100 * self.count + i], np.float32) for i, agent in enumerate(agents)}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        chance = self.rng.random
        ends = {agent: chance() for agent in sorted(self.living) if chance() < 0.2}
        births = [agent for agent in self.possible_agents if agent not in self.living and chance() < 0.3]
        observed = [agent for agent in sorted(self.living) if chance() < (0.5 if agent in ends else 0.7)]
        self.living = (self.living - set(ends)) | set(births)
        total = float(sum(actions.values())) + len(actions)
        return WorldStep(
            self.see([*observed, *births]),
            {agent: total + i for i, agent in enumerate(sorted(self.living | set(ends))) if chance() < 0.5},
            {agent: True for agent, number in ends.items() if number < 0.6},
            {agent: True for agent, number in ends.items() if number > 0.4},
            {},
            bool(chance() < 0.05),
        )


def decide(observation: float, slot_independent: int = 10) -> int:
    return int(observation) % slot_independent


Stream = list[tuple[float | None, float, bool, bool]]
"""One life, step by step: the observation if it acts or has ended, the reward, and the flags."""


def streams_by_dicts(seeds: Sequence[int], steps: int) -> list[Stream]:
    """Returns the streams of all lives in a world, in order of birth, from its dicts alone."""
    world, lives, living, acting, over = Busy(), [], {}, {}, True
    for _ in range(steps + 1):
        if over:
            step, living, over = WorldStep(world.reset(seeds[0]), {}, {}, {}, {}, False), {}, False
            seeds = seeds[1:]
        else:
            step = world.step({agent: decide(number) for agent, number in acting.items()})
            over = step.ended
        numbers = {agent: float(array[0]) for agent, array in step.observations.items()}
        for agent in numbers.keys() - living.keys() if not over else ():
            living[agent] = []
            lives.append((agent, living[agent]))
        for agent, stream in list(living.items()):
            terminated = step.terminateds.get(agent, False)
            truncated = step.truncateds.get(agent, False) or (over and not terminated)
            ended = terminated or truncated
            last = [number for number, *_ in stream if number is not None][-1:] if ended else []
            stream.append((numbers.get(agent, *last or [None]), step.rewards.get(agent, 0.0), terminated, truncated))
            if ended:
                del living[agent]
        acting = {agent: number for agent, number in numbers.items() if agent in living}
    return sorted((tuple(stream) for _, stream in lives), key=repr)  # type: ignore[return-value]


def streams_by_slots(worlds: LoopWorlds, steps: int) -> tuple[list[list[Stream]], int]:
    """Returns the same for each of several worlds, from their slots; and how many lives continue."""
    per_world = worlds.slots["p"] // worlds.num_worlds
    lives: list[list[Stream]] = [[] for _ in range(worlds.num_worlds)]
    open_streams: dict[int, Stream] = {}
    rows = worlds.reset()
    births = deaths = 0
    for t in range(steps + 1):
        slots = rows.policies["p"]
        ended = slots.terminateds | slots.truncateds
        assert not (slots.acts & ~slots.living).any()
        for slot in np.flatnonzero(slots.living | ended).tolist():
            if slots.starts[slot]:
                births += 1
                open_streams[slot] = []
                lives[slot // per_world].append(open_streams[slot])
            number = float(slots.observations[slot, 0]) if slots.acts[slot] or ended[slot] else None
            flags_of = bool(slots.terminateds[slot]), bool(slots.truncateds[slot])
            open_streams[slot].append((number, float(slots.rewards[slot]), *flags_of))
        deaths += int(ended.sum())
        assert births == deaths + int(slots.living.sum())
        actions = np.array([decide(number) for number in slots.observations[:, 0]])
        rows = worlds.step({"p": actions}) if t < steps else rows
    return [sorted((tuple(s) for s in of_world), key=repr) for of_world in lives], births - deaths  # type: ignore[misc]


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 60))
def test_the_slots_show_the_same_agent_episodes_as_the_dicts_of_the_worlds(seed: int, steps: int) -> None:
    seeds = EpisodeSeeds(seed, worker_index=1)
    worlds = LoopWorlds(
        "busy", [Busy(), Busy()], seeds, PolicyMapping(["p"]), {"p": ("a", SPACES)}, {"p": len(Busy.possible_agents)}
    )
    told, _ = streams_by_slots(worlds, steps)
    for number in range(2):
        of_world = [seeds.seed(number, episode) for episode in range(steps + 1)]
        assert told[number] == streams_by_dicts(of_world, steps)


def recorded_actions(worlds: LoopWorlds, steps: int) -> tuple[list[dict[str, Any]], WorldRows]:
    """Steps busy worlds; returns each world's actions since its reset, [length, K]."""
    rows = worlds.reset()
    per_world = worlds.slots["p"] // worlds.num_worlds
    taken: list[list[Any]] = [[] for _ in range(worlds.num_worlds)]
    for _ in range(steps):
        actions = np.array([decide(number) for number in rows.policies["p"].observations[:, 0]])
        rows = worlds.step({"p": actions})
        for number, of_world in enumerate(taken):
            of_world.append(actions[number * per_world : (number + 1) * per_world])
            if not rows.stepped[number]:
                of_world.clear()
    return [{"p": np.array(of_world).reshape(-1, per_world)} for of_world in taken], rows


def busy(count: int) -> LoopWorlds:
    return looped(*(Busy() for _ in range(count)), slots=6)


@pytest.mark.parametrize("steps", [0, 1, 7, 40, 41])
def test_replaying_actions_restores_the_state_of_every_world(steps: int) -> None:
    worlds, again = busy(3), busy(3)
    actions, rows = recorded_actions(worlds, steps)
    restored, exact = again.restore(worlds.places(), actions, worlds.hashes(), 60.0)
    assert exact == [True] * 3
    assert again.places() == worlds.places()
    assert again.hashes() == worlds.hashes()
    assert (restored.ended.any(), restored.policies["p"].rewards.any(), restored.missing_finals) == (False, False, 0)
    for name in ("acts", "starts", "living"):
        assert flags(restored, name) == flags(rows, name)
    living = flags(rows, "living")
    assert [again.owners("p")[slot] for slot in living] == [worlds.owners("p")[slot] for slot in living]
    for _ in range(30):
        choice = np.array([decide(number) for number in rows.policies["p"].observations[:, 0]])
        rows, restored = worlds.step({"p": choice}), again.step({"p": choice})
        acting = rows.policies["p"].acts
        assert (acting == restored.policies["p"].acts).all()
        seen_by = [of.policies["p"].observations[acting].tolist() for of in (rows, restored)]
        assert seen_by[0] == seen_by[1]
        assert rows.policies["p"].rewards.tolist() == restored.policies["p"].rewards.tolist()
        assert worlds.places() == again.places()


def test_a_world_that_replays_to_different_observations_starts_its_next_episode() -> None:
    worlds = busy(2)
    actions, _ = recorded_actions(worlds, 3)
    places = worlds.places()
    _, exact = worlds.restore(places, actions, [worlds.hashes()[0], "0" * 32], 60.0)
    assert exact == [True, False]
    assert worlds.places() == [
        places[0],
        EpisodePosition(places[1].episode + 1, SEEDS.seed(1, places[1].episode + 1), 0),
    ]


def test_worlds_whose_replay_has_no_time_left_begin_their_next_episodes() -> None:
    worlds = busy(1)
    actions, _ = recorded_actions(worlds, 3)
    _, exact = worlds.restore(worlds.places(), actions, worlds.hashes(), 0.0)
    assert exact == [False]


def test_a_world_whose_recorded_actions_are_incomplete_begins_its_next_episode() -> None:
    worlds = busy(1)
    actions, _ = recorded_actions(worlds, 3)
    _, exact = worlds.restore(worlds.places(), [{"p": actions[0]["p"][1:]}], worlds.hashes(), 60.0)
    assert exact == [False]


def test_the_hash_of_a_world_depends_on_which_agents_act() -> None:
    one, other = looped(Scripted(seen(a=1, b=2), gives(seen(a=1)))), looped(Scripted(seen(a=1, b=2), gives(seen(b=2))))
    one.reset(), other.reset()
    assert one.hashes() == other.hashes()
    acted(one, 0, 0), acted(other, 0, 0)
    assert one.hashes() != other.hashes()


def test_episode_numbers_start_at_the_given_first_episode_of_each_world() -> None:
    world = Scripted(seen(a=1))
    worlds = looped(world, first_episodes=[5])
    worlds.reset()
    assert worlds.places() == [EpisodePosition(5, SEEDS.seed(0, 5), 0)]
    assert world.seeds == [SEEDS.seed(0, 5)]


def test_an_exception_while_closing_a_world_becomes_a_warning() -> None:
    class Sticky(Scripted):
        def close(self) -> None:
            raise ValueError("stuck")

    worlds = looped(Sticky(seen(a=1)))
    worlds.reset()
    with pytest.warns(UserWarning, match="stuck"):
        worlds.close()


def test_each_policy_has_its_own_slots_and_spaces() -> None:
    world = Scripted(
        {**seen(a=1), "b": 4}, gives({**seen(a=2), "b": 5}), spaces={"b": Spaces(Discrete(9), Discrete(3))}
    )
    mapping = PolicyMapping(["p", "q"], {"a": "p", "b": "q"})
    spaces: dict[str, tuple[str, Spaces]] = {"p": ("a", SPACES), "q": ("b", world.spaces("b"))}
    worlds = LoopWorlds("x:y", [world], SEEDS, mapping, spaces, {"p": 1, "q": 2})
    rows = worlds.reset()
    assert rows.policies["q"].observations.tolist() == [4, 0]
    rows = worlds.step({"p": np.array([6]), "q": np.array([2, 0])})
    assert world.actions == [{"a": 6, "b": 2}]
    assert (rows.policies["p"].observations.tolist(), rows.policies["q"].observations.tolist()) == ([[2]], [5, 0])
    assert isinstance(worlds.spaces["q"].observation, gymnasium.spaces.Discrete)


def test_the_world_being_reset_or_stepped_is_recorded_in_case_it_crashes(tmp_path: Path) -> None:
    noted: list[str] = []

    class Noting(Scripted):
        def reset(self, seed: int) -> Mapping[str, Any]:
            noted.append(str(stepped_env(tmp_path, worker=4)))
            return super().reset(seed)

        def step(self, actions: Mapping[str, Any]) -> WorldStep:
            noted.append(str(stepped_env(tmp_path, worker=4)))
            return super().step(actions)

    enable_step_marks(tmp_path)
    try:
        worlds = looped(*(Noting(seen(a=1), gives(seen(a=2), ended=True)) for _ in range(2)))
        assert list(tmp_path.iterdir()) == []  # worlds that are made only to read their spaces leave no step marks
        worlds.reset()
        assert stepped_env(tmp_path, worker=4) is None
        for _ in range(2):
            acted(worlds, 0, 0, 0, 0)
            assert stepped_env(tmp_path, worker=4) is None
        begun = [f"env my_lab:make (world {world}, episode {{}} with seed {{}})" for world in range(2)]
        first = [text.format(0, SEEDS.seed(world, 0)) for world, text in enumerate(begun)]
        assert noted == [*first, *first, *(text.format(1, SEEDS.seed(world, 1)) for world, text in enumerate(begun))]
        noted.clear()
        worlds.restore(worlds.places(), [{"p": np.zeros((0, 2), np.int64)}] * 2, ["", ""], 9.0)
        assert noted[0] == begun[0].format(1, SEEDS.seed(0, 1))
        assert stepped_env(tmp_path, worker=4) is None
    finally:
        end_marks()
