"""Interface of loggers, and the available ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.registry import load_internal
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.loggers import LoggersConfig
from rlrun.experiments.trial.trial_directory import TrialStatus

LOGGERS = {
    "wandb": "rlrun.experiments.trial.loggers.wandb_logger:WandbLogger",
    "mlflow": "rlrun.experiments.trial.loggers.mlflow_logger:MlflowLogger",
}
"""Import path of each service's logger; the service, its Python package and the extra that installs it share a name."""


class TrialLogger(Protocol):
    """Interface of a logger, which sends one trial's results to a service; called from a thread of its own."""

    def start(self, trial: TrialSpec, directory: Path, known_as: str | None) -> str:
        """Starts or continues the service's run of the trial.

        Args:
            trial: The trial.
            directory: The trial's directory.
            known_as: The id from an earlier call, None for a new trial.

        Returns:
            The service's id of the trial.
        """

    def log(self, row: Mapping[str, Any]) -> None:
        """Logs a result: metrics by name, None for missing numbers."""

    def finish(self, status: TrialStatus) -> None:
        """Logs the trial's status when its process releases it, and delivers all pending results."""


def demand_loggers(config: LoggersConfig) -> None:
    """Checks, before anything starts, that the packages of loggers are installed.

    Raises:
        UsageError: One is missing; with the command that installs it.
    """
    for name in config.names:
        if find_spec(name) is None:
            raise UsageError(f"logger {name} needs the package {name}: pip install 'rlrun[{name}]'")


def loggers_of(config: LoggersConfig) -> dict[str, Callable[[], TrialLogger]]:
    """Factories of the configured loggers by name; nothing is imported before they are called."""
    return {name: functools.partial(_make, name, getattr(config, name)) for name in config.names}


def _make(name: str, config: ConfigModel) -> TrialLogger:
    logger: TrialLogger = load_internal(LOGGERS[name], "logger")(config)
    return logger
