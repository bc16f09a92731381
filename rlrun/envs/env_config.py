"""Which environment, with which arguments and wrappers, stepped by which backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from rlrun.config import ConfigModel, PositiveFloat, PositiveInt
from rlrun.data.sample_batch import OWN_COLUMNS

Backend = Literal["auto", "vector", "loop", "envpool"]

Preset = Literal["atari"]


def _id_alone(data: Any) -> Any:
    """Lets a bare string stand for the mapping that holds nothing but an id."""
    return {"id": data} if isinstance(data, str) else data


class WrapperConfig(ConfigModel):
    """A wrapper around a single environment; a bare string in YAML is its id."""

    id: str
    """A name in gymnasium.wrappers, such as TimeAwareObservation, or package.module:Class."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the wrapper."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_string(cls, data: Any) -> Any:
        return _id_alone(data)


class TaskConfig(ConfigModel):
    """What the episodes of one task are given."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the environment, on top of its own; it is made anew where they differ."""

    reset_options: dict[str, Any] = Field(default_factory=dict)
    """Handed to the environment's `reset(options=...)`, on top of its own."""


def check_columns(columns: Sequence[str]) -> None:
    """Checks names of numbers in infos that become columns of a batch.

    Raises:
        ValueError: One appears twice, or a batch has a column of its name.
    """
    for name in columns:
        if columns.count(name) > 1:
            raise ValueError(f"columns has {name!r} twice")
        if name in OWN_COLUMNS:
            raise ValueError(f"columns: a batch has a column {name!r} already; call the number in the info otherwise")


def lacking_column(columns: Sequence[str], learned_from: Iterable[str]) -> str:
    """Says which column is learned from that an env's config does not name; "" if it names all of them."""
    if missing := [name for name in learned_from if name not in columns]:
        return f"columns must name {missing[0]!r}, a number in every step's info, which the algorithm learns from"
    return ""


def check_tasks(tasks: tuple[TaskConfig, ...] | str | None, *, is_shown: bool) -> None:
    """Checks that there are tasks where some are named or shown.

    Raises:
        ValueError: There are none.
    """
    if is_shown and tasks is None:
        raise ValueError("task_in_observation: there are no tasks to show; say which in tasks")
    if tasks == ():
        raise ValueError("tasks: name at least one")


def kwargs_of_tasks(kwargs: dict[str, Any], tasks: tuple[TaskConfig, ...] | str | None) -> tuple[dict[str, Any], ...]:
    """Returns the keyword arguments of each task of a list, on top of an env's own; these alone where there is none."""
    listed = tasks if isinstance(tasks, tuple) else (TaskConfig(),)
    return tuple({**kwargs, **task.kwargs} for task in listed)


class EnvConfig(ConfigModel):
    """An environment and how it is stepped; a bare string in YAML is its id."""

    id: str
    """A Gymnasium id such as CartPole-v1 or ALE/Pong-v5, package.module:Id-v0 for a package that registers ids when it
    is imported, or package.module:factory for an env of one's own."""

    preset: Preset | None = None
    """What is usual for a family of envs, under what is written: `atari` stands for settings of the algorithm and for
    `evaluation_kwargs`. A resolved spec spells them out."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the environment."""

    evaluation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments that are others where a policy is judged or recorded; they stand on top of `kwargs`."""

    wrappers: tuple[WrapperConfig, ...] = ()
    """Wrappers around each single environment, the innermost first; they need the loop backend."""

    reset_options: dict[str, Any] = Field(default_factory=dict)
    """What each episode begins with: handed to the environment's `reset(options=...)`. It needs the loop backend."""

    columns: tuple[str, ...] = ()
    """Numbers in the info of every step that are recorded as columns of the batch, such as `cost`; their sums over an
    episode are reported as `episode_columns/<name>_mean`. They need the loop backend."""

    tasks: tuple[TaskConfig, ...] | str | None = None
    """Tasks of which each episode has one, drawn by its seed: a list, or module:function of the seed that returns one.
    Infos tell it. It needs the loop backend."""

    task_in_observation: bool = False
    """Whether observations hold the task: `{observation: ..., task: ...}`, its number in the list, or the numbers of
    one that a function returned."""

    curriculum: str | None = None
    """module:function that is given an iteration's metrics and returns keyword arguments, on top of the environment's
    own, for episodes that begin from then on. It needs the loop backend."""

    backend: Backend = "auto"
    """How envs are stepped: loop (one by one), vector (the env's own vector form), envpool, or auto (vector if it
    has one and nothing forbids it, else loop)."""

    max_episode_steps: PositiveInt | None = None
    """Steps after which an episode is truncated; null keeps the environment's own limit."""

    max_replay_s: PositiveFloat = 60.0
    """Seconds that a resume may spend on bringing the episodes of one worker back by replaying their actions."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_string(cls, data: Any) -> Any:
        return _id_alone(data)

    @model_validator(mode="after")
    def _wrappers_need_single_envs(self) -> EnvConfig:
        if self.wrappers and self.backend in ("vector", "envpool"):
            raise ValueError(
                f"wrappers go around single environments, which backend {self.backend} has none of; "
                "use backend loop, or auto"
            )
        return self

    @model_validator(mode="after")
    def _reset_options_need_single_envs(self) -> EnvConfig:
        if self.reset_options and self.backend in ("vector", "envpool"):
            raise ValueError(
                f"reset_options are for the reset of single environments, which backend {self.backend} has none of; "
                "use backend loop, or auto"
            )
        return self

    @model_validator(mode="after")
    def _columns_of_single_envs(self) -> EnvConfig:
        if self.columns and self.backend in ("vector", "envpool"):
            raise ValueError(
                f"columns are read from the infos of single environments, which backend {self.backend} has none of; "
                "use backend loop, or auto"
            )
        check_columns(self.columns)
        return self

    @property
    def varies(self) -> bool:
        """Whether episodes differ in more than their seeds."""
        return self.tasks is not None or self.curriculum is not None

    @model_validator(mode="after")
    def _tasks_are_there(self) -> EnvConfig:
        check_tasks(self.tasks, is_shown=self.task_in_observation)
        if self.varies and self.backend in ("vector", "envpool"):
            raise ValueError(
                f"tasks and curricula are for single environments, which backend {self.backend} has none of; use "
                "backend loop, or auto"
            )
        return self

    def in_evaluation(self) -> EnvConfig:
        """Returns the environment that a policy is judged in: with `evaluation_kwargs` on top of `kwargs`."""
        return self.replace(kwargs={**self.kwargs, **self.evaluation_kwargs}) if self.evaluation_kwargs else self
