"""Progress of a trial: its newest result, its best value, and the time left, for views of a run."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from rlrun.cli.tables import cell_text, duration

if TYPE_CHECKING:
    from rlrun.runs.events import TrialEvent
    from rlrun.spec.experiment import TrialSpec

Result = Mapping[str, Any]

ENV_STEPS, SGD_STEPS = "env_steps", "sgd_steps"

# Stop criteria that grow steadily, so that a fraction of them is a fraction of the work. A return is none of these.
STEADY_METRICS = (ENV_STEPS, "agent_steps", SGD_STEPS, "iteration", "episodes", "time_total_s")

SHOWN_METRICS = (*STEADY_METRICS, "episode_return_mean", "env_steps_per_s", "time_this_iter_s")
"""Metrics that are kept of a trial's newest result; whole results of many trials would fill the memory."""

ITERATIONS_TO_START = 2
"""Iterations that do not count for the pace, since updates are traced and compiled in them."""

STOPPED = "STOPPED"
"""Status on the terminal of a trial that a scheduler has ended before its own stop."""

ACTIVE = ("PENDING", "RUNNING", "PAUSED")
"""Statuses of trials that will have further results."""


@dataclass
class TrialProgress:
    """Progress of one trial. Times are seconds on the caller's clock.

    Attributes:
        name: The trial's name.
        stop: Metric -> the value at which the trial stops.
        params: The present values of the parameters that vary between trials.
        seed: Its root seed, or its population's.
        group: Equal for trials that differ only by their seed; None for a member of a population.
        status: Its status as the run reports it; also KILLED and DAMAGED by its files, and STOPPED if a scheduler has
            ended it.
        place: Its process, as host:pid; "" if unknown.
        result: The newest result (`SHOWN_METRICS`), or None.
        best: The best value so far of the metric by which it is judged, or None.
        judged_by: The metric by which it is judged.
        ended_at: Time of its end, None before.
    """

    name: str
    stop: Mapping[str, float]
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    group: Hashable = None
    status: str = "PENDING"
    place: str = ""
    result: Result | None = None
    best: float | None = None
    judged_by: str = "episode_return_mean"
    ended_at: float | None = None
    _began: float | None = None
    _num_results: int = 0
    _base_share: float = 0.0
    _base_time: float = 0.0
    _last_time: float = 0.0

    @classmethod
    def of(cls, trial: TrialSpec) -> Self:
        """Returns the progress of a trial that has not started."""
        seed = trial.seed if trial.population is None else trial.population
        group = trial.configuration if trial.population is None else None
        return cls(trial.name, trial.stop, trial.params, seed, group, judged_by=trial.judged_by)

    def observe(self, event: TrialEvent, now: float) -> None:
        """Updates the progress by an event of the trial.

        Args:
            event: An event of this trial.
            now: The time.
        """
        self.status = STOPPED if event.stopped_by else event.status
        self.place = event.place or self.place
        if self._began is None and event.status == "RUNNING":
            self._began = now
        self.ended_at = now if self.ended else None
        if event.params is not None:
            self.params = event.params
        if event.result is None:
            return
        self._last_time = now
        self._num_results += 1
        self.result = {metric: event.result[metric] for metric in SHOWN_METRICS if metric in event.result}
        if self._num_results <= ITERATIONS_TO_START:
            self._base_share, self._base_time = self.share, now
        value = event.result.get(self.judged_by)  # None where an iteration has no evaluation
        if value is not None and (self.best is None or value > self.best):
            self.best = value

    def read(self, result: Result | None, changed: float) -> None:
        """Updates the progress by the trial's files.

        Args:
            result: The newest result, None before the first.
            changed: Time of the last change of the files.
        """
        self.result, self._last_time = result, changed
        self._base_share, self._base_time = self.share, changed
        self.ended_at = changed if self.ended else None

    @property
    def ended(self) -> bool:
        """Whether there will be no further results."""
        return self.status not in ACTIVE

    @property
    def share(self) -> float:
        """Fraction of the way to the trial's stop, 0 to 1; 0 if only a return stops it."""
        if self.result is None:
            return 0.0
        steady = [metric for metric in STEADY_METRICS if self.stop.get(metric, 0) > 0]
        return min(1.0, max(((self.result.get(metric) or 0.0) / self.stop[metric] for metric in steady), default=0.0))

    def seconds_left(self, now: float) -> float | None:
        """Returns the seconds until the stop at the trial's own pace, or None while that is unknown.

        Args:
            now: The time.
        """
        pace = self._pace()
        if self.ended or pace is None:
            return None
        return max(0.0, (1 - self.share) * pace - (now - self._last_time))

    def seconds_in_all(self) -> float | None:
        """Returns the duration of the trial, if it has not ended at its present pace; None while that is unknown."""
        if not self.ended:
            return self._pace()
        here = 0.0 if self._began is None or self.ended_at is None else self.ended_at - self._began
        reported = (self.result.get("time_total_s") if self.result else None) or 0.0  # more, if it was resumed
        return max(here, reported) or None

    def seconds_since_start(self, now: float) -> float:
        """Returns the seconds since the trial has started; 0 before.

        Args:
            now: The time.
        """
        return 0.0 if self._began is None else now - self._began

    def line(self, now: float) -> str:
        """Returns the progress as one line of text.

        Args:
            now: The time.
        """
        ended = f" [{self.status.lower()}]" if self.ended else ""
        if self.result is None:
            return f"{self.name}:{ended or ' starts'}{f' on {self.place}' if self.place and not ended else ''}"
        returned = "" if self.metric == SGD_STEPS else f"return {self.return_text()}"
        parts = [self.steps_text(), returned, self.rate_text(), self.left_text(now)]
        return f"{self.name}: {', '.join(filter(None, parts))}{ended}"

    @property
    def metric(self) -> str:
        """The metric in which its steps are counted (`counted_metric`)."""
        return counted_metric([self.result or {}])

    def steps_text(self) -> str:
        """Returns the number of steps, and their number at the stop if there is one."""
        steps, words = cell_text(self.result.get(self.metric) if self.result else 0), self.metric.replace("_", " ")
        limit = self.stop.get(self.metric)
        return f"{steps} {words}" if limit is None else f"{steps} of {int(limit):,} {words}"

    def return_text(self) -> str:
        """Returns the mean return, with a fixed number of decimals."""
        mean = self.result.get("episode_return_mean") if self.result else None
        return "-" if mean is None else f"{mean:,.1f}" if abs(mean) >= 1 else f"{mean:.3f}"

    def rate_text(self) -> str:
        """Returns the env steps per second, or where no env is stepped the mean SGD steps per second; "" if unknown."""
        result = self.result or {}
        rate = result.get("env_steps_per_s")
        if self.metric == SGD_STEPS:
            rate = result[SGD_STEPS] / result["time_total_s"] if result.get("time_total_s") else None
        return "" if rate is None else f"{rate:,.0f} steps/s"

    def left_text(self, now: float) -> str:
        """Returns the time left, "" while it is unknown. A return as stop criterion may end the trial sooner.

        Args:
            now: The time.
        """
        left = self.seconds_left(now)
        return "" if left is None else f"{whole_seconds(left)} left"

    def _pace(self) -> float | None:
        """Returns the seconds for the whole way to the stop: by results seen so far, else by the trial's own time."""
        gone, took = self.share - self._base_share, self._last_time - self._base_time
        if gone > 0 and took > 0:
            return took / gone
        if self.result is None or (self.result.get("iteration") or 0) <= ITERATIONS_TO_START:
            return None
        total = self.result.get("time_total_s")
        return total / self.share if total and self.share > 0 else None


