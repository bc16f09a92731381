"""Config of Ray Tune's Trainable for a trial."""

from __future__ import annotations

import sys
from typing import Any

from rlrun.engine.checkpoint.manifest import rlrun_version
from rlrun.experiments.runs.active_run import ActiveRun
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.exploit import Exploit


def trial_config(run: ActiveRun, trial: TrialSpec, exploit: Exploit | None) -> dict[str, Any]:
    """Config of `AlgorithmTrainable` for a trial: plain data from which any process can run the trial.

    Args:
        run: The run.
        trial: The trial with its initial settings.
        exploit: The trial's last exploit step (PBT), or None.
    """
    scheduler = run.experiment.scheduler
    population = None if scheduler is None else scheduler.population
    return {
        "trial": trial.to_data(),
        "run_directory": str(run.directory.path),
        "token": run.token,
        "disk": run.disk,
        "version": rlrun_version(),
        "eager": run.eager,
        "import_paths": list(sys.path),
        "interval": None if population is None else [population.interval, population.time_attr],
        "exploit": None if exploit is None else exploit.to_data(),
    }
