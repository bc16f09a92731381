"""The loggers that a spec names, and the packages that they need."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.registry import load_internal
from rlrun.experiments.spec.loggers import LoggersConfig, TrialLogger, make_logger

LOGGERS = {
    "wandb": "rlrun.experiments.trial.loggers.wandb_logger:WandbLogger",
    "mlflow": "rlrun.experiments.trial.loggers.mlflow_logger:MlflowLogger",
}
"""Import path of each service's logger; the service, its Python package and the extra that installs it share a name."""


def require_loggers(config: LoggersConfig) -> None:
    """Checks, before anything starts, that the packages of loggers are installed.

    Raises:
        UsageError: One is missing; with the command that installs it.
    """
    for name in config.services:
        if find_spec(name) is None:
            raise UsageError(f"logger {name} needs the package {name}: pip install 'rlrun[{name}]'")


def loggers_of(config: LoggersConfig) -> dict[str, Callable[[], TrialLogger]]:
    """Factories of the configured loggers by name; nothing is imported before they are called."""
    services: dict[str, Callable[[], TrialLogger]] = {
        name: functools.partial(_make, name, getattr(config, name)) for name in config.services
    }
    return services | {path: functools.partial(make_logger, path, own) for path, own in config.custom.items()}


def _make(name: str, config: ConfigModel) -> TrialLogger:
    logger: TrialLogger = load_internal(LOGGERS[name], "logger")(config)
    return logger
