"""Loggers that send a trial's results to Weights & Biases, MLflow or a custom class, and their settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from rlrun.engine.hook import refuse_other_settings
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.messages.explain import shown, unknown_name
from rlrun.engine.settings.config import ConfigModel, NonEmptyText
from rlrun.engine.settings.registry import load_object


class TrialLogger(ABC):
    """Base class of loggers, each of which sends one trial's results to a service.

    All methods are called from the logger's own thread, so a slow service does not delay training. An exception ends
    the logger with a message, and training continues. A custom logger receives its settings in the spec as keyword
    arguments.
    """

    @abstractmethod
    def start(self, trial: Mapping[str, Any], directory: Path, known_as: str | None) -> str:
        """Starts or continues the service's record of the trial.

        Args:
            trial: The trial as it is in its `spec.yaml`: `name`, `experiment`, `algorithm`, `env`, `config`, `seed`,
                the varying settings `params`, and more.
            directory: The trial's directory.
            known_as: The service's id for the trial from an earlier start; None for a new trial.

        Returns:
            The service's id for the trial.
        """

    @abstractmethod
    def log(self, row: Mapping[str, Any]) -> None:
        """Logs a result row: metric values by name, with None for missing values."""

    @abstractmethod
    def finish(self, status: str) -> None:
        """Logs the trial's status when it ends or pauses in this process, and delivers all pending results.

        Args:
            status: `TERMINATED`, `ERROR`, `INTERRUPTED`, or `PAUSED` if a scheduler will continue the trial later.
        """


def make_logger(path: str, settings: Mapping[str, Any]) -> TrialLogger:
    """Creates a custom logger.

    Args:
        path: `package.module:Class`.
        settings: Arguments of the class.

    Raises:
        UsageError: The class does not exist, lacks a method, or does not accept the arguments.
        UserCodeError: The module raises an exception while it is imported.
    """
    found = load_object(path, "logger")
    if not (isinstance(found, type) and issubclass(found, TrialLogger)):
        raise UsageError(f"'{path}' is not a TrialLogger: derive it from rlrun.plugin.TrialLogger")
    if missing := " and ".join(sorted(found.__abstractmethods__)):
        raise UsageError(
            f"the logger '{path}' does not define {missing}; a logger defines all methods of rlrun.plugin.TrialLogger"
        )
    refuse_other_settings(f"the logger '{path}'", found, settings)
    return found(**settings)


class WandbConfig(ConfigModel):
    """Settings for the Weights & Biases logger; each trial is a W&B run."""

    project: NonEmptyText | None = None
    """W&B project in which the trials are logged; null for the experiment's name."""
    entity: NonEmptyText | None = None
    """W&B user or team that owns the project; null for the logged-in user."""
    mode: Literal["online", "offline"] | None = None
    """Mode of the W&B client: online, or offline, to be uploaded later with `wandb sync`; null for `$WANDB_MODE`, else
    online."""
    tags: tuple[NonEmptyText, ...] = ()
    """Tags of each trial's run."""


class MlflowConfig(ConfigModel):
    """Settings for the MLflow logger; each trial is an MLflow run."""

    tracking_uri: NonEmptyText | None = None
    """Tracking URI of an MLflow server or database, such as http://localhost:5000; null for
    `$MLFLOW_TRACKING_URI`, else the folder mlruns next to the run's directory."""
    experiment: NonEmptyText | None = None
    """MLflow experiment in which the trials are logged; null for the name of rlrun's experiment."""


class LoggersConfig(ConfigModel):
    """Settings for loggers: a list of names ``[wandb]``, or ``{wandb: {project: walkers}}``, without credentials.

    ``my_lab.csv:CsvLogger`` names a custom class; its arguments follow as a mapping below the name.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, Any]] = Field(init=False)

    wandb: WandbConfig | None = None
    """Settings of Weights & Biases, which needs the package wandb; null for no such logger."""
    mlflow: MlflowConfig | None = None
    """Settings of MLflow, which needs the package mlflow-skinny or mlflow; null for no such logger."""

    @property
    def services(self) -> tuple[str, ...]:
        """Names of the configured services."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def custom(self) -> dict[str, dict[str, Any]]:
        """Settings of the custom loggers, by import path."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="before")
    @classmethod
    def _accept_names(cls, data: Any) -> Any:
        """Accepts a name, or a list of names and mappings, in place of the full mapping."""
        if isinstance(data, str | list | tuple):
            data = _in_full([data] if isinstance(data, str) else data)
        for name, settings in data.items() if isinstance(data, Mapping) else ():
            if name not in cls.model_fields and ":" not in str(name):
                raise ValueError(unknown_name(str(name), tuple(cls.model_fields), "unknown logger"))
            if settings is None:  # ambiguous: the logger with its defaults, or no logger
                raise ValueError(f"{name} must not be null: write {name}: {{}} for its defaults, or leave it out")
        return data

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: settings for name, settings in serialize(self).items() if settings is not None}


def _in_full(entries: Sequence[Any]) -> dict[str, Any]:
    """Converts a list of names and mappings to the full mapping."""
    found: dict[str, Any] = {}
    for entry in entries:
        if not isinstance(entry, str | Mapping):
            raise ValueError(f"each logger must be a name or a mapping, not {shown(entry)}")
        for name, settings in ({entry: {}} if isinstance(entry, str) else entry).items():
            if name in found:
                raise ValueError(f"{name} appears twice")
            found[name] = settings
    return found
