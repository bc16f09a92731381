"""Weights & Biases logger: one W&B run per trial, grouped by rlrun's runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from rlrun.experiments.spec.loggers import TrialLogger, WandbConfig

EXIT_CODES: dict[str, int] = {"ERROR": 1, "INTERRUPTED": 255}
"""Exit code of a wandb run by trial status; wandb shows 1 as failed, 255 as killed, and 0 as finished."""


class WandbLogger(TrialLogger):
    """Logger that sends a trial's results to Weights & Biases.

    All of its files, including those for `wandb sync`, are in the trial's directory.
    """

    def __init__(self, config: WandbConfig) -> None:
        self._config = config

    @override
    def start(self, trial: Mapping[str, Any], directory: Path, known_as: str | None) -> str:
        """Starts or continues the trial's wandb run."""
        import wandb

        config = self._config
        identity = known_as or uuid.uuid4().hex[:12]
        self._run = wandb.init(
            project=config.project or trial["experiment"],
            entity=config.entity,
            group=directory.absolute().parent.name,
            name=trial["name"],
            tags=list(config.tags) or None,
            config={name: value for name, value in trial.items() if name != "loggers"},
            mode=config.mode,
            dir=directory,
            id=identity,
            resume="allow",
            allow_val_change=True,  # settings change in a population
            reinit="create_new",
            # The output, machine and folder of the process are not logged, since they are not specific to the trial.
            settings=wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True),
        )
        self._run.define_metric("*", step_metric="env_steps")
        return identity

    @override
    def log(self, row: Mapping[str, Any]) -> None:
        """Logs a result row at its iteration; wandb ignores rows that are repeated after a resume."""
        numbers = {name: value for name, value in row.items() if value is not None}
        self._run.log(numbers, step=int(row["iteration"]))

    @override
    def finish(self, status: str) -> None:
        """Uploads the remaining results, and ends the wandb run."""
        self._run.finish(exit_code=EXIT_CODES.get(status, 0))
