"""What a run tells whoever watches it: the same stream of events from both executors.

A watcher is a function of one event. It is called in the process, and on the thread, that called `rlrun.run`, in this
order: `RunStarted`, any number of `TrialEvent` (one per iteration and per change of status), `TrialNote`, `TrialAdded`
and `RunResources`, `RunStopping` as soon as the user interrupts, `RunFinished`. A file with several experiments makes
one such sequence for each, one after the other. `RunStopping` comes in the middle of whatever that thread was doing.
Where Ray has lost its gcs_server, `RunFinished` comes on another thread.
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
    """The run directory stands and the first trial is about to start; starting Ray, if needed, comes next.

    Attributes:
        experiment: Name of the experiment in its file.
        directory: The run directory.
        executor: Where the trials run.
        uses_ray: Whether Ray is started or joined; it takes 5 to 12 s.
        trials: The trials that will run now, in order; a resumed run leaves finished ones out.
        resumed: Whether this goes on with an earlier run.
        terminal: Where a live view writes. While Ray is used, the process's own stdout and stderr lead to the run's
            ``driver.log``, so a view must hold on to this stream; without Ray it is `sys.stdout`.
        expected: How many trials this will come to: `trials`, and those that a searcher has still to suggest.
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
        result: The newest result when this event brings one (metrics the trial does not have yet are None), else None.
        error: What went wrong, with the user's own traceback where the user's code raised; "" unless status is ERROR.
        place: Where it runs, as host:pid; "" where that is unknown.
        params: What varies between the trials, with this trial's new values, when its population has changed them.
        stopped_by: Why a scheduler has ended it before its own stop, "" if none has.
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
    """A searcher has suggested a configuration, and a trial was made of it.

    Attributes:
        trial: The trial, PENDING.
    """

    trial: TrialSpec


@dataclass(frozen=True)
class RunResources:
    """What the running trials have taken of what there is; told every few seconds while trials run on Ray.

    Attributes:
        cpus_used: CPUs set aside for trials and their workers.
        cpus_total: CPUs that Ray has.
        gpus_used: GPUs set aside.
        gpus_total: GPUs that Ray has.
    """

    cpus_used: float
    cpus_total: float
    gpus_used: float
    gpus_total: float


@dataclass(frozen=True)
class TrialNote:
    """Something the user should know about a trial: what takes long, where it goes on from, whether exactly.

    Attributes:
        trial: Name of the trial.
        text: One or more lines.
    """

    trial: str
    text: str


@dataclass(frozen=True)
class RunStopping:
    """The user has interrupted: running trials finish their iteration, save, and stop. A second signal ends it at once.

    Attributes:
        signal: Name of the signal, such as "SIGINT".
    """

    signal: str


@dataclass(frozen=True)
class RunFinished:
    """Every trial of the run has ended, for whatever reason.

    Attributes:
        directory: The run directory.
        trials: All trials of the run, also those that were finished before a resume.
        seconds: Wall time of this part of the run, start of Ray included.
    """

    directory: Path
    trials: tuple[TrialResult, ...]
    seconds: float


RunEvent = RunStarted | TrialAdded | TrialEvent | TrialNote | RunResources | RunStopping | RunFinished
Watcher = Callable[[RunEvent], None]
