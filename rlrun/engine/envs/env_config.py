"""Config of a single-agent env or a multi-agent world: id, keyword arguments, wrappers, backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from annotated_types import Ge, Le
from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails
from typing_extensions import override

from rlrun.engine.data.sample_batch import OWN_COLUMNS
from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.settings.config import (
    EXPLANATIONS,
    ConfigModel,
    NonEmptyText,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
)
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.messages.explain import Mistake

Backend = Literal["auto", "vector", "loop", "envpool"]

WITHOUT_ENV = "rlrun.plugin:WithoutEnv"
"""Id of the placeholder env in runs that learn only from data."""

Preset = Literal["atari"]

WorldClock = Literal["parallel", "per_agent"]
"""Time axis of experience. `parallel`: one row per world step, in which all living agents act. `per_agent`: one row per
decision of an agent, for turn-based worlds or agents that act at different rates."""

LoggedActions = Literal["refuse", "mask", "learn"]
"""Treatment of actions that a client took instead of the policy's: refused, masked in the losses, or learned from."""

EXTERNAL = "external"
"""Id of external envs in messages and records."""
OPENENV = "rlrun.plugin:OpenEnv"
"""Env class that plays on an OpenEnv server; the key `openenv` expands to it."""

MissingFinal = Literal["bootstrap", "drop"]
"""Treatment of a step that truncates an episode without a final observation, in an env of tensors.

`bootstrap`: the value of the observation before the step replaces the unknown value after it, as in rsl_rl
(arXiv:2509.10771). `drop`: the step is left out, and the observation before it counts as the final one.
"""

WHICH_ENV = ("id", "tensors", "world", "pettingzoo", "external")
"""Names of the settings that can name the env; exactly one is given."""

OF_ONE_AGENT = ("id", "preset", "reset_options", "backend")
"""Names of the settings valid only for single-agent envs."""

OF_MANY_AGENTS = ("world", "pettingzoo", "external", "clock")
"""Names of the settings valid only for multi-agent worlds."""

OF_TENSORS = ("tensors", "missing_final")
"""Names of the settings valid only for envs of tensors."""

_NOT_OF_TENSORS = ("wrappers", "columns", "tasks", "task_in_observation", "curriculum", "max_episode_steps")


def _id_alone(data: Any) -> Any:
    """Expands a bare id to the mapping {id: ...}; returns other data unchanged."""
    return {"id": data} if isinstance(data, str) else data


def _openenv_in_full(data: Any) -> Any:
    """Expands `openenv: {url: URL, ...}` to the env that plays on that server; returns other data unchanged.

    Resuming does not replay actions on the server unless `max_replay_s` is given.

    Raises:
        ValueError: The settings are not valid for a server.
    """
    if not isinstance(data, Mapping) or "openenv" not in data:
        return data
    further = {key: value for key, value in data.items() if key != "openenv"}
    if taken := further.keys() & {"id", "kwargs"}:
        raise ValueError(f"openenv already defines the env and its arguments: leave out {', '.join(sorted(taken))}")
    try:
        settings = OpenEnvConfig.model_validate(data["openenv"])
    except ValidationError as error:
        wrong = [*map(_below_openenv, OpenEnvConfig.mistakes(error))]
        raise ValidationError.from_exception_data("EnvConfig", wrong) from None
    kwargs = settings.model_dump(include=settings.model_fields_set)
    return {"id": OPENENV, "kwargs": kwargs, "max_replay_s": 0.0, **further}


def _below_openenv(mistake: Mistake) -> InitErrorDetails:
    """Relabels pydantic's error about a server's settings, since `EnvConfig` stores these settings in `kwargs`."""
    kind = load_internal(EXPLANATIONS["error of a key"]) if mistake.at_key else ValueError
    reason = kind(mistake.message)
    loc = ("openenv", *mistake.location)
    return {"type": "value_error", "loc": loc, "input": None, "ctx": {"error": reason}}


