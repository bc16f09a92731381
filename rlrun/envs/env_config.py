"""Config of a single-agent env or a multi-agent world: id, keyword arguments, wrappers, backend."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails
from typing_extensions import override

from rlrun.config import ConfigModel, NonEmptyText, PositiveFloat, PositiveInt
from rlrun.data.sample_batch import OWN_COLUMNS
from rlrun.explain import UnknownKey
from rlrun.foreign_names import unknown_key

Backend = Literal["auto", "vector", "loop", "envpool"]

Preset = Literal["atari"]

WorldClock = Literal["parallel", "per_agent"]
"""Time axis of experience. `parallel`: one row per world step, in which all living agents act. `per_agent`: one row per
decision of an agent, for turn-based worlds or agents that act at different rates."""

OF_ONE_AGENT = ("id", "preset", "reset_options", "backend")
"""Names of the settings valid only for single-agent envs."""

OF_MANY_AGENTS = ("world", "pettingzoo", "clock")
"""Names of the settings valid only for multi-agent worlds."""


def _id_alone(data: Any) -> Any:
    """Expands a bare id to the mapping {id: ...}; returns other data unchanged."""
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
    """Validates names of info entries that are recorded as columns of a batch.

    Raises:
        ValueError: A name is repeated, or is the name of a standard batch column.
    """
    for name in columns:
        if columns.count(name) > 1:
            raise ValueError(f"columns has {name!r} twice")
        if name in OWN_COLUMNS:
            raise ValueError(f"columns: a batch has a column {name!r} already; call the number in the info otherwise")


def lacking_column(columns: Sequence[str], learned_from: Iterable[str]) -> str:
    """Error message for a column that the algorithm needs but the env's config lacks; "" if none is missing."""
    if missing := [name for name in learned_from if name not in columns]:
        return f"columns must name {missing[0]!r}, a number in every step's info, which the algorithm learns from"
    return ""


def check_tasks(tasks: tuple[TaskConfig, ...] | str | None, *, is_shown: bool) -> None:
    """Validates that tasks are configured where other settings refer to them.

    Raises:
        ValueError: No tasks are configured.
    """
    if is_shown and tasks is None:
        raise ValueError("task_in_observation: there are no tasks to show; say which in tasks")
    if tasks == ():
        raise ValueError("tasks: name at least one")


def kwargs_of_tasks(kwargs: dict[str, Any], tasks: tuple[TaskConfig, ...] | str | None) -> tuple[dict[str, Any], ...]:
    """Returns the keyword arguments of each listed task, merged over the env's own; without a list, the env's own."""
    listed = tasks if isinstance(tasks, tuple) else (TaskConfig(),)
    return tuple({**kwargs, **task.kwargs} for task in listed)


