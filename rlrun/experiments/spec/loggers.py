"""Settings of loggers: services that also receive a trial's results, Weights & Biases and MLflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from rlrun.engine.messages.explain import shown, unknown_name
from rlrun.engine.settings.config import ConfigModel, NonEmptyText


class WandbConfig(ConfigModel):
    """Settings of the Weights & Biases logger; each trial is a W&B run."""

    project: NonEmptyText | None = None
    """W&B project of the trials; null for the experiment's name."""
    entity: NonEmptyText | None = None
    """W&B user or team that owns the project; null for the logged-in user."""
    mode: Literal["online", "offline"] | None = None
    """Mode of the W&B client: online, or offline to write files for a later `wandb sync`. null for $WANDB_MODE, else
    online."""
    tags: tuple[NonEmptyText, ...] = ()
    """Tags of each trial's run."""


class MlflowConfig(ConfigModel):
    """Settings of the MLflow logger; each trial is an MLflow run."""

    tracking_uri: NonEmptyText | None = None
    """Tracking URI of an MLflow server or database, such as http://localhost:5000; null for $MLFLOW_TRACKING_URI, else
    the folder mlruns next to the run's directory."""
    experiment: NonEmptyText | None = None
    """MLflow experiment of the trials; null for the name of rlrun's experiment."""


class LoggersConfig(ConfigModel):
    """Logging services that receive results: ``[wandb]``, or ``{wandb: {project: walkers}}``, no credentials."""

    wandb: WandbConfig | None = None
    """Settings of Weights & Biases, which needs the package wandb; null for no such logger."""
    mlflow: MlflowConfig | None = None
    """Settings of MLflow, which needs the package mlflow-skinny or mlflow; null for no such logger."""

    @property
    def names(self) -> tuple[str, ...]:
        """The configured services."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)

    @model_validator(mode="before")
    @classmethod
    def _accept_names(cls, data: Any) -> Any:
        """Accepts a name, or a list of names and mappings, in place of the full mapping."""
        if isinstance(data, str | list | tuple):
            data = _in_full([data] if isinstance(data, str) else data, tuple(cls.model_fields))
        for name in cls.model_fields:
            if isinstance(data, Mapping) and name in data and data[name] is None:  # its defaults, or none of it?
                raise ValueError(f"{name} must not be null: write {name}: {{}} for its defaults, or leave it out")
        return data

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: settings for name, settings in serialize(self).items() if settings is not None}


def _in_full(entries: Sequence[Any], known: Sequence[str]) -> dict[str, Any]:
    """Converts a list of names and mappings to the full mapping."""
    found: dict[str, Any] = {}
    for entry in entries:
        if not isinstance(entry, str | Mapping):
            raise ValueError(f"each must be a name or a mapping, not {shown(entry)}")
        for name, settings in ({entry: {}} if isinstance(entry, str) else entry).items():
            if name not in known:
                raise ValueError(unknown_name(str(name), known, "unknown logger"))
            if name in found:
                raise ValueError(f"{name} appears twice")
            found[name] = settings
    return found
