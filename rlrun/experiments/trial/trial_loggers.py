"""Asynchronous delivery of results to a trial's loggers, with one thread each; loggers never block or fail training."""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.registry import load_internal
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.loggers import LoggersConfig, TrialLogger, make_logger
from rlrun.experiments.trial.results import Row
from rlrun.experiments.trial.trial_directory import TrialStatus

LOGGERS = {
    "wandb": "rlrun.experiments.trial.loggers.wandb_logger:WandbLogger",
    "mlflow": "rlrun.experiments.trial.loggers.mlflow_logger:MlflowLogger",
}
"""Import path of each service's logger; the service, its Python package and the extra that installs it share a name."""

MAX_WAITING_ROWS = 10_000
"""Maximum queue length of results for a slow service; further results are dropped."""

DELIVERY_TIMEOUT_S = 30.0
"""Timeout in seconds for pending deliveries at the end of a trial."""

START_TIMEOUT_S = 10.0
"""Timeout in seconds at the end of a trial for a logger whose service is unreachable."""


class TrialLoggers:
    """All loggers of one trial in one process; all methods except `finish` are non-blocking."""

    def __init__(
        self,
        loggers: Mapping[str, Callable[[], TrialLogger]],
        trial: TrialSpec,
        directory: Path,
        announce: Callable[[str], None],
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
    ) -> None:
        """Starts a thread for each logger.

        Args:
            loggers: Factories for the loggers, by name.
            trial: The trial.
            directory: The trial's existing directory, in which each logger stores its id for the trial.
            announce: Callback that receives messages for the user, in the caller's thread, at most once per logger.
            delivery_timeout_s: Timeout of `finish` in seconds.
        """
        self._announce = announce
        self._delivery_timeout_s = delivery_timeout_s
        self._threads = [_LoggerThread(name, make, trial, directory) for name, make in loggers.items()]

    def log(self, row: Row) -> None:
        """Enqueues a result for all loggers."""
        for thread in self._threads:
            thread.log(row)
        self._announce_complaints()

    def finish(self, status: TrialStatus) -> None:
        """Enqueues the trial's final status for all loggers, and blocks until all results are delivered. Idempotent."""
        for thread in self._threads:
            thread.finish(status)
        deadline = time.monotonic() + self._delivery_timeout_s
        for thread in self._threads:
            if not thread.has_started_by(deadline - self._delivery_timeout_s + START_TIMEOUT_S):
                thread.complain("is unreachable: it may lack some results")
            elif not thread.has_ended_by(deadline):
                thread.complain(
                    f"has not received all results within {self._delivery_timeout_s:.0f} s: it may lack some"
                )
        self._announce_complaints()
        self._threads = []

    def _announce_complaints(self) -> None:
        for thread in self._threads:
            complaint = thread.take_complaint()
            if complaint:
                self._announce(complaint)


class _LoggerThread:
    """Worker thread of one logger with a FIFO queue; an exception disables only this logger."""

    def __init__(self, name: str, make: Callable[[], TrialLogger], trial: TrialSpec, directory: Path) -> None:
        self._name = name
        self._make = make
        self._trial = trial
        self._directory = directory
        self._waiting: queue.Queue[Row | TrialStatus] = queue.Queue()
        self._started = threading.Event()
        self._complaint = ""
        self._has_complained = False
        self._thread = threading.Thread(target=self._run, name=f"logger {name}", daemon=True)
        self._thread.start()

    def log(self, row: Row) -> None:
        if not self._thread.is_alive():
            return
        if self._waiting.qsize() < MAX_WAITING_ROWS:
            self._waiting.put(row)
        else:
            self.complain("responds too slowly: some results are not sent to it")

    def finish(self, status: TrialStatus) -> None:
        self._waiting.put(status)

    def has_started_by(self, deadline: float) -> bool:
        return self._started.wait(max(0.0, deadline - time.monotonic()))

    def has_ended_by(self, deadline: float) -> bool:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def take_complaint(self) -> str:
        complaint, self._complaint = self._complaint, ""
        return complaint

    def complain(self, text: str) -> None:
        if not self._has_complained:
            self._has_complained, self._complaint = True, f"{self._name} {text}"

    def _run(self) -> None:
        try:
            logger = self._make()
            self._start(logger)
            self._started.set()
            while isinstance(waiting := self._waiting.get(), dict):
                logger.log(waiting)
            logger.finish(waiting)
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            self.complain(f"failed; training continues without it: {reason}")
            self._started.set()

    def _start(self, logger: TrialLogger) -> None:
        file = self._directory / f"{self._name.replace(':', '.')}_id.txt"
        known_as = file.read_text().strip() if file.exists() else None
        identity = logger.start(self._trial.to_data(), self._directory, known_as)
        if identity != known_as:
            write_file(file, f"{identity}\n".encode())


def require_loggers(config: LoggersConfig) -> None:
    """Checks, before a run starts, that the packages of its loggers are installed.

    Raises:
        UsageError: A package is missing; the message contains the command that installs it.
    """
    for name in config.services:
        if find_spec(name) is None:
            raise UsageError(f"logger {name} needs the package {name}: pip install 'rlrun[{name}]'")


def loggers_of(config: LoggersConfig) -> dict[str, Callable[[], TrialLogger]]:
    """Factories for the configured loggers, by name; nothing is imported until they are called."""
    services: dict[str, Callable[[], TrialLogger]] = {
        name: functools.partial(_make, name, getattr(config, name)) for name in config.services
    }
    return services | {path: functools.partial(make_logger, path, own) for path, own in config.custom.items()}


def _make(name: str, config: ConfigModel) -> TrialLogger:
    logger: TrialLogger = load_internal(LOGGERS[name], "logger")(config)
    return logger
