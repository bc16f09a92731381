"""Multi-task envs with many agents: each episode's task is sampled with the episode's seed or set by a curriculum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.tasks import EpisodeTasks, Lessons
from rlrun.engine.envs.vector_env import close_or_warn
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.worlds.world import World, WorldStep


class TaskWorld(World):
    """Multi-task world, which is recreated when the next episode's task has different keyword arguments.

    Tasks may differ in their agents, for example in number. `possible_agents` are taken from the first created world,
    and an agent must have equal spaces in all worlds.

    Args:
        world_id: Name of the world in messages.
        make: Function that creates the world with additional keyword arguments.
        episodes: Sampler of each episode's task.
        shows_task: Whether observations contain the task, `{observation: ..., task: ...}`: the index in a list, or the
            numbers of a task that a function returned.

    Raises:
        UsageError: The task has no numbers to add to observations, or has settings that worlds do not support.
    """

    def __init__(
        self, world_id: str, make: Callable[[Mapping[str, Any]], World], episodes: EpisodeTasks, *, shows_task: bool
    ) -> None:
        self._id = world_id
        self._make = make
        self._episodes = episodes
        self._shows_task = shows_task
        self._kwargs: Mapping[str, Any] = episodes.config.kwargs
        self._refuse_options()
        self._world = make(self._kwargs)
        self._inner: dict[str, Space[Any]] = {}
        self._told: dict[str, Spaces] = {}
        self._met: set[str] = set()
        self.clock = self._world.clock
        self.possible_agents = self._world.possible_agents
        self.state_space = self._world.state_space

    def _refuse_options(self) -> None:
        if self._episodes.config.reset_options:
            raise UsageError("env.tasks: a world's reset() takes no options; define tasks with kwargs instead")

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns an agent's spaces, with the task added to the observation space if `shows_task`."""
        self._told[agent] = self._spaces_now(agent)
        return self._told[agent]

    def _spaces_now(self, agent: str) -> Spaces:
        own = self._world.spaces(agent)
        self._inner[agent] = own.observation
        if not self._shows_task:
            return own
        task = self._episodes.task
        assert task is not None  # a config with `task_in_observation` has tasks
        return Spaces(task.space_with(own.observation), own.action)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the world to an episode whose task is sampled with the seed."""
        kwargs = self._episodes.begin(seed)
        self._refuse_options()
        self._take(kwargs)
        observations = self._world.reset(seed)
        self._met = set(observations)
        return self._shown(observations)

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the world of the current task."""
        step = self._world.step(actions)
        infos, task = step.infos, self._episodes.task
        if task is not None:  # at every step, since the world may not report that its episode ends
            self._met.update(step.observations)
            infos = {agent: {**infos.get(agent, {}), **task.info} for agent in self._met | infos.keys()}
        return step._replace(observations=self._shown(step.observations), infos=infos)

    def _take(self, kwargs: Mapping[str, Any]) -> None:
        if kwargs == self._kwargs:
            return
        close_or_warn(self._world.close, self._id, "before an episode of another task")
        self._world = self._make(kwargs)
        self._kwargs = kwargs
        for agent in self._told.keys() & set(self._world.possible_agents):
            before, now = self._told[agent], self._spaces_now(agent)
            if now != before:
                raise ValueError(
                    f"with {dict(kwargs)} the spaces of agent '{agent}' change to {now.observation}, "
                    f"{now.action} from {before.observation}, {before.action}; all tasks must have the same "
                    "spaces"
                )
        if self._world.state_space != self.state_space:
            raise ValueError(
                f"with {dict(kwargs)} the world's state space changes to {self._world.state_space} from "
                f"{self.state_space}; all tasks must have the same spaces"
            )

    def _shown(self, observations: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._shows_task:
            return observations
        task = self._episodes.task
        assert task is not None
        for agent in observations.keys() - self._inner.keys():
            self.spaces(agent)
        return {agent: task.add_to_observation(seen, self._inner[agent]) for agent, seen in observations.items()}

    @override
    def state(self) -> NDArray[Any]:
        """Returns the global state of the world."""
        return self._world.state()

    @override
    def render(self) -> NDArray[np.uint8] | None:
        """Renders the world."""
        return self._world.render()

    @override
    def close(self) -> None:
        """Closes the world."""
        self._world.close()


def task_world(
    config: EnvConfig, make: Callable[[Mapping[str, Any]], World], lessons: Lessons | None, number: int
) -> TaskWorld:
    """Creates a multi-task world.

    Args:
        config: Config of the world, with its tasks or its curriculum.
        make: Function that creates the world with additional keyword arguments.
        lessons: Keyword arguments that a curriculum sets for the vectorized worlds; None without a curriculum.
        number: Index of the world among the vectorized worlds.
    """
    return TaskWorld(
        config.id, make, EpisodeTasks(config.tasks, lessons, number), shows_task=config.task_in_observation
    )
