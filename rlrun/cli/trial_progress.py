"""Progress of a trial: newest result, best value and remaining time, for views of a run."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from rlrun.cli.tables import cell_text, duration
from rlrun.report.games import GAMES, OUTCOMES, is_game_metric
from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS, STEP_NAMES, counted_metric

if TYPE_CHECKING:
    from rlrun.experiments.runs.events import TrialEvent
    from rlrun.experiments.spec.experiment import TrialSpec

Result = Mapping[str, Any]

# These stop criteria grow steadily, so a fraction of the limit is a fraction of the work. Returns grow unevenly.
STEADY_METRICS = (ENV_STEPS, "agent_steps", SGD_STEPS, "iteration", "episodes", "time_total_s")

RETURN = "episode_return_mean"

OUTCOME_METRICS = {words: f"{GAMES}{rate}" for words, rate in OUTCOMES.items()}
"""Metrics of the outcomes of games, by what they count: won, drawn, lost."""

SHOWN_METRICS = (
    *STEADY_METRICS,
    RETURN,
    "env_steps_per_s",
    "time_this_iter_s",
    *OUTCOME_METRICS.values(),
)
"""Names of the metrics kept from a trial's newest result; others are dropped to save memory in runs of many trials."""

RETURNS = (RETURN, f"evaluation/{RETURN}")

CURVES = (*RETURNS, *OUTCOME_METRICS.values())
"""Metrics whose history is kept in a run of one trial."""

ITERATIONS_TO_START = 2
"""Number of initial iterations that the pace estimate excludes, since they include tracing and compilation."""

STOPPED = "STOPPED"
"""Displayed status of a trial that a scheduler stopped early."""

ACTIVE = ("PENDING", "RUNNING", "PAUSED")
"""Statuses of trials that can have further results."""


