"""MLflow logger: one MLflow run per trial, in an MLflow experiment named after rlrun's experiment."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from rlrun.experiments.spec.loggers import MlflowConfig, TrialLogger

STATUSES: dict[str, str] = {"TERMINATED": "FINISHED", "ERROR": "FAILED", "INTERRUPTED": "KILLED"}
"""MLflow run status by trial status; a trial that will continue soon stays RUNNING."""

FOLDER = "mlruns"
MAX_BATCH, MAX_VALUE = 1000, 500
"""MLflow's limits: metrics per request, characters of a parameter's value."""


class MlflowLogger(TrialLogger):
    """Logger that sends a trial's results to an MLflow server, database or folder."""

    def __init__(self, config: MlflowConfig) -> None:
        self._config = config

    @override
    def start(self, trial: Mapping[str, Any], directory: Path, known_as: str | None) -> str:
        """Starts or continues the trial's MLflow run."""
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        run = directory.absolute().parent
        uri = self._config.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or str(run.parent / FOLDER)
        if "://" not in uri:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow requires this for a folder
        self._client = MlflowClient(tracking_uri=uri)
        if known_as is not None:
            self._run = known_as
            self._client.update_run(known_as, status="RUNNING")
            return known_as
        experiment = self._experiment(self._config.experiment or trial["experiment"])
        tags = {"rlrun.run": run.name, "rlrun.directory": str(directory.absolute())}
        self._run = self._client.create_run(experiment, run_name=trial["name"], tags=tags).info.run_id
        params = {"env": trial["env"]["id"], **{name: trial[name] for name in ("algorithm", "seed")}, **trial["params"]}
        self._client.log_batch(
            self._run, params=[Param(_plain(name), str(value)[:MAX_VALUE]) for name, value in params.items()]
        )
        return self._run

    @override
    def log(self, row: Mapping[str, Any]) -> None:
        """Logs the numbers of a result row, with env steps as MLflow's step."""
        from mlflow.entities import Metric

        now, step = int(1000 * time.time()), int(row["env_steps"])
        metrics = [
            Metric(_plain(name), float(value), now, step)
            for name, value in row.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        self._client.log_batch(self._run, metrics=metrics[:MAX_BATCH])

    @override
    def finish(self, status: str) -> None:
        """Sets the status of the MLflow run."""
        if status in STATUSES:
            self._client.set_tag(self._run, "rlrun.status", status)
            self._client.set_terminated(self._run, STATUSES[status])

    def _experiment(self, name: str) -> str:
        """Finds or creates an MLflow experiment, which another trial may be creating at the same time."""
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        try:
            return str(self._client.create_experiment(name))
        except MlflowException:
            found = self._client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)


def _plain(name: str) -> str:
    """Replaces characters that MLflow does not allow in names."""
    return re.sub(r"[^\w\-. /:]", "_", name)
