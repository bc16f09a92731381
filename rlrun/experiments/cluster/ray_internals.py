"""Private names of Ray and Ray Tune that rlrun uses because there is no public counterpart, all in one module.

Maintainers check the names with each new version of Ray, and then change `CHECKED_WITH`.
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
    """Operating-system process of Ray's gcs_server, if this process has started Ray."""
    from ray._private import worker

    server: subprocess.Popen[bytes] = worker._global_node.all_processes["gcs_server"][0].process
    return server


def end_processes() -> None:
    """Kills the Ray processes that this process started, without calls to Ray, and removes Ray's session folder."""
    from ray._private import worker

    worker._global_node.kill_all_processes(check_alive=False)
    shutil.rmtree(Path(worker._global_node.get_temp_dir_path()).parent, ignore_errors=True)


def full_controller(tune_controller: Any) -> Any:
    """Ray Tune's full trial controller, taken from the restricted controller that schedulers receive."""
    return tune_controller._tune_controller


def train_on(controller: Any, trial: Trial) -> None:
    """Makes Ray Tune request a trial's next result from the trial's actor."""
    controller._schedule_trial_train(trial)


def fail(controller: Any, trial: Trial, error: Exception) -> None:
    """Makes Ray Tune treat an exception as the failure of a trial."""
    controller._trial_task_failure(trial, error)


def actor_of(trial: Trial) -> Any:
    """Ray actor that runs a Ray Tune trial; None if the trial has no actor."""
    return trial.temporary_state.ray_actor


def drop_private_copies(trial: Trial) -> None:
    """Frees memory that Ray Tune holds for a trial: a second copy of its config, and the last remote call's result."""
    trial._Trial__unresolved_config = {}
    trial._default_result_or_future = None
