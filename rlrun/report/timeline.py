"""Timeline of a run: when each trial was trained, which trials ran at the same time, and the best score so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rlrun.engine.checkpoint.manifest import read_manifest
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import CheckpointError
from rlrun.engine.settings.metric import Mode
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.report.configurations import Group
from rlrun.report.reading import RunView

COPIED_AFTER_S = 60.0
"""Seconds by which the times of a trial's files must differ from its last checkpoint's to count the files as copied."""

SLACK_S = 0.5
"""Seconds by which the times of two trials in one lane may overlap, since the times of files are imprecise."""


@dataclass(frozen=True)
class Span:
    """Time span in which a trial was trained.

    Attributes:
        trial: Name of the trial.
        start: Seconds from the start of the run, estimated from the trial's end and its seconds of training.
        stop: Seconds from the start of the run to the trial's last write.
        lane: Row of the drawing; trials in one lane do not overlap.
    """

    trial: str
    start: float
    stop: float
    lane: int


@dataclass(frozen=True)
class Step:
    """Point in the history of a run's best score, after one more configuration.

    Attributes:
        label: Name of the configuration.
        score: Mean of the metric's last values over the configuration's seeds.
        best: Best score of this and all earlier configurations.
        seconds: Seconds of training of this and all earlier configurations.
    """

    label: str
    score: float
    best: float
    seconds: float


def timeline(run: RunView) -> list[Span]:
    """Time spans in which the trials of a run were trained, the earliest first."""
    ends = [(trial, _end(trial)) for trial in run.trials if trial.last_result.get("time_total_s")]
    if not ends:
        return []
    spans = sorted((end - float(trial.last_result["time_total_s"]), end, trial.name) for trial, end in ends)
    zero = spans[0][0]
    lanes: list[float] = []
    found = []
    for start, stop, name in spans:
        lane = next((n for n, busy_until in enumerate(lanes) if busy_until <= start + SLACK_S), len(lanes))
        lanes[lane : lane + 1] = [stop]
        found.append(Span(name, round(start - zero, 2), round(stop - zero, 2), lane))
    return found


def history(groups: Sequence[Group], scores: Mapping[str, float], mode: Mode) -> list[Step]:
    """Best score so far over the configurations of a run, in the order in which they began.

    Args:
        groups: The configurations.
        scores: Score of each configuration by label: the mean over seeds of the metric's last values. Configurations
            without values are missing.
        mode: Whether higher or lower scores are better.
    """
    better = max if mode == "max" else min
    steps: list[Step] = []
    seconds = 0.0
    for group in groups:
        seconds += training_seconds(group)
        if (score := scores.get(group.label)) is not None:
            steps.append(Step(group.label, score, better(score, steps[-1].best) if steps else score, seconds))
    return steps


def training_seconds(group: Group) -> float:
    """Total training time of a group's trials, in seconds."""
    return sum(float(trial.last_result.get("time_total_s") or 0.0) for trial in group.trials)


def _end(trial: TrialResult) -> float:
    """Time of a trial's last write in seconds since 1970, by its last checkpoint if its files were copied."""
    checkpoints = CheckpointStore(TrialDirectory(trial.directory).checkpoints).paths()
    if trial.status != "TERMINATED" or not checkpoints:
        return trial.changed
    try:
        written = datetime.fromisoformat(read_manifest(checkpoints[-1]).created).timestamp()
    except (CheckpointError, ValueError):
        return trial.changed
    return trial.changed if abs(trial.changed - written) < COPIED_AFTER_S else written
