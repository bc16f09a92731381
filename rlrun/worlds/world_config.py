"""Which world of many agents, with which arguments and wrappers."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from rlrun.config import ConfigModel, NonEmptyText, PositiveFloat, PositiveInt
from rlrun.envs.env_config import TaskConfig, WrapperConfig, check_columns, check_tasks
from rlrun.worlds.world_view import WorldClock


class WorldConfig(ConfigModel):
    """A world of many agents: one of one's own, or one of PettingZoo's."""

    world: str | None = None
    """package.module:factory of what makes the world: a World of rlrun, a ParallelEnv or an AECEnv of PettingZoo; or,
    where its first parameter is `num_worlds`, an ArrayWorld of so many worlds."""

    pettingzoo: str | None = None
    """A module that holds a PettingZoo env, such as mpe2.simple_spread_v3. Its `parallel_env` is made, or its `env`,
    in which agents take turns, where it has no other."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the world."""

    evaluation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments that are others where policies are judged or recorded; they stand on top of `kwargs`."""

    wrappers: tuple[WrapperConfig, ...] = ()
    """Wrappers around each world, the innermost first: package.module:Class, which is given a World and is one."""

    tasks: tuple[TaskConfig, ...] | str | None = None
    """Tasks of which each episode of the world has one, drawn by its seed: a list, or module:function of the seed that
    returns one. Infos tell it. A world has `kwargs` of a task, and no `reset_options`."""

    task_in_observation: bool = False
    """Whether each agent's observations hold the task: `{observation: ..., task: ...}`, its number in the list, or the
    numbers of one that a function returned."""

    curriculum: str | None = None
    """module:function that is given an iteration's metrics and returns keyword arguments, on top of the world's own,
    for episodes that begin from then on."""

    columns: tuple[NonEmptyText, ...] = ()
    """Numbers in the infos of agents that are recorded as columns of their policies' batches, such as a cost. In each
    step the infos of those who act hold them. With the clock `per_agent` those until an agent's next decision add up,
    as rewards do."""

    clock: WorldClock | None = None
    """What a row of experience is: a step of the world, in which all living agents act (parallel), or an agent's own
    decision (per_agent), where agents take turns or act at different speeds; null keeps the world's own."""

    max_episode_steps: PositiveInt | None = None
    """Steps of the world after which the episodes of all its agents are truncated; null sets no limit beside the
    world's own."""

    max_replay_s: PositiveFloat = 60.0
    """Seconds that a resume may spend on bringing the worlds of one worker back by replaying their actions."""

    @model_validator(mode="after")
    def _one_world(self) -> WorldConfig:
        if (self.world is None) == (self.pettingzoo is None):
            raise ValueError(
                "say which world, by one of the two: `world`, a factory of one's own (package.module:factory), or "
                "`pettingzoo`, a module such as mpe2.simple_spread_v3"
            )
        return self

    @model_validator(mode="after")
    def _tasks_are_there(self) -> WorldConfig:
        check_tasks(self.tasks, is_shown=self.task_in_observation)
        if isinstance(self.tasks, tuple) and any(task.reset_options for task in self.tasks):
            raise ValueError("tasks: a world's reset takes no options; say what differs in kwargs")
        return self

    @model_validator(mode="after")
    def _columns_can_be_recorded(self) -> WorldConfig:
        check_columns(self.columns)
        return self

    @property
    def varies(self) -> bool:
        """Whether episodes differ in more than their seeds."""
        return self.tasks is not None or self.curriculum is not None

    @property
    def id(self) -> str:
        """What messages call the world."""
        return self.world or self.pettingzoo or ""

    def in_evaluation(self) -> WorldConfig:
        """Returns the world that policies are judged in: with `evaluation_kwargs` on top of `kwargs`."""
        return self.replace(kwargs={**self.kwargs, **self.evaluation_kwargs}) if self.evaluation_kwargs else self
