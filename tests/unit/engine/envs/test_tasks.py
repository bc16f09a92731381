"""Episodes of different tasks: the seed determines an episode's task; infos and observations show it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from rlrun.engine.envs.backend import backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import check_env, make_env, make_vector_env, spaces_of
from rlrun.engine.envs.tasks import Lessons, Tasks
from rlrun.engine.envs.vector_env import observation_hash
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.trust import env_risks

HERE = "tests.unit.engine.envs.test_tasks"


class Goal(gymnasium.Env[Any, Any]):
    """Shows its goal, and pays it; episodes take 3 steps."""

    action_space = Discrete(2)
    observation_space = Box(-99, 99, (1,), np.float32)
    made = 0

    def __init__(self, goal: float = 0.0) -> None:
        type(self).made += 1
        self.goal = goal

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left, self.shift = 3, (options or {}).get("shift", 0.0)
        return self.shown(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return self.shown(), self.goal, False, self.left == 0, {"left": self.left}

    def shown(self) -> Any:
        return np.float32([self.goal + self.shift])


def nothing_to_show(seed: int) -> dict[str, Any]:
    return {}


def no_task(seed: int) -> int:
    return seed


class Wide(Goal):
    def __init__(self, size: int = 1) -> None:
        super().__init__()
        self.observation_space = Box(-99, 99, (size,), np.float32)


def by_seed(seed: int) -> dict[str, Any]:
    return {"kwargs": {"goal": float(seed % 7)}, "reset_options": {"shift": 0.5}}


def config_of(**more: Any) -> EnvConfig:
    return EnvConfig.parse({"id": f"{HERE}:Goal", **more})


LISTED = [{"kwargs": {"goal": 1.0}}, {"kwargs": {"goal": 2.0}, "reset_options": {"shift": 0.25}}, {}]


def test_the_seed_determines_an_episodes_task_regardless_of_earlier_episodes() -> None:
    one, other = make_env(config_of(tasks=LISTED)), make_env(config_of(tasks=LISTED))
    other.reset(seed=3)
    expected = {0: 1.0, 1: 2.25, 2: 0.0}
    found = []
    for seed in range(40):
        observation, info = one.reset(seed=seed)
        again, told = other.reset(seed=seed)
        assert observation == again == [expected[info["task"]]]
        assert told == info
        assert one.step(0)[4]["task"] == info["task"]
        found.append(info["task"])
    assert min(np.bincount(found)) > 6


def test_the_numbers_of_a_task_made_by_a_function_of_the_seed_are_in_the_info() -> None:
    env = make_env(config_of(tasks=f"{HERE}:by_seed"))
    observation, info = env.reset(seed=12)
    assert observation == [5.5]
    assert info == {"task/goal": 5.0, "task/shift": 0.5}


def test_an_env_is_rebuilt_only_if_its_arguments_change() -> None:
    env = make_env(config_of(tasks=[{"reset_options": {"shift": 1.0}}, {"reset_options": {"shift": 2.0}}]))
    before = Goal.made
    for seed in range(10):
        env.reset(seed=seed)
    assert Goal.made == before


@pytest.mark.parametrize(
    ("tasks", "space", "expected"),
    [(LISTED, Discrete(3), 1), (f"{HERE}:by_seed", Box(-np.inf, np.inf, (2,), np.float32), [5.0, 0.5])],
)
def test_observations_contain_the_task_on_request(tasks: Any, space: Any, expected: Any) -> None:
    config = config_of(tasks=tasks, task_in_observation=True)
    assert spaces_of(config).observation == Dict({"observation": Goal.observation_space, "task": space})
    env = make_env(config)
    seed = next(seed for seed in range(12, 99) if Tasks(config.tasks or "").of(seed).index in (None, 1))
    observation, _ = env.reset(seed=seed)
    np.testing.assert_array_equal(observation["task"], expected)
    assert env.observation_space.contains(observation)
    assert env.observation_space.contains(env.step(0)[0])


def test_a_restored_episode_has_the_task_that_its_seed_determines() -> None:
    config = config_of(tasks=LISTED)
    one, other = (make_vector_env(config, 3, EpisodeSeeds(5, 0)) for _ in range(2))
    one.reset()
    actions = np.zeros((6, 3), np.int64)
    for step in actions:
        observations = one.step(step)[0].copy()
    places = one.places()
    hashes = [observation_hash(row) for row in observations]
    found, exact = other.restore(places, [actions[-place.length :, i] for i, place in enumerate(places)], hashes, 9.0)
    assert all(exact)
    np.testing.assert_array_equal(found, observations)
    for step in actions:
        np.testing.assert_array_equal(one.step(step)[0], other.step(step)[0])


def test_a_lesson_takes_effect_at_a_slots_next_episode_and_is_restored_with_it() -> None:
    lessons = Lessons(2)
    env = make_vector_env(config_of(curriculum="math:floor"), 2, EpisodeSeeds(5, 0), lessons=lessons)
    assert env.reset().ravel().tolist() == [0.0, 0.0]
    lessons.latest = {"goal": 4.0}
    shown = [env.step(np.zeros(2, np.int64))[0].copy().ravel().tolist() for _ in range(4)]
    assert shown == [[0.0, 0.0]] * 3 + [[4.0, 4.0]]
    state = lessons.state()
    lessons.latest = {"goal": 5.0}
    env.step(np.zeros(2, np.int64))
    places, now = env.places(), env.step(np.zeros(2, np.int64))[0].copy()
    again = Lessons(2)
    again.load_state({**state, "latest": lessons.latest})
    other = make_vector_env(config_of(curriculum="math:floor"), 2, EpisodeSeeds(5, 0), lessons=again)
    hashes = [observation_hash(row) for row in now]
    found, exact = other.restore(places, [np.zeros(1, np.int64)] * 2, hashes, 9.0)
    assert all(exact)
    assert found.ravel().tolist() == [4.0, 4.0]
    for _ in range(2):
        other.step(np.zeros(2, np.int64))
    assert other.step(np.zeros(2, np.int64))[0].ravel().tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tasks": []}, "name at least one"),
        ({"tasks": [{"kwarg": {}}]}, "did you mean 'kwargs'"),
        ({"task_in_observation": True}, "there are no tasks to show"),
        ({"tasks": [{}], "backend": "vector"}, "use backend: loop or auto"),
        ({"curriculum": "my.lab:f", "backend": "envpool"}, "use backend: loop or auto"),
    ],
)
def test_incomplete_misspelled_or_unsupported_task_settings_are_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        config_of(**more)


def test_invalid_tasks_and_tasks_with_different_spaces_are_refused(wording) -> None:
    env = make_env(EnvConfig.parse({"id": f"{HERE}:Wide", "tasks": [{}, {"kwargs": {"size": 2}}]}))
    tasks = Tasks(EnvConfig.parse({"id": "any", "tasks": [{}, {}]}).tasks or "")
    second = next(seed for seed in range(99) if tasks.of(seed).index == 1)
    with wording.raised(ValueError, "size"):
        env.reset(seed=second)
    with wording.raised(UsageError, "reset_options"):
        make_env(config_of(tasks=f"{HERE}:no_task"))
    with wording.raised(UsageError):
        make_env(config_of(tasks=f"{HERE}:nothing_to_show", task_in_observation=True))


@pytest.mark.parametrize(("env", "right"), [(f"{HERE}:Goal", "goal"), ("Pendulum-v1", "g")])
def test_arguments_of_listed_tasks_are_checked_before_an_env_is_built(env: str, right: str, wording) -> None:
    with wording.raised(UsageError, right):
        check_env(EnvConfig.parse({"id": env, "tasks": [{}, {"kwargs": {f"{right}g": 1.0}}]}))


def test_cartpole_with_tasks_uses_the_loop_backend_and_task_functions_need_trust() -> None:
    config = EnvConfig.parse({"id": "CartPole-v1", "tasks": [{"reset_options": {"low": -0.1, "high": 0.1}}]})
    assert backend_of(config) == "loop"
    assert env_risks(config, "env") == []
    config = config.replace(tasks="my.lab:tasks", curriculum="my.lab:harder")
    assert [demand.split()[0] for demand in env_risks(config, "env")] == ["`env.tasks`", "`env.curriculum`"]