@dataclass
class TrialProgress:
    """Progress of one trial of a run; times are in seconds on the caller's clock.

    Attributes:
        name: The trial's name.
        stop: Stop criteria: for each metric, the value at which the trial stops.
        params: Current values of the parameters that vary between trials.
        seed: Root seed of the trial; in populations, seed of the population.
        group: Key that is equal for trials that differ only by seed; None for a member of a population.
        status: Status of the trial; KILLED and DAMAGED are detected from its files; STOPPED means that a scheduler
            ended the trial.
        place: Host and process id of the trial, as host:pid; "" if unknown.
        result: The newest result, reduced to the metrics that are shown (`SHOWN_METRICS`), or None.
        best: Best value so far of the metric `judged_by`, or None.
        judged_by: Metric by which the trial is compared with others.
        ended_at: Time at which the trial ended; None while it has not.
        stop_reason: Why the trial stopped; "" while it has not, or if it failed.
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
    stop_reason: str = ""
    _began: float | None = None
    _num_results: int = 0
    _base_share: float = 0.0
    _base_time: float = 0.0
    _last_time: float = 0.0

    @classmethod
    def of(cls, trial: TrialSpec) -> Self:
        """Creates the progress of a trial that has not started yet."""
        seed = trial.seed if trial.population is None else trial.population
        group = trial.configuration if trial.population is None else None
        return cls(trial.name, trial.stop.bounds, trial.params, seed, group, judged_by=trial.judged_by)

    def observe(self, event: TrialEvent, now: float) -> None:
        """Updates the progress with an event from the trial.

        Args:
            event: An event of this trial.
            now: Current time in seconds, on the caller's clock.
        """
        self.status = STOPPED if event.stopped_by else event.status
        self.place = event.place or self.place
        if self._began is None and event.status == "RUNNING":
            self._began = now
        self.ended_at = now if self.ended else None
        self.stop_reason = event.stop_reason
        if event.params is not None:
            self.params = event.params
        if event.result is None:
            return
        self._last_time = now
        self._num_results += 1
        names = (*OUTCOME_METRICS.values(), *self.named.values())
        latest = {name: value for name in names if (value := self.latest(name)) is not None}
        shown = {
            metric: event.result[metric] for metric in (*SHOWN_METRICS, *self.named.values()) if metric in event.result
        }
        self.result = shown | {name: value for name, value in latest.items() if shown.get(name) is None}
        if self._num_results <= ITERATIONS_TO_START:
            self._base_share, self._base_time = self.share, now
        value = event.result.get(self.judged_by)  # None if the iteration had no evaluation
        if value is not None and (self.best is None or value > self.best):
            self.best = value

    def read(self, result: Result | None, changed: float) -> None:
        """Updates the progress from the trial's files.

        Args:
            result: The newest result, None before the first.
            changed: Time of the last change of the files.
        """
        self.result, self._last_time = result, changed
        self._base_share, self._base_time = self.share, changed
        self.ended_at = changed if self.ended else None

    @property
    def ended(self) -> bool:
        """Whether the trial has ended, so that no results will follow."""
        return self.status not in ACTIVE

    @property
    def share(self) -> float:
        """Completed fraction of the trial, from 0 to 1; always 0 if a return is the only stop criterion."""
        if self.result is None:
            return 0.0
        steady = [metric for metric in STEADY_METRICS if self.stop.get(metric, 0) > 0]
        return min(1.0, max(((self.result.get(metric) or 0.0) / self.stop[metric] for metric in steady), default=0.0))

    def seconds_left(self, now: float) -> float | None:
        """Estimated remaining seconds of the trial at its current pace, or None while unknown.

        Args:
            now: Current time in seconds, on the caller's clock.
        """
        pace = self._estimated_duration()
        if self.ended or pace is None:
            return None
        return max(0.0, (1 - self.share) * pace - (now - self._last_time))

    def seconds_in_all(self) -> float | None:
        """Total duration of the trial in seconds, extrapolated at the current pace while it runs; None if unknown."""
        if not self.ended:
            return self._estimated_duration()
        here = 0.0 if self._began is None or self.ended_at is None else self.ended_at - self._began
        reported = (self.result.get("time_total_s") if self.result else None) or 0.0  # exceeds `here` after a resume
        return max(here, reported) or None

    def seconds_since_start(self, now: float) -> float:
        """Seconds since the trial started; 0 if it has not.

        Args:
            now: Current time in seconds, on the caller's clock.
        """
        return 0.0 if self._began is None else now - self._began

    def line(self, now: float) -> str:
        """Formats the progress of the trial as one line: name, steps, return, speed, remaining time.

        Args:
            now: Current time in seconds, on the caller's clock.
        """
        reason = f": {self.stop_reason}" if self.stop_reason else ""
        ended = f" [{self.status.lower()}{reason}]" if self.ended else ""
        if self.result is None:
            return f"{self.name}:{ended or ' starting'}{f' on {self.place}' if self.place and not ended else ''}"
        parts = [self.steps_text(), self.score_text(), self.rate_text(), self.remaining_text(now)]
        return f"{self.name}: {', '.join(filter(None, parts))}{ended}"

    @property
    def metric(self) -> str:
        """Metric that counts the trial's steps: `env_steps`, or `sgd_steps` in offline training."""
        return counted_metric([self.result or {}])

    def steps_text(self, *, with_unit: bool = True) -> str:
        """Formats the number of steps, and the limit if there is one, such as "2,048 of 10,000 env steps".

        Args:
            with_unit: Whether to append the unit, such as env steps.
        """
        steps, words = cell_text(self.result.get(self.metric) if self.result else 0), STEP_NAMES[self.metric]
        limit = self.stop.get(self.metric)
        number = steps if limit is None else f"{steps} of {int(limit):,}"
        return f"{number} {words}" if with_unit else number

    @property
    def plays_games(self) -> bool:
        """Whether the trial is judged by the outcomes of games, whose mean return over both sides says nothing."""
        return is_game_metric(self.judged_by) or any(map(is_game_metric, self.result or ()))

    @property
    def named(self) -> dict[str, str]:
        """Metrics that the spec names in `stop` or by which the trial is judged, keyed by the last part of their names.

        Steps, returns and game outcomes are left out, since views show them anyway; a success rate would remain.
        """
        names = [name for name in (*self.stop, self.judged_by) if name not in (*SHOWN_METRICS, *CURVES)]
        return {name.rpartition("/")[2]: name for name in names if not is_game_metric(name)}

    def latest(self, metric: str) -> float | None:
        """Value of a metric in the newest result, or in the last evaluation if only evaluations measure it."""
        return self.result.get(metric) if self.result else None

    def score_text(self) -> str:
        """Formats the newest return or game outcomes ("won 0.6, drawn 0.1, lost 0.3") and named metrics; "" if none."""
        outcomes = OUTCOME_METRICS if self.plays_games else {}
        values = {words: self.latest(name) for words, name in {**outcomes, **self.named}.items()}
        texts = [f"{words} {cell_text(value)}" for words, value in values.items() if value is not None]
        has_return = self.metric != SGD_STEPS and not self.plays_games
        return ", ".join([*[f"return {self.return_text()}"] * has_return, *texts])

    def return_text(self) -> str:
        """Formats the newest mean return with a fixed number of decimals; "-" before the first."""
        mean = self.result.get("episode_return_mean") if self.result else None
        return "-" if mean is None else f"{mean:,.1f}" if abs(mean) >= 1 else f"{mean:.3f}"

    def rate_text(self) -> str:
        """Formats the env steps per second (SGD steps in offline training), such as "1,200 steps/s"; "" if unknown."""
        result = self.result or {}
        rate = result.get("env_steps_per_s")
        if self.metric == SGD_STEPS:
            rate = result[SGD_STEPS] / result["time_total_s"] if result.get("time_total_s") else None
        return "" if rate is None else f"{rate:,.0f} steps/s"

    def remaining_text(self, now: float) -> str:
        """Formats the remaining time, such as "5 min 10 s left"; "" while unknown.

        If a return is among the stop criteria, the trial may end earlier.

        Args:
            now: Current time in seconds, on the caller's clock.
        """
        left = self.seconds_left(now)
        return "" if left is None else f"{whole_seconds(left)} left"

    def _estimated_duration(self) -> float | None:
        """Estimated total seconds until the stop criterion: from observed results, else from the trial's own time."""
        gone, took = self.share - self._base_share, self._last_time - self._base_time
        if gone > 0 and took > 0:
            return took / gone
        if self.result is None or (self.result.get("iteration") or 0) <= ITERATIONS_TO_START:
            return None
        total = self.result.get("time_total_s")
        return total / self.share if total and self.share > 0 else None