class OpenEnvConfig(ConfigModel):
    """Settings of an env on an OpenEnv server, given as `openenv` instead of an id; see docs/external.md."""

    url: NonEmptyText
    """Address of the server, such as ws://localhost:8000."""

    spaces: dict[str, Any]
    """Spaces of `observation` and `action` as JSON, each a Dict of the server's fields to use."""

    timeout_s: PositiveFloat = 60.0
    """Maximum seconds to wait for an answer from the server."""

    reset: dict[str, Any] = Field(default_factory=dict)
    """Arguments of each reset in addition to the seed."""


class WrapperConfig(ConfigModel):
    """Config of an env wrapper: id and keyword arguments; a bare string in YAML is the wrapper's id."""

    id: str
    """Name of a class in gymnasium.wrappers, such as TimeAwareObservation, or import path package.module:Class."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the wrapper."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_string(cls, data: Any) -> Any:
        return _id_alone(data)


class TaskConfig(ConfigModel):
    """Config of one task of a multi-task env: keyword arguments and reset options for the episodes of the task."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments merged over the env's; the env is created again if a new task changes them."""

    reset_options: dict[str, Any] = Field(default_factory=dict)
    """Options for `reset(options=...)`, merged over the env's `reset_options`."""


def check_columns(columns: Sequence[str]) -> None:
    """Validates the setting `columns`, the names of info entries that are recorded as columns of training batches.

    Raises:
        ValueError: A name is repeated, or is the name of a standard batch column.
    """
    for name in columns:
        if columns.count(name) > 1:
            raise ValueError(f"columns: {name!r} appears twice")
        if name in OWN_COLUMNS:
            raise ValueError(
                f"columns: {name!r} is already the name of a batch column; give the number in the info another name"
            )


def missing_column(columns: Sequence[str], learned_from: Iterable[str]) -> str:
    """Returns the error message for an info entry that the algorithm needs but the env's `columns` do not list.

    "" if none is missing.
    """
    if missing := [name for name in learned_from if name not in columns]:
        return f"columns must include {missing[0]!r}, the number in every step's info that the algorithm learns from"
    return ""


def check_tasks(tasks: tuple[TaskConfig, ...] | str | None, *, is_shown: bool) -> None:
    """Validates that the setting `tasks` is not empty, and that it is present if observations include the task.

    Raises:
        ValueError: The list of tasks is empty, or missing although observations include the task.
    """
    if is_shown and tasks is None:
        raise ValueError("task_in_observation: there are no tasks to show; list them in tasks")
    if tasks == ():
        raise ValueError("tasks: name at least one")


def kwargs_of_tasks(kwargs: dict[str, Any], tasks: tuple[TaskConfig, ...] | str | None) -> tuple[dict[str, Any], ...]:
    """Returns the env's keyword arguments for each listed task; the task's own arguments override the env's.

    Without tasks, the list has a single element, the env's keyword arguments.
    """
    listed = tasks if isinstance(tasks, tuple) else (TaskConfig(),)
    return tuple({**kwargs, **task.kwargs} for task in listed)


class TlsConfig(ConfigModel):
    """Settings of a server's certificate, for encrypted connections."""

    cert: NonEmptyText
    """Certificate file in PEM format."""

    key: NonEmptyText
    """File with the certificate's private key, in PEM format."""


