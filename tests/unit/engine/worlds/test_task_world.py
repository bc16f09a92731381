"""Worlds with different tasks: the seed determines an episode's task; infos and observations show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.tasks import Lessons, Tasks
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.worlds.make import check_world, make_vector_world, spaces_of_policies
from rlrun.engine.worlds.make_worlds import make_world
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import VectorWorld
from rlrun.engine.worlds.world import World, WorldStep

HERE = "tests.unit.engine.worlds.test_task_world"
ALL = PolicyMapping(["all"])


class Goals(World):
    """Shows agents the goal, and pays it to each; agent 0 leaves after two steps, and the episode takes three."""

    made = 0

    def __init__(self, goal: float = 0.0, agents: int = 2, size: int = 1, state_size: int = 1) -> None:
        type(self).made += 1
        self.goal = goal
        self.possible_agents = [f"agent_{i}" for i in range(agents)]
        self.size = size
        self.state_space = Box(-99, 99, (state_size,), np.float32)

    def spaces(self, agent: str) -> Spaces:
        return Spaces(Box(-99, 99, (self.size,), np.float32), Discrete(2))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.steps = 0
        return {agent: self.seen() for agent in self.possible_agents}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.steps += 1
        infos = {"agent_0": {"left": 1.0}} if self.steps == 2 else {}
        return WorldStep(
            {agent: self.seen() for agent in actions},
            dict.fromkeys(actions, self.goal),
            {"agent_0": self.steps == 2},
            {},
            infos,
            self.steps == 3,
        )

    def seen(self) -> Any:
        return np.full(self.size, self.goal, np.float32)

    def state(self) -> Any:
        return np.full(1, self.goal, np.float32)


class NamedParts(Goals):
    def spaces(self, agent: str) -> Spaces:
        return Spaces(Dict({"place": super().spaces(agent).observation}), Discrete(2))

    def seen(self) -> Any:
        return {"place": super().seen()}


class ShowsTask(Goals):
    def spaces(self, agent: str) -> Spaces:
        return Spaces(Dict({"task": Discrete(2)}), Discrete(2))


class ManyGoals:
    """A factory of worlds that are stepped together."""

    def __init__(self, num_worlds: int) -> None:
        raise AssertionError("a check makes nothing")


def by_seed(seed: int) -> dict[str, Any]:
    return {"kwargs": {"goal": float(seed % 7)}}


def with_options(seed: int) -> dict[str, Any]:
    return {"reset_options": {"goal": 1.0}}


def config_of(world: str = "Goals", **more: Any) -> EnvConfig:
    return EnvConfig.parse({"world": f"{HERE}:{world}", **more})


def worlds_of(config: EnvConfig, number: int, lessons: Lessons | None = None) -> VectorWorld:
    return make_vector_world(config, number, EpisodeSeeds(5, 0), ALL, {}, lessons=lessons)


def idle(worlds: VectorWorld) -> dict[str, Any]:
    return {policy: np.zeros(slots, np.int64) for policy, slots in worlds.slots.items()}


LISTED = [{"kwargs": {"goal": 1.0}}, {"kwargs": {"goal": 2.0}}, {}]
GOALS = [1.0, 2.0, 0.0]


def seed_of(task: int) -> int:
    config = config_of(tasks=LISTED)
    return next(seed for seed in range(99) if Tasks(config.tasks or "").of(seed).index == task)


def test_an_episodes_task_depends_only_on_its_seed() -> None:
    one, other = make_world(config_of(tasks=LISTED)), make_world(config_of(tasks=LISTED))
    other.reset(3)
    for seed in range(20):
        task = Tasks(config_of(tasks=LISTED).tasks or "").of(seed).index
        assert task is not None
        assert one.reset(seed) == other.reset(seed) == {"agent_0": GOALS[task], "agent_1": GOALS[task]}


def test_infos_of_all_agents_seen_in_the_episode_contain_the_task() -> None:
    world = make_world(config_of(tasks=LISTED))
    world.reset(seed_of(1))
    actions = {"agent_0": 0, "agent_1": 0}
    assert world.step(actions).infos == {"agent_0": {"task": 1}, "agent_1": {"task": 1}}
    assert world.step(actions).infos == {"agent_0": {"left": 1.0, "task": 1}, "agent_1": {"task": 1}}
    world = make_world(config_of(tasks=f"{HERE}:by_seed"))
    world.reset(12)
    assert world.step(actions).infos["agent_1"] == {"task/goal": 5.0}


def test_the_info_of_an_agent_truncated_by_a_time_limit_contains_the_task() -> None:
    worlds = worlds_of(config_of(tasks=LISTED, max_episode_steps=1), 1)
    worlds.reset()
    infos = worlds.step(idle(worlds)).infos["all"]
    (place,) = worlds.places()
    task = Tasks(config_of(tasks=LISTED).tasks or "").of(place.seed).index
    assert {slot: info["task"] for slot, info in infos.items()} == {0: task, 1: task}


def test_a_world_is_recreated_only_if_its_arguments_change() -> None:
    world = make_world(config_of(tasks=[{"kwargs": {"goal": 1.0}}]))
    before = Goals.made
    for seed in range(10):
        world.reset(seed)
    assert Goals.made == before


@pytest.mark.parametrize(
    ("tasks", "space", "expected"),
    [(LISTED, Discrete(3), 1), (f"{HERE}:by_seed", Box(-np.inf, np.inf, (1,), np.float32), [5.0])],
)
@pytest.mark.parametrize(("world", "part"), [("Goals", "observation"), ("NamedParts", "place")])
def test_task_in_observation_adds_the_task_to_each_agents_observation(
    world: str, part: str, tasks: Any, space: Any, expected: Any
) -> None:
    config = config_of(world, tasks=tasks, task_in_observation=True)
    shown = Dict({part: Box(-99, 99, (1,), np.float32), "task": space})
    assert spaces_of_policies(config, ALL) == {"all": Spaces(shown, Discrete(2))}
    made = make_world(config)
    observations = made.reset(seed_of(1) if tasks is LISTED else 12)
    after = made.step({"agent_0": 0, "agent_1": 0}).observations
    for agent in ("agent_0", "agent_1"):
        np.testing.assert_array_equal(observations[agent]["task"], expected)
        assert shown.contains(observations[agent])
        assert shown.contains(after[agent])


def test_restoring_a_world_restores_the_task_of_its_episode() -> None:
    config = config_of(tasks=LISTED)
    one, other = worlds_of(config, 4), worlds_of(config, 4)
    one.reset()
    for _ in range(6):  # an episode's three steps, its reset, and two more steps
        rows = one.step(idle(one))
    places = one.places()
    assert [place.length for place in places] == [2] * 4
    actions = [{"all": np.zeros((2, 2), np.int64)}] * 4
    found, exact = other.restore(places, actions, one.hashes(), 9.0)
    assert all(exact)
    np.testing.assert_array_equal(found.policies["all"].observations, rows.policies["all"].observations)
    assert len({*rows.policies["all"].observations.ravel().tolist()}) > 1
    for _ in range(6):
        np.testing.assert_array_equal(
            one.step(idle(one)).policies["all"].observations, other.step(idle(other)).policies["all"].observations
        )


def test_a_new_lesson_applies_from_the_next_episode_and_is_restored_with_the_world() -> None:
    config, lessons = config_of(curriculum="math:floor"), Lessons(2)
    worlds = worlds_of(config, 2, lessons)
    worlds.reset()
    lessons.latest = {"goal": 4.0}
    paid = [worlds.step(idle(worlds)).policies["all"].rewards.sum() for _ in range(5)]
    assert paid == [0.0, 0.0, 0.0, 0.0, 4 * 4.0]  # the next episode pays it to two agents in each of two worlds
    state, places, hashes = lessons.state(), worlds.places(), worlds.hashes()
    again = Lessons(2)
    again.load_state({**state, "latest": {"goal": 5.0}})
    other = worlds_of(config, 2, again)
    _, exact = other.restore(places, [{"all": np.zeros((1, 2), np.int64)}] * 2, hashes, 9.0)
    assert all(exact)
    paid = [other.step(idle(other)).policies["all"].rewards.sum() for _ in range(4)]
    assert paid == [4 * 4.0, 2 * 4.0, 0.0, 4 * 5.0]


def test_tasks_may_differ_in_their_agents() -> None:
    config = config_of(tasks=[{"kwargs": {"agents": 3}}, {"kwargs": {"agents": 1}}])
    worlds = make_vector_world(config, 8, EpisodeSeeds(5, 0), ALL, {"all": 3})
    tasks = Tasks(config.tasks or "")
    rows = worlds.reset()
    expected = [3 if tasks.of(place.seed).index == 0 else 1 for place in worlds.places()]
    assert rows.policies["all"].acts.reshape(8, 3).sum(1).tolist() == expected
    assert {*expected} == {1, 3}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tasks": []}, "name at least one"),
        ({"tasks": [{"kwarg": {}}]}, "did you mean 'kwargs'"),
        ({"tasks": [{"reset_options": {"a": 1}}]}, "takes no options"),
        ({"task_in_observation": True}, "there are no tasks to show"),
    ],
)
def test_inconsistent_task_settings_are_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        config_of(**more)


@pytest.mark.parametrize(
    ("world", "more", "told"),
    [
        ("Goals", {"tasks": f"{HERE}:by_sed"}, "did you mean 'by_seed'"),
        ("Goals", {"curriculum": f"{HERE}:by_sed"}, "did you mean 'by_seed'"),
        ("Goals", {"tasks": [{}, {"kwargs": {"gaol": 1.0}}]}, "did you mean 'goal'"),
        (
            "ManyGoals",
            {"tasks": LISTED},
            (
                "steps many worlds at once, so it does not support wrappers, clock, max_episode_steps, tasks, "
                "curriculum or columns; leave them out"
            ),
        ),
        (
            "ManyGoals",
            {"curriculum": f"{HERE}:by_seed"},
            (
                "steps many worlds at once, so it does not support wrappers, clock, max_episode_steps, tasks, "
                "curriculum or columns; leave them out"
            ),
        ),
    ],
)
def test_invalid_tasks_and_curricula_are_reported_before_a_world_is_created(
    world: str, more: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        check_world(config_of(world, **more))


def test_tasks_that_a_world_does_not_support_are_refused(wording) -> None:
    with wording.raised(UsageError):
        make_world(config_of(tasks=f"{HERE}:with_options"))
    with wording.raised(UsageError, "task"):
        spaces_of_policies(config_of("ShowsTask", tasks=LISTED, task_in_observation=True), ALL)


@pytest.mark.parametrize(
    ("name", "told"),
    [("size", r"the spaces of agent 'agent_\d' change"), ("state_size", "all tasks must have the same spaces")],
)
def test_tasks_whose_spaces_differ_are_refused(name: str, told: str) -> None:
    config = config_of(tasks=[{}, {"kwargs": {name: 2}}])
    tasks = Tasks(config.tasks or "")
    worlds = worlds_of(config, 8)
    numbers = [tasks.of(EpisodeSeeds(5, 0).seed(number, 0)).index for number in range(8)]
    assert 1 in numbers
    with pytest.raises(EnvError, match=rf"(?s)with .*'{name}': 2.*{told}"):
        worlds.reset()