@dataclass
class TrialMetrics:
    """Newest value of each metric of a trial, and curves of its returns.

    Attributes:
        last: The newest value of each metric, ignoring None.
        curves: For each metric in `CURVES` or named by the spec, its finite values so far, oldest first.
    """

    last: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)

    def observe(self, result: Result, named: Iterable[str]) -> None:
        """Updates the metrics with a new result.

        Args:
            result: The result.
            named: Metrics with curves in addition to `CURVES`.
        """
        self.last |= {name: value for name, value in result.items() if value is not None}
        for metric in (*CURVES, *named):
            value = result.get(metric)
            if value is not None and math.isfinite(value):
                self.curves.setdefault(metric, []).append(float(value))


def training_time(last: Result) -> str | None:
    """Formats how long a trial has trained so far, according to its last result; None before the first result."""
    seconds = last.get("time_total_s")
    return None if seconds is None else duration(seconds)


def whole_seconds(seconds: float) -> str:
    """Formats a duration in whole seconds, to avoid flicker in live views."""
    return f"{seconds:.0f} s" if seconds < 59.5 else duration(seconds)


def display_order(trials: Iterable[TrialProgress]) -> list[TrialProgress]:
    """Trials in display order: running, paused, then ended (latest first), without pending ones."""
    trials = list(trials)
    running = [trial for trial in trials if trial.status == "RUNNING"]
    paused = [trial for trial in trials if trial.status == "PAUSED"]
    ended = sorted((trial for trial in trials if trial.ended), key=lambda trial: -(trial.ended_at or 0.0))
    return running + paused + ended
