"""Events of a run for a watcher, the same from both executors.

A watcher is a function of one event. It is called in the process and thread that called `rlrun.run`, in this order:
`RunStarted`, any number of `TrialEvent` (one per iteration and per change of status), `TrialNote`, `TrialAdded` and
`RunResources`, `RunStopping` as soon as the user interrupts, `RunFinished`. A file with several experiments gives one
such sequence for each, one after another. `RunStopping` comes in the middle of other code of that thread. If Ray has
lost its gcs_server, `RunFinished` comes in another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rlrun.trial.trial_directory import TrialStatus

if TYPE_CHECKING:
    from rlrun.runs.run_directory import Executor
    from rlrun.runs.trial_result import TrialResult
    from rlrun.spec.experiment import TrialSpec


@dataclass(frozen=True)
class RunStarted:
    """The run directory exists and the first trial is about to start; starting Ray, if needed, comes next.

    Attributes:
        experiment: Name of the experiment in its file.
        directory: The run directory.
        executor: The executor of the trials.
        uses_ray: Whether Ray is started or joined; it takes 5 to 12 s.
        trials: The trials that will run now, in order; a resumed run leaves finished ones out.
        resumed: Whether this resumes an earlier run.
        terminal: Stream for a live view. While Ray is used, the process's stdout and stderr are redirected to the run's
            ``driver.log``, so a view must write to this stream; without Ray it is `sys.stdout`.
        expected: Number of trials in all: `trials`, and those that a searcher has still to suggest.
    """

    experiment: str
    directory: Path
    executor: Executor
    uses_ray: bool
    trials: tuple[TrialSpec, ...]
    resumed: bool
    terminal: TextIO
    expected: int = 0


@dataclass(frozen=True)
class TrialEvent:
    """A trial has started, reported a result, or ended.

    Attributes:
        trial: Name of the trial.
        status: Its status from now on.
        result: The newest result if there is a new one (metrics without a value yet are None), else None.
        error: Error message, with the user's own traceback if user code raised; "" unless status is ERROR.
        place: Its process, as host:pid; "" if unknown.
        params: The varying settings with this trial's new values, if its population has changed them.
        stopped_by: Reason of a scheduler that has ended it before its stop criterion, "" if none has.
    """

    trial: str
    status: TrialStatus
    result: Mapping[str, Any] | None = None
    error: str = ""
    place: str = ""
    params: Mapping[str, Any] | None = None
    stopped_by: str = ""


@dataclass(frozen=True)
class TrialAdded:
    """A searcher has suggested a configuration, from which a trial was created.

    Attributes:
        trial: The trial, PENDING.
    """

    trial: TrialSpec


@dataclass(frozen=True)
class RunResources:
    """Resources that the running trials use; sent every few seconds while trials run on Ray.

    Attributes:
        cpus_used: CPUs reserved for trials and their workers.
        cpus_total: CPUs that Ray has.
        gpus_used: GPUs reserved.
        gpus_total: GPUs that Ray has.
    """

    cpus_used: float
    cpus_total: float
    gpus_used: float
    gpus_total: float


@dataclass(frozen=True)
class TrialNote:
    """A message on a trial: work that takes long, the checkpoint that it resumes from, whether exactly.

    Attributes:
        trial: Name of the trial.
        text: One or more lines.
    """

    trial: str
    text: str


@dataclass(frozen=True)
class RunStopping:
    """The user has interrupted: running trials finish their iteration, save and stop; a second signal ends at once.

    Attributes:
        signal: Name of the signal, such as "SIGINT".
    """

    signal: str


@dataclass(frozen=True)
class RunFinished:
    """Every trial of the run has ended, for any reason.

    Attributes:
        directory: The run directory.
        trials: All trials of the run, with those that were finished before a resume.
        seconds: Wall time of this part of the run, start of Ray included.
    """

    directory: Path
    trials: tuple[TrialResult, ...]
    seconds: float


RunEvent = RunStarted | TrialAdded | TrialEvent | TrialNote | RunResources | RunStopping | RunFinished
Watcher = Callable[[RunEvent], None]