def counted_metric(results: Iterable[Result]) -> str:
    """Returns the metric in which the steps of results are counted: env steps, or SGD steps if no env is stepped.

    Examples:
        >>> counted_metric([{"env_steps": 0, "sgd_steps": 30}])
        'sgd_steps'
        >>> counted_metric([{"env_steps": 64, "sgd_steps": 30}, {}])
        'env_steps'
    """
    results = list(results)
    steps_no_env = not any(result.get(ENV_STEPS) for result in results)
    return SGD_STEPS if steps_no_env and any(result.get(SGD_STEPS) for result in results) else ENV_STEPS


def training_time(last: Result) -> str | None:
    """Returns the duration of a training by its last result, None before the first."""
    seconds = last.get("time_total_s")
    return None if seconds is None else duration(seconds)


def whole_seconds(seconds: float) -> str:
    """Returns a duration without fractions, which would flicker in a view that is redrawn."""
    return f"{seconds:.0f} s" if seconds < 59.5 else duration(seconds)


def shown_first(trials: Iterable[TrialProgress]) -> list[TrialProgress]:
    """Returns the trials in the order of a view: running, paused, then ended ones, the last first; not pending ones."""
    trials = list(trials)
    running = [trial for trial in trials if trial.status == "RUNNING"]
    paused = [trial for trial in trials if trial.status == "PAUSED"]
    ended = sorted((trial for trial in trials if trial.ended), key=lambda trial: -(trial.ended_at or 0.0))
    return running + paused + ended
