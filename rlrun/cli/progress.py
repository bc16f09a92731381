"""How far the trials of a run are: what the live view draws and what the plain lines say."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.cli.tables import cell_text, duration

if TYPE_CHECKING:
    from rlrun.trial.trial_directory import TrialStatus
    from rlrun.tune.events import TrialEvent

Result = Mapping[str, Any]

# Stop conditions that grow steadily, so that a share of them is a share of the work. A return is none of these.
STEADY_METRICS = ("env_steps", "agent_steps", "sgd_steps", "iteration", "episodes", "time_total_s")


@dataclass
class TrialProgress:
    """How far one trial is.

    Attributes:
        name: The trial's name.
        stop: Metric -> the value at which the trial stops.
        status: Its status as the run reports it.
        result: The newest result, or None.
        best: The best `episode_return_mean` so far, or None.
    """

    name: str
    stop: Mapping[str, float]
    status: TrialStatus = "PENDING"
    result: Result | None = None
    best: float | None = None
    _first_share: float = 0.0
    _first_time: float = 0.0
    _last_time: float = 0.0

    def observe(self, event: TrialEvent, now: float) -> None:
        """Takes in what the run tells about the trial.

        Args:
            event: An event of this trial.
            now: A monotonic time, in seconds.
        """
        self.status = event.status
        if event.result is None:
            return
        first, self.result, self._last_time = self.result is None, event.result, now
        if first:
            self._first_share, self._first_time = self.share, now
        mean = event.result.get("episode_return_mean")
        if mean is not None and (self.best is None or mean > self.best):
            self.best = mean

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.status not in ("PENDING", "RUNNING")

    @property
    def share(self) -> float:
        """How much of the way to its stop the trial has gone, 0 to 1; 0 where only a return stops it."""
        if self.result is None:
            return 0.0
        steady = [metric for metric in STEADY_METRICS if self.stop.get(metric, 0) > 0]
        return min(1.0, max(((self.result.get(metric) or 0.0) / self.stop[metric] for metric in steady), default=0.0))

    def seconds_left(self, now: float) -> float | None:
        """Returns the time until the stop at the pace since the first result, or None while that is unknown.

        Args:
            now: The same clock as in `observe`, in seconds.
        """
        gone = self.share - self._first_share
        took = self._last_time - self._first_time
        if self.ended or gone <= 0 or took <= 0:
            return None
        return max(0.0, (1 - self.share) * took / gone - (now - self._last_time))

    def line(self, now: float) -> str:
        """Returns the state in one line of words.

        Args:
            now: The same clock as in `observe`, in seconds.
        """
        ended = f" [{self.status.lower()}]" if self.ended else ""
        if self.result is None:
            return f"{self.name}:{ended or ' starting'}"
        parts = [self.steps_text(), self.return_text(), self.rate_text(), self.left_text(now)]
        return f"{self.name}: {', '.join(filter(None, parts))}{ended}"

    def steps_text(self) -> str:
        """Returns the env steps taken, and of how many where the stop says so."""
        steps = cell_text(self.result.get("env_steps") if self.result else 0)
        limit = self.stop.get("env_steps")
        return f"{steps} env steps" if limit is None else f"{steps} of {int(limit):,} env steps"

    def return_text(self) -> str:
        """Returns the mean return, with digits that stay in place while it grows."""
        mean = self.result.get("episode_return_mean") if self.result else None
        return f"return {'-' if mean is None else f'{mean:,.1f}' if abs(mean) >= 1 else f'{mean:.3f}'}"

    def rate_text(self) -> str:
        """Returns the env steps per second, "" while they are unknown."""
        rate = self.result.get("env_steps_per_s") if self.result else None
        return "" if rate is None else f"{rate:,.0f} steps/s"

    def left_text(self, now: float) -> str:
        """Returns the time left, "" while it is unknown. A return may stop the trial sooner than that.

        Args:
            now: The same clock as in `observe`, in seconds.
        """
        left = self.seconds_left(now)
        return "" if left is None else f"{whole_seconds(left)} left"


def whole_seconds(seconds: float) -> str:
    """Returns a duration without fractions, which would flicker in a view that is drawn again and again."""
    return f"{seconds:.0f} s" if seconds < 59.5 else duration(seconds)


def summary(trials: Iterable[TrialProgress]) -> str:
    """Returns the state of many trials in one line of words."""
    trials = list(trials)
    counts = Counter(trial.status.lower() for trial in trials)
    parts = [f"{len(trials)} trials", *(f"{count} {status}" for status, count in counts.items())]
    leaders = [(trial.best, trial.name) for trial in trials if trial.best is not None]
    if leaders:
        best, name = max(leaders)
        parts.append(f"best return {cell_text(best)} ({name})")
    return ", ".join(parts)


class PlainLines:
    """Progress as lines for a log: the first and last result of each trial, and one line every 30 seconds.

    Args:
        trials: The trials by name; already updated when `show` is called.
        write: Writes one line.
        every_s: Seconds between two lines.
    """

    def __init__(
        self, trials: Mapping[str, TrialProgress], write: Callable[[str], None], every_s: float = 30.0
    ) -> None:
        self._trials = trials
        self._write = write
        self._every_s = every_s
        self._last_time = time.monotonic()
        self._shown: dict[str, str] = {}

    def show(self, trial: TrialProgress) -> None:
        """Writes a line about a trial that has just changed, if one is due."""
        now = time.monotonic()
        if (trial.result is not None or trial.ended) and self._shown.get(trial.name) != trial.status:
            self._shown[trial.name] = trial.status
            self._write(trial.line(now))
        elif now - self._last_time >= self._every_s:
            self._write(trial.line(now) if len(self._trials) == 1 else summary(self._trials.values()))
        else:
            return
        self._last_time = now

    def say(self, text: str) -> None:
        """Writes a line that is due whatever the time."""
        self._write(text)

    def close(self) -> None:
        """Does nothing: lines stay where they are."""
