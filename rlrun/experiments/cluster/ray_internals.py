"""All uses of private names of Ray and Ray Tune, which have no public counterpart.

Check them with each new version of Ray, and then change `CHECKED_WITH`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

CHECKED_WITH = "2.60.0"
"""Version of Ray in which these names were checked."""


def gcs_server() -> subprocess.Popen[bytes]:
    """Process of the gcs_server of the Ray that this process has started."""
    from ray._private import worker

    server: subprocess.Popen[bytes] = worker._global_node.all_processes["gcs_server"][0].process
    return server


def end_processes() -> None:
    """Kills the processes of the Ray started by this process, without calls to Ray, and removes the session folder."""
    from ray._private import worker

    worker._global_node.kill_all_processes(check_alive=False)
    shutil.rmtree(Path(worker._global_node.get_temp_dir_path()).parent, ignore_errors=True)


def full_controller(tune_controller: Any) -> Any:
    """Tune's controller behind the one that schedulers receive, whose methods do not include those used here."""
    return tune_controller._tune_controller


def train_on(controller: Any, trial: Trial) -> None:
    """Makes Tune request the trial's next result from its actor."""
    controller._schedule_trial_train(trial)


def fail(controller: Any, trial: Trial, error: Exception) -> None:
    """Makes Tune treat an exception as the trial's failure."""
    controller._trial_task_failure(trial, error)


def actor_of(trial: Trial) -> Any:
    """Ray actor that runs a trial, None without one."""
    return trial.temporary_state.ray_actor


def drop_private_copies(trial: Trial) -> None:
    """Frees a second copy of a trial's config, and the reference that makes Ray keep the result of a call."""
    trial._Trial__unresolved_config = {}
    trial._default_result_or_future = None