class ExternalConfig(ConfigModel):
    """Settings of the server to which simulators connect as clients; see docs/external.md for the protocol."""

    port: Annotated[int, Ge(0), Le(65_535)] = 9900
    """Port of the server. A rollout worker listens on `port` + its index, which is 0 without worker processes."""

    host: NonEmptyText = "127.0.0.1"
    """Network address to listen on, such as 0.0.0.0 for all interfaces. Addresses other than the local machine's
    require a token, from the environment variable RLRUN_TOKEN or `token_file`."""

    spaces: dict[str, Any]
    """Spaces as JSON, `{observation: ..., action: ...}`; for several agents by id, `{buyer: {observation: ..., action:
    ...}, ...}`; or the name of a JSON file."""

    token_file: NonEmptyText | None = None
    """File that holds the token; if null, the environment variable RLRUN_TOKEN is used."""

    tls: TlsConfig | None = None
    """Certificate for encrypted connections; null for none."""

    logged_actions: LoggedActions | None = None
    """Use of actions that clients chose themselves (`log_action`): `refuse` makes them an error, `mask` leaves their
    steps out of an on-policy algorithm's losses but not of its returns, `learn` learns from them. Null refuses them in
    on-policy algorithms and learns from them in others."""

    client_timeout_s: PositiveFloat = 30.0
    """Seconds of silence after which a client counts as dead and its episodes are truncated."""

    gather_ms: NonNegativeFloat = 5.0
    """Maximum milliseconds that a request waits, so that it can be answered together with requests of other running
    episodes. The server does not wait for simulators whose steps take longer."""

    max_message_bytes: Annotated[int, Ge(1_000)] = 8_000_000
    """Maximum length of a message in bytes."""

    max_requests_per_s: PositiveFloat = 10_000.0
    """Maximum mean number of requests per second from one address."""

    @field_validator("spaces", mode="before")
    @classmethod
    def _read(cls, spaces: Any) -> Any:
        """Loads the spaces from a file, so that a saved run does not need the file."""
        if not isinstance(spaces, str):
            return spaces
        try:
            if not Path(spaces).is_file():
                raise ValueError("file not found")
            return json.loads(Path(spaces).read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"cannot read {spaces}: {error}") from None


@dataclass(frozen=True)
class UserEnv:
    """Env that a user passed as a Python object without an import name; it exists only in this process.

    Attributes:
        factory: Callable used instead of a factory at an import path.
        instance: The user's env, if the object is an instance; None for a class or a function.
        num_envs: Number of env slots of the instance; None for a class or a function, which can create any number.
    """

    factory: Callable[..., Any]
    instance: Any = None
    num_envs: int | None = None


def is_unnamed(env_id: str) -> bool:
    """Whether an id like ``<Tank>`` refers to an env that was passed as a Python object without an import name."""
    return env_id.startswith("<")


