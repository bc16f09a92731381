"""Events that a run sends to its watcher, the same for the local and the Ray Tune executor.

A watcher is a function that takes one event, and is called in the process and thread that called `rlrun.run`. Each
experiment of a call sends its events in this order: `RunStarted`; `RunWaiting` if a cluster has no room for a trial;
any number of `TrialEvent` (one per iteration and per change of status), `TrialNote`, `RunNote`, `TrialAdded` and
`RunResources`; `RunStopping` as soon as the user interrupts; and `RunFinished`. Some events precede these sequences:
`RunFound` for runs that already exist, `RunMeasuring` and `RunMeasured` for experiments with settings ``auto``, and
`TrialRewound` for a resume from an earlier step. `RunStopping` is sent from a signal handler of the same thread. If Ray
hangs, `RunFinished` is sent from another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rlrun.experiments.trial.trial_directory import TrialStatus

if TYPE_CHECKING:
    from rlrun.experiments.runs.run_directory import Executor
    from rlrun.experiments.runs.trial_result import TrialResult
    from rlrun.experiments.spec.experiment import TrialSpec


@dataclass(frozen=True)
class RunMeasuring:
    """Event: measurements for an experiment's ``auto`` settings are about to start; they take up to two minutes.

    Attributes:
        experiment: Name of the experiment.
        settings: Names of the settings.
    """

    experiment: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class RunMeasured:
    """Event: ``auto`` settings have been measured; the run's numbers of workers and envs now depend on this machine.

    Attributes:
        experiment: Name of the experiment.
        numbers: Chosen number of workers or envs, by name of the setting.
        env_steps_per_s: Training speed with these numbers, learning included.
        timed: Number of candidates (pairs of worker and env counts) that were timed.
        possible: Total number of candidates; more than `timed` if the time limit was reached.
    """

    experiment: str
    numbers: Mapping[str, int]
    env_steps_per_s: float
    timed: int
    possible: int


@dataclass(frozen=True)
class RunFound:
    """Event: a run, or a directory without a run, already exists under the name of an experiment that is about to run.

    Attributes:
        experiment: Name of the experiment.
        directory: The run's directory.
        text: The state of the run, and what happens to it.
        trials: The run's trials.
        is_over: Whether the call leaves the run as it is, because nothing is left to run.
    """

    experiment: str
    directory: Path
    text: str
    trials: tuple[TrialResult, ...]
    is_over: bool


@dataclass(frozen=True)
class TrialRewound:
    """Event: a trial is about to be resumed from a checkpoint earlier than its newest.

    Attributes:
        trial: Name of the trial.
        checkpoint: Directory of the checkpoint.
        steps: The checkpoint's number of steps, formatted with the unit.
        kept: Directory to which the later results and checkpoints are moved.
    """

    trial: str
    checkpoint: Path
    steps: str
    kept: Path


@dataclass(frozen=True)
class RunStarted:
    """Event: the run's directory exists and the first trial is about to start; Ray, if needed, starts next.

    Attributes:
        experiment: Name of the experiment in its file.
        directory: The run directory.
        executor: The executor of the trials.
        uses_ray: Whether Ray is started or joined, which takes 5 to 12 s.
        trials: The trials that will run now, in order; in a resumed run, without the finished ones.
        resumed: Whether an earlier run is resumed.
        terminal: Stream for a live view. While Ray is used, the process's stdout and stderr are redirected to the run's
            ``driver.log``, so a view must write to this stream; without Ray it is `sys.stdout`.
        expected: Total number of trials: `trials`, and those that a searcher has yet to suggest.
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
class RunWaiting:
    """Event: the run waits for nodes of its Ray cluster that have room for its largest trial.

    Sent when the wait begins, when the autoscaler's status changes, and every 30 seconds.

    Attributes:
        trial: Name of the trial.
        needs: The CPUs and GPUs that the trial needs, formatted.
        seconds: Seconds that the run has waited so far.
        limit_s: Seconds after which the run is refused.
        starting: Types of the nodes that the cluster's autoscaler is starting, one entry per node.
        failed: Types of the nodes that the autoscaler could not start, with reasons.
    """

    trial: str
    needs: str
    seconds: float
    limit_s: float
    starting: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True)
class TrialEvent:
    """Event: a trial has started, reported a result, or ended.

    Attributes:
        trial: Name of the trial.
        status: New status of the trial.
        result: The newest result if there is a new one (metrics without a value yet are None), else None.
        error: Error message, with the user's own traceback if user code raised an exception; "" unless status is ERROR.
        place: Process of the trial, as host:pid; "" if unknown.
        params: New values of the trial's varying settings, if its population has changed them.
        stopped_by: Why the scheduler stopped the trial early; "" if it did not.
        stop_reason: Why the trial stopped: its stop criterion with the value that reached it, a plateau, a hook or the
            scheduler; "" if it has not stopped.
    """

    trial: str
    status: TrialStatus
    result: Mapping[str, Any] | None = None
    error: str = ""
    place: str = ""
    params: Mapping[str, Any] | None = None
    stopped_by: str = ""
    stop_reason: str = ""


@dataclass(frozen=True)
class TrialAdded:
    """Event: a searcher has suggested a configuration, from which a trial was created.

    Attributes:
        trial: The trial, whose status is PENDING.
    """

    trial: TrialSpec


@dataclass(frozen=True)
class RunResources:
    """Event: the resources that running trials use, sent every few seconds while trials run on Ray.

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
    """Event: a message about a trial, for example about a slow step, or the checkpoint from which the trial resumes.

    Attributes:
        trial: Name of the trial.
        text: The message, in one or more lines.
    """

    trial: str
    text: str


@dataclass(frozen=True)
class RunNote:
    """Event: a message about the run as a whole, such as the reason why Ray is started.

    Attributes:
        text: The message.
    """

    text: str


@dataclass(frozen=True)
class RunStopping:
    """Event: the user has interrupted the run; running trials finish an iteration and save.

    A second signal ends the run.

    Attributes:
        signal: Name of the signal, such as "SIGINT".
    """

    signal: str


@dataclass(frozen=True)
class RunFinished:
    """Event: every trial of the run has ended, for any reason.

    Attributes:
        directory: The run directory.
        trials: All trials of the run, including those that had finished before a resume.
        seconds: Wall time of this call of run or resume in seconds, including the start of Ray.
    """

    directory: Path
    trials: tuple[TrialResult, ...]
    seconds: float


RunEvent = (
    RunFound
    | RunMeasuring
    | RunMeasured
    | TrialRewound
    | RunStarted
    | RunWaiting
    | TrialAdded
    | TrialEvent
    | TrialNote
    | RunNote
    | RunResources
    | RunStopping
    | RunFinished
)
Watcher = Callable[[RunEvent], None]