class EnvConfig(ConfigModel):
    """An environment of one agent, or a world of many, and how it is stepped; a bare string in YAML is its id.

    `world` and `pettingzoo` name a world of many agents, `id` an env with one.
    """

    id: str = ""
    """A Gymnasium id such as CartPole-v1 or ALE/Pong-v5, package.module:Id-v0 for a package that registers ids when it
    is imported, or package.module:factory for an env of one's own. Of a world it is what names it."""

    world: str | None = None
    """package.module:factory of what makes the world: a World of rlrun, a ParallelEnv or an AECEnv of PettingZoo; or,
    where its first parameter is `num_worlds`, an ArrayWorld of so many worlds."""

    pettingzoo: str | None = None
    """A module that holds a PettingZoo env, such as mpe2.simple_spread_v3. Its `parallel_env` is made, or its `env`,
    in which agents take turns, where it has no other."""

    preset: Preset | None = None
    """What is usual for a family of envs, under what is written: `atari` stands for settings of the algorithm and for
    `evaluation_kwargs`. A resolved spec spells them out."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the environment."""

    evaluation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments that are others where policies are judged or recorded; they stand on top of `kwargs`."""

    wrappers: tuple[WrapperConfig, ...] = ()
    """Wrappers around each single environment, the innermost first; they need the loop backend. One around a world is
    package.module:Class, which is given a World and is one."""

    reset_options: dict[str, Any] = Field(default_factory=dict)
    """What each episode begins with: handed to the environment's `reset(options=...)`. It needs the loop backend."""

    columns: tuple[NonEmptyText, ...] = ()
    """Numbers in the info of every step that are recorded as columns of the batch, such as `cost`; their sums over an
    episode are reported as `episode_columns/<name>_mean`. They need the loop backend. In a world the infos of those who
    act hold them; with the clock `per_agent` those until an agent's next decision add up, as rewards do."""

    tasks: tuple[TaskConfig, ...] | str | None = None
    """Tasks of which each episode has one, drawn by its seed: a list, or module:function of the seed that returns one.
    Infos tell it. It needs the loop backend. A world has `kwargs` of a task, and no `reset_options`."""

    task_in_observation: bool = False
    """Whether observations hold the task: `{observation: ..., task: ...}`, its number in the list, or the numbers of
    one that a function returned."""

    curriculum: str | None = None
    """module:function that is given an iteration's metrics and returns keyword arguments, on top of the environment's
    own, for episodes that begin from then on. It needs the loop backend."""

    backend: Backend = "auto"
    """How envs are stepped: loop (one by one), vector (the env's own vector form), envpool, or auto (vector if it
    has one and nothing forbids it, else loop)."""

    clock: WorldClock | None = None
    """What a row of experience is: a step of the world, in which all living agents act (parallel), or an agent's own
    decision (per_agent), where agents take turns or act at different speeds; null keeps the world's own."""

    max_episode_steps: PositiveInt | None = None
    """Steps after which an episode is truncated, in a world those of all its agents; null keeps the environment's own
    limit."""

    max_replay_s: PositiveFloat = 60.0
    """Seconds that a resume may spend on bringing the episodes of one worker back by replaying their actions."""

    @model_validator(mode="wrap")
    @classmethod
    def _has_settings_of_its_kind(cls, data: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        """Expands a bare id, and rejects settings of the other kind of env (single- or multi-agent)."""
        data = _id_alone(data)
        if not isinstance(data, Mapping):
            return build(data)
        foreign = OF_ONE_AGENT if names_world(data) else OF_MANY_AGENTS
        wrong = [*_foreign_settings(data, foreign, [name for name in cls.model_fields if name not in foreign])]
        own = {key: value for key, value in data.items() if key not in foreign}
        if names_world(data):
            named = (data.get("world"), data.get("pettingzoo"))
            own["id"] = next((name for name in named if isinstance(name, str)), "")
        elif "id" not in data:
            wrong.append({"type": "missing", "loc": ("id",), "input": data})
        try:
            made = build(own)
        except ValidationError as error:
            wrong += error.errors()  # type: ignore[arg-type]
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return made

    @model_serializer(mode="wrap")
    def _settings_of_its_kind(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if name not in self._foreign}

    @override
    def replace(self, **changes: Any) -> Self:
        return self.parse({**{name: value for name, value in self if name not in self._foreign}, **changes})

    @property
    def _foreign(self) -> Collection[str]:
        """Names of the settings invalid for this kind of env (single- or multi-agent)."""
        return OF_ONE_AGENT if self.has_many_agents else OF_MANY_AGENTS

    @model_validator(mode="after")
    def _one_world(self) -> Self:
        if names_world(self.model_fields_set) and (self.world is None) == (self.pettingzoo is None):
            raise ValueError(
                "say which world, by one of the two: `world`, a factory of one's own (package.module:factory), or "
                "`pettingzoo`, a module such as mpe2.simple_spread_v3"
            )
        return self

    @model_validator(mode="after")
    def _backend_has_what_is_asked_for(self) -> Self:
        asked = {
            "wrappers go around single environments": self.wrappers,
            "reset_options are for the reset of single environments": self.reset_options,
            "columns are read from the infos of single environments": self.columns,
            "tasks and curricula are for single environments": self.varies,
        }
        if self.backend in ("vector", "envpool"):
            for told in (told for told, is_asked in asked.items() if is_asked):
                raise ValueError(f"{told}, which backend {self.backend} has none of; use backend loop, or auto")
        return self

    @model_validator(mode="after")
    def _columns_and_tasks_are_possible(self) -> Self:
        check_columns(self.columns)
        check_tasks(self.tasks, is_shown=self.task_in_observation)
        listed = self.tasks if self.has_many_agents and isinstance(self.tasks, tuple) else ()
        if any(task.reset_options for task in listed):
            raise ValueError("tasks: a world's reset takes no options; say what differs in kwargs")
        return self

    @property
    def has_many_agents(self) -> bool:
        """Whether this config is of a multi-agent world."""
        return self.world is not None or self.pettingzoo is not None

    @property
    def varies(self) -> bool:
        """Whether episodes differ in more than their seeds."""
        return self.tasks is not None or self.curriculum is not None

    def in_evaluation(self) -> Self:
        """Returns the config for evaluation: `kwargs` updated with `evaluation_kwargs`."""
        return self.replace(kwargs={**self.kwargs, **self.evaluation_kwargs}) if self.evaluation_kwargs else self


def names_world(data: Any) -> bool:
    """Whether the raw config data, or a collection of its keys, is of a multi-agent world."""
    return isinstance(data, Mapping | set) and ("world" in data or "pettingzoo" in data)


def _foreign_settings(
    data: Mapping[str, Any], foreign: Collection[str], known: Sequence[str]
) -> Iterator[InitErrorDetails]:
    """Yields a validation error for each setting in raw data that is invalid for its kind of env."""
    for key in data:
        if key in foreign:
            error = UnknownKey(unknown_key(key, known))
            yield {"type": "value_error", "loc": (key,), "input": data[key], "ctx": {"error": error}}
