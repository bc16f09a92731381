"""Multi-task envs: each episode's task is sampled by the episode's seed, or set by a curriculum."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from rlrun.engine.envs.env_config import EnvConfig, TaskConfig
from rlrun.engine.envs.vector_env import close_or_warn
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.settings.registry import load_object

Env: TypeAlias = "gymnasium.Env[Any, Any]"

TASK = "task"
"""Key of the task in infos and observations."""

TASK_DRAWS = 0x7A5C
"""Seed constant that separates the sampling of tasks from the env's random stream."""


@dataclass(frozen=True)
class Task:
    """Task of an episode: env arguments, and numbers for infos and observations.

    Attributes:
        config: Keyword arguments and reset options of the env.
        index: Index in the list of tasks; None for a task that a function returned.
        values: Numbers that describe the task, by name, for infos and observations.
        number: Number of tasks in the list; None for a task that a function returned.
    """

    config: TaskConfig
    index: int | None
    values: Mapping[str, float]
    number: int | None = None

    @property
    def info(self) -> dict[str, float]:
        """Returns the entries for infos: `task`, the index in a list, or `task/NAME` for each number of the task."""
        if self.index is not None:
            return {TASK: self.index}
        return {f"{TASK}/{name}": value for name, value in self.values.items()}

    def space_with(self, inner: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        """Returns the observation space with the task added, `{observation: ..., task: ...}`.

        Args:
            inner: Observation space without the task; a Dict gets an additional key.

        Raises:
            UsageError: The task has no numbers, or observations already have its key.
        """
        if self.number is not None:
            own: gymnasium.Space[Any] = Discrete(self.number)
        elif self.values:
            own = Box(-np.inf, np.inf, (len(self.values),), np.float32)
        else:
            raise UsageError(
                "env.task_in_observation: the tasks in env.tasks contain no numbers to add to the observation"
            )
        if not isinstance(inner, Dict):
            return Dict({"observation": inner, TASK: own})
        if TASK in inner.spaces:
            raise UsageError(f"env.task_in_observation: observations already have a part {TASK!r}")
        return Dict({**inner.spaces, TASK: own})

    def add_to_observation(self, observation: Any, inner: gymnasium.Space[Any]) -> dict[str, Any]:
        """Adds the task to an observation of the space `inner`, as its index in the list or as its numbers."""
        own = np.int64(self.index) if self.index is not None else np.array([*self.values.values()], np.float32)
        return {**(observation if isinstance(inner, Dict) else {"observation": observation}), TASK: own}


class Tasks:
    """Task distribution: a deterministic function from an episode's seed to a task.

    Args:
        source: List of equally likely tasks, or the path `module:function` of a function from a seed to a task.

    Raises:
        UsageError: The function does not exist.
    """

    def __init__(self, source: Sequence[TaskConfig] | str) -> None:
        self._listed = () if isinstance(source, str) else tuple(source)
        self._path = source if isinstance(source, str) else ""
        self._function: Callable[[int], Any] | None = load_object(source, "tasks") if isinstance(source, str) else None

    def of(self, seed: int) -> Task:
        """Samples the task of the episode that has a given seed.

        Raises:
            UsageError: The function did not return a valid task.
        """
        if self._function is None:
            index = int(np.random.default_rng([seed, TASK_DRAWS]).integers(len(self._listed)))
            return Task(self._listed[index], index, {TASK: float(index)}, len(self._listed))
        returned = self._function(seed)
        try:
            config = TaskConfig.parse(returned, path="task")
        except SpecError as error:
            what = "a task must be a dict with kwargs, reset_options or both"
            raise UsageError(f"{self._path} returned the task {returned!r:.80}, but {what} ({error})") from error
        return Task(config, None, numbers_of({**config.kwargs, **config.reset_options}))


def numbers_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers in a mapping, sorted by key; entry i of a list under the key NAME is named `NAME/i`."""
    found: dict[str, float] = {}
    for name in sorted(values):
        column = np.asarray(values[name])
        if column.dtype.kind in "bif":
            names = [name] if not column.ndim else [f"{name}/{i}" for i in range(column.size)]
            found.update(zip(names, column.ravel().astype(float).tolist(), strict=True))
    return found


class Lessons:
    """Env keyword arguments that a curriculum sets in a worker.

    Each env slot adopts the latest arguments at its next episode.

    Args:
        slots: Number of env slots.

    Attributes:
        latest: Keyword arguments for episodes that begin from now on.
    """

    def __init__(self, slots: int) -> None:
        self.latest: dict[str, Any] = {}
        self._present: list[dict[str, Any]] = [{} for _ in range(slots)]
        self._returns: set[int] = set()

    def begin(self, slot: int) -> dict[str, Any]:
        """Returns the curriculum's keyword arguments for the episode that an env slot starts or replays."""
        if slot in self._returns:
            self._returns.discard(slot)
        else:
            self._present[slot] = self.latest
        return self._present[slot]

    def state(self) -> dict[str, Any]:
        """Returns the latest curriculum arguments, and the arguments of each env slot's current episode."""
        return {"latest": self.latest, "present": list(self._present)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the curriculum from `state()`; the next `begin` of each env slot resumes its interrupted episode."""
        self.latest = dict(state["latest"])
        self._present = [dict(own) for own in state["present"]]
        self._returns = set(range(len(self._present)))


class EpisodeTasks:
    """Sampler of the tasks of one env slot's episodes; a task's keyword arguments override the curriculum's.

    Args:
        tasks: List of tasks, or the path `module:function` of a function from a seed to a task; None if the env has no
            tasks.
        lessons: Keyword arguments that a curriculum sets for the env slots; None without a curriculum.
        slot: Index of the env slot.

    Attributes:
        task: Task of the current episode (before the first episode, the task for seed 0); None without tasks.

    Raises:
        UsageError: The function that samples tasks does not exist, or did not return a valid task.
    """

    def __init__(self, tasks: Sequence[TaskConfig] | str | None, lessons: Lessons | None, slot: int) -> None:
        self._tasks = None if tasks is None else Tasks(tasks)
        self._lessons = lessons
        self._slot = slot
        self.task = None if self._tasks is None else self._tasks.of(0)

    @property
    def config(self) -> TaskConfig:
        """Config of the current task: keyword arguments and reset options of the env."""
        return TaskConfig() if self.task is None else self.task.config

    def begin(self, seed: int) -> dict[str, Any]:
        """Samples the task of the episode that has a given seed.

        Returns the env's keyword arguments for this episode.
        """
        if self._tasks is not None:
            self.task = self._tasks.of(seed)
        lesson = {} if self._lessons is None else self._lessons.begin(self._slot)
        return {**lesson, **self.config.kwargs}


def check_functions(tasks: Sequence[TaskConfig] | str | None, curriculum: str | None) -> None:
    """Validates that the task and curriculum functions of an env config exist.

    Raises:
        UsageError: A function does not exist; the message suggests the nearest name.
    """
    if isinstance(tasks, str):
        load_object(tasks, "tasks")
    if curriculum is not None:
        load_object(curriculum, "curriculum")


def task_env(
    config: EnvConfig, make: Callable[[Mapping[str, Any]], Env], lessons: Lessons | None, env_index: int
) -> TaskEnv:
    """Creates the multi-task env of an env slot.

    Args:
        config: Config of the env, with its tasks or its curriculum.
        make: Creates the env with additional keyword arguments.
        lessons: Keyword arguments that a curriculum sets for the env slots; None without a curriculum.
        env_index: Index of the env slot.
    """
    episodes = EpisodeTasks(config.tasks, lessons, env_index)
    return TaskEnv(config.id, make, episodes, shows_task=config.task_in_observation)


class TaskEnv(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Multi-task env, which recreates the wrapped env if the next episode's task has different keyword arguments.

    Infos report the task: for a list of tasks, `task` is the task's index; for a function that returns tasks,
    `task/NAME` is one of the task's numbers.

    Args:
        env_id: Name of the env in messages.
        make: Creates the env with additional keyword arguments.
        episodes: Tasks of the episodes.
        shows_task: Whether observations include the task, `{observation: ..., task: ...}`: the index in a list, or all
            numbers of a task that a function returned.

    Raises:
        UsageError: A task has no numbers for observations.
    """

    def __init__(
        self, env_id: str, make: Callable[[Mapping[str, Any]], Env], episodes: EpisodeTasks, *, shows_task: bool
    ) -> None:
        self._env_id = env_id
        self._make = make
        self._episodes = episodes
        self._shows_task = shows_task
        self._kwargs: Mapping[str, Any] = episodes.config.kwargs
        self.env = make(self._kwargs)
        self.action_space = self.env.action_space
        self.render_mode, self.metadata = self.env.render_mode, self.env.metadata
        self.observation_space = self._space() if shows_task else self.env.observation_space

    def _space(self) -> gymnasium.Space[Any]:
        """Returns the observation space with the task added."""
        task = self._episodes.task
        assert task is not None  # a config with `task_in_observation` has tasks
        return task.space_with(self.env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the env to an episode with the task sampled by the seed."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31)) if seed is None else seed
        self._take(self._episodes.begin(drawn))
        own = copy.deepcopy(self._episodes.config.reset_options)
        observation, info = self.env.reset(seed=seed, options=own | (options or {}))
        return self._shown(observation), self._told(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the env of the current task."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._shown(observation), reward, terminated, truncated, self._told(info)

    def _take(self, kwargs: Mapping[str, Any]) -> None:
        if kwargs == self._kwargs:
            return
        close_or_warn(self.env.close, self._env_id, "before an episode of another task")
        self.env = self._make(kwargs)
        self._kwargs = kwargs
        spaces = self.env.observation_space, self.env.action_space
        shown = self.observation_space
        seen = self._space() if self._shows_task else spaces[0]
        if seen != shown or spaces[1] != self.action_space:
            raise ValueError(
                f"with {dict(kwargs)}, the env has the observation space {seen} and the action space {spaces[1]}, but "
                f"before it had {shown} and {self.action_space}; all tasks must have the same spaces"
            )

    def _shown(self, observation: Any) -> Any:
        if not self._shows_task:
            return observation
        assert self._episodes.task is not None
        return self._episodes.task.add_to_observation(observation, self.env.observation_space)

    def _told(self, info: dict[str, Any]) -> dict[str, Any]:
        task = self._episodes.task
        return info if task is None else {**info, **task.info}

    def render(self) -> Any:
        """Renders the env."""
        return self.env.render()

    def close(self) -> None:
        """Closes the env."""
        self.env.close()
