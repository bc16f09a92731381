"""What a logger is, and which there are."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from rlrun.config import ConfigModel
from rlrun.errors import UsageError
from rlrun.spec.experiment import TrialSpec
from rlrun.spec.loggers import LoggersConfig
from rlrun.trial.trial_directory import TrialStatus

LOGGERS = {
    "wandb": "rlrun.trial.loggers.wandb_logger:WandbLogger",
    "mlflow": "rlrun.trial.loggers.mlflow_logger:MlflowLogger",
}
"""Where the logger of each service is; the service, its Python package and the extra that installs it share a name."""


class TrialLogger(Protocol):
    """Tells one service what a trial does. It is made for one trial, and called from one thread that is its own."""

    def start(self, trial: TrialSpec, directory: Path, known_as: str | None) -> str:
        """Begins, or goes on with, what the service knows the trial as.

        Args:
            trial: The trial.
            directory: The trial's directory.
            known_as: What an earlier call returned, None for a trial that the service has not heard of.

        Returns:
            The service's own id of the trial.
        """

    def log(self, row: Mapping[str, Any]) -> None:
        """Tells a result: metrics by name, None where there is no number."""

    def finish(self, status: TrialStatus) -> None:
        """Tells how the trial stands when its process lets go of it, and delivers what is under way."""


def demand_loggers(config: LoggersConfig) -> None:
    """Asks, before anything starts, whether the packages are there that loggers need.

    Raises:
        UsageError: If one is missing; with the command that installs it.
    """
    for name in config.names:
        if find_spec(name) is None:
            raise UsageError(f"logger {name} needs the package {name}: pip install 'rlrun[{name}]'")


def loggers_of(config: LoggersConfig) -> dict[str, Callable[[], TrialLogger]]:
    """Returns what makes the logger of each service that is asked for, by its name; nothing is imported before."""
    return {name: functools.partial(_make, name, getattr(config, name)) for name in config.names}


def _make(name: str, config: ConfigModel) -> TrialLogger:
    module, _, attribute = LOGGERS[name].partition(":")
    logger: TrialLogger = getattr(importlib.import_module(module), attribute)(config)
    return logger