class EnvConfig(ConfigModel):
    """Config of a single-agent env or a multi-agent world, with its backend; a bare string in YAML is the id.

    One of five keys names the env: `id` a single-agent env, `tensors` a vector env of torch tensors, `world` or
    `pettingzoo` a multi-agent env, and `external` the simulators that connect to a server as clients.
    """

    id: str = ""
    """Gymnasium id such as CartPole-v1; package.module:Id-v0 if the package registers it on import; or
    package.module:factory for a custom env. In a world, the value of `world` or `pettingzoo`."""

    world: str | None = None
    """Factory of a multi-agent world, package.module:factory. It returns a World, or PettingZoo's ParallelEnv or
    AECEnv. If its first parameter is `num_worlds`, it returns an ArrayWorld of that size."""

    pettingzoo: str | None = None
    """Module of a PettingZoo env, such as mpe2.simple_spread_v3. rlrun uses its `parallel_env` if there is one, and
    otherwise its turn-based `env`."""

    external: ExternalConfig | None = None
    """Server from which simulators request actions; see docs/external.md. Each running episode counts as a world, so
    `num_envs_per_worker` is the maximum number of episodes at a time."""

    tensors: str | None = None
    """Factory of a vector env whose data are torch tensors on one device, package.module:factory. It takes the number
    of slots, the device and `kwargs`, and returns a TensorVectorEnv; see docs/custom_environments.md."""

    missing_final: MissingFinal = "bootstrap"
    """Treatment of truncations without a final observation in an env that returns tensors: `bootstrap` from the value
    before the step, or `drop` the step."""

    preset: Preset | None = None
    """Preset for a family of envs; explicit settings override it. `atari` sets `evaluation_kwargs` and some of the
    algorithm's settings; a resolved spec lists them."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the env or world."""

    evaluation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments merged over `kwargs` for evaluations and recordings."""

    wrappers: tuple[WrapperConfig, ...] = ()
    """Wrappers around each single env, innermost first; they require the loop backend. In a world, package.module:Class
    of a wrapper that takes a World and is itself a World."""

    reset_options: dict[str, Any] = Field(default_factory=dict)
    """Options for the env's `reset(options=...)` at each episode; they require the loop backend."""

    columns: tuple[NonEmptyText, ...] = ()
    """Names of numbers in every step's info, such as `cost`, that are recorded as columns of the batch; they require
    the loop backend. Results report their sums over an episode as `episode_columns/<name>_mean`. In a world, they come
    from the infos of acting agents; with the clock `per_agent`, they are summed until the agent's next decision."""

    tasks: tuple[TaskConfig, ...] | str | None = None
    """Task distribution: a list of equally likely tasks, or module:function from a seed to a task. The episode's seed
    determines its task, which infos report. Tasks require the loop backend; in a world, they have no
    `reset_options`."""

    task_in_observation: bool = False
    """Whether observations include the task, `{observation: ..., task: ...}`: its index in the list, or the numbers
    that a function returned."""

    curriculum: str | None = None
    """Curriculum, module:function from an iteration's metrics to keyword arguments for later episodes, merged over the
    env's; it requires the loop backend. In asynchronous algorithms, timing decides when episodes use new arguments."""

    backend: Backend = "auto"
    """Vectorization: loop (single envs in sequence), vector (the env's native vector form), envpool, or auto: vector if
    the env and the other settings allow it, else loop."""

    clock: WorldClock | None = None
    """Time axis of a world. `parallel` has one row per world step, in which all living agents act. `per_agent` has one
    row per decision of an agent, for agents that take turns or act at different rates. Null for the world's own."""

    max_episode_steps: PositiveInt | None = None
    """Time limit: number of steps after which an episode is truncated (in a world, for all agents); null for the env's
    own limit."""

    max_replay_s: NonNegativeFloat = 60.0
    """Maximum seconds for replaying the actions of a worker's current episodes when a run is resumed; 0 starts new
    episodes instead."""

    _given: UserEnv | None = PrivateAttr(default=None)

    @model_validator(mode="wrap")
    @classmethod
    def _has_settings_of_its_kind(cls, data: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        """Expands a bare id, and rejects settings of the other kind of env (single- or multi-agent)."""
        data = _openenv_in_full(_id_alone(data))
        if not isinstance(data, Mapping):
            return build(data)
        foreign = _foreign_to(data)
        wrong = [*_foreign_settings(data, foreign, [name for name in cls.model_fields if name not in foreign])]
        own = {key: value for key, value in data.items() if key not in foreign}
        if names_world(data):
            named = (data.get("world"), data.get("pettingzoo"))
            own["id"] = next((name for name in named if isinstance(name, str)), EXTERNAL if "external" in data else "")
        elif "tensors" in data:
            own["id"] = data["tensors"]
        elif "id" not in data and not any(did_you_mean(str(key), WHICH_ENV) for key in data.keys() - cls.model_fields):
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
        replaced = self.parse({**{name: value for name, value in self if name not in self._foreign}, **changes})
        return replaced if self._given is None or replaced.id != self.id else replaced.with_user_env(self._given)

    def with_user_env(self, given: UserEnv) -> Self:
        """Returns a copy of the config with an env that the user passed as a Python object.

        `id` is then used in messages only.
        """
        copied = self.model_copy()
        copied._given = given
        return copied

    @property
    def given(self) -> UserEnv | None:
        """Object without an import name that the user passed as the env; None if the env has an id or import path."""
        return self._given

    @property
    def fixed_num_envs(self) -> int | None:
        """Number of env slots of a vector env that the user passed as an instance.

        None if any number of envs can be created.
        """
        return None if self._given is None else self._given.num_envs

    @property
    def _foreign(self) -> Collection[str]:
        """Names of the settings that are invalid for this kind of env (single-agent, tensors or multi-agent)."""
        return _foreign_to({self.named_by})

    @model_validator(mode="after")
    def _one_world(self) -> Self:
        worlds = (self.world, self.pettingzoo, self.external)
        if names_world(self.model_fields_set) and sum(world is not None for world in worlds) != 1:
            raise ValueError(
                "name the world with one of three keys: `world`, your own factory (package.module:factory); "
                "`pettingzoo`, a module such as mpe2.simple_spread_v3; or `external`, a server for simulators"
            )
        return self

    @model_validator(mode="after")
    def _clients_make_the_episodes(self) -> Self:
        if self.external is not None:
            fields = {name: field for name, field in type(self).model_fields.items() if name not in ("id", "external")}
            changed = [
                name
                for name, field in fields.items()
                if name in self.model_fields_set and getattr(self, name) != field.get_default(call_default_factory=True)
            ]
            if changed:
                raise ValueError(f"the clients of an external env run its episodes: leave out {', '.join(changed)}")
        return self

    @model_validator(mode="after")
    def _simulator_makes_the_episodes(self) -> Self:
        if self.tensors is not None and (asked := [name for name in _NOT_OF_TENSORS if getattr(self, name)]):
            raise ValueError(f"an env of tensors supports no {', '.join(asked)}; pass what it needs in kwargs")
        return self

    @model_validator(mode="after")
    def _backend_supports_settings(self) -> Self:
        asked = {
            "wrappers are not supported": self.wrappers,
            "reset_options are not supported": self.reset_options,
            "columns are not supported": self.columns,
            "tasks and curricula are not supported": self.varies,
        }
        if self.backend in ("vector", "envpool"):
            for told in (told for told, is_asked in asked.items() if is_asked):
                raise ValueError(f"{told} with backend: {self.backend}; use backend: loop or auto")
        return self

    @model_validator(mode="after")
    def _columns_and_tasks_are_possible(self) -> Self:
        check_columns(self.columns)
        check_tasks(self.tasks, is_shown=self.task_in_observation)
        listed = self.tasks if self.has_many_agents and isinstance(self.tasks, tuple) else ()
        if any(task.reset_options for task in listed):
            raise ValueError("tasks: a world's reset() takes no options; define tasks with kwargs instead")
        return self

    @property
    def named_by(self) -> str:
        """Config key that names the env: `world`, `pettingzoo`, `external`, `tensors` or `id`."""
        keys = ("world", "pettingzoo", "external", "tensors", "id")
        return next(key for key in keys if getattr(self, key) is not None)

    @property
    def has_many_agents(self) -> bool:
        """Whether this config describes a multi-agent world."""
        return self.world is not None or self.pettingzoo is not None or self.external is not None

    @property
    def varies(self) -> bool:
        """Whether the env has tasks or a curriculum, so that episodes differ in more than their seeds."""
        return self.tasks is not None or self.curriculum is not None

    def in_evaluation(self) -> Self:
        """Returns the config for evaluation: `kwargs` updated with `evaluation_kwargs`."""
        return self.replace(kwargs={**self.kwargs, **self.evaluation_kwargs}) if self.evaluation_kwargs else self


def names_world(data: Any) -> bool:
    """Whether unparsed env settings, or just the set of their keys, describe a multi-agent world."""
    return isinstance(data, Mapping | set) and any(kind in data for kind in ("world", "pettingzoo", "external"))


def _foreign_to(data: Any) -> tuple[str, ...]:
    """Returns the names of settings that are invalid for the kind of env that the given settings (or keys) describe."""
    if names_world(data):
        return (*OF_ONE_AGENT, *OF_TENSORS)
    return (*OF_ONE_AGENT, *OF_MANY_AGENTS) if "tensors" in data else (*OF_MANY_AGENTS, *OF_TENSORS)


def _foreign_settings(
    data: Mapping[str, Any], foreign: Collection[str], known: Sequence[str]
) -> Iterator[InitErrorDetails]:
    """Yields a validation error for each setting in the raw data that its kind of env does not have."""
    for key in data:
        if key in foreign:
            message = load_internal(EXPLANATIONS["unknown key"])(key, known)
            error = load_internal(EXPLANATIONS["error of a key"])(message)
            yield {"type": "value_error", "loc": (key,), "input": data[key], "ctx": {"error": error}}
