"""How far a run and its trials are: what the live view draws, what plain lines say, and what `rlrun status` prints."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from rlrun.cli.tables import cell_text, counted, duration, metric_words

if TYPE_CHECKING:
    from rlrun.runs.events import RunResources, TrialEvent
    from rlrun.spec.experiment import TrialSpec

Result = Mapping[str, Any]

ENV_STEPS, SGD_STEPS = "env_steps", "sgd_steps"

# Stop conditions that grow steadily, so that a share of them is a share of the work. A return is none of these.
STEADY_METRICS = (ENV_STEPS, "agent_steps", SGD_STEPS, "iteration", "episodes", "time_total_s")

SHOWN_METRICS = (*STEADY_METRICS, "episode_return_mean", "env_steps_per_s", "time_this_iter_s")
"""What is kept of a trial's newest result: of all of it a sweep of many trials would fill the memory."""

ITERATIONS_TO_START = 2
"""Iterations whose seconds say nothing of the pace: updates are traced and compiled in them."""

STOPPED = "STOPPED"
"""What a complete trial is called on the terminal that a scheduler has ended before its own stop."""

ACTIVE = ("PENDING", "RUNNING", "PAUSED")
"""What a trial is from which more will come."""


@dataclass
class TrialProgress:
    """How far one trial is. Times are seconds of whatever clock the caller goes by.

    Attributes:
        name: The trial's name.
        stop: Metric -> the value at which the trial stops.
        params: What varies between the trials, with the values it has now.
        seed: Its root seed, or its population's.
        group: Equal for trials that differ by their seed only; None for a trial on its own.
        status: Its status as the run reports it; besides, KILLED and DAMAGED where files tell it, and STOPPED
            for what a scheduler has ended.
        place: Where it runs, as host:pid; "" where that is unknown.
        result: What is shown of the newest result, or None.
        best: The best value so far of what it is judged by, or None.
        judged_by: The metric that says how good it is.
        ended_at: When it ended, None before.
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
        """Returns the progress of a trial that has not begun."""
        seed = trial.seed if trial.population is None else trial.population
        group = trial.configuration if trial.population is None else None
        return cls(trial.name, trial.stop, trial.params, seed, group, judged_by=trial.judged_by)

    def observe(self, event: TrialEvent, now: float) -> None:
        """Takes in what the run tells about the trial.

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
        """Takes in what the trial's files say, instead of what a run tells.

        Args:
            result: The newest result, None before the first.
            changed: When they were last written.
        """
        self.result, self._last_time = result, changed
        self._base_share, self._base_time = self.share, changed
        self.ended_at = changed if self.ended else None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.status not in ACTIVE

    @property
    def share(self) -> float:
        """How much of the way to its stop the trial has gone, 0 to 1; 0 where only a return stops it."""
        if self.result is None:
            return 0.0
        steady = [metric for metric in STEADY_METRICS if self.stop.get(metric, 0) > 0]
        return min(1.0, max(((self.result.get(metric) or 0.0) / self.stop[metric] for metric in steady), default=0.0))

    def seconds_left(self, now: float) -> float | None:
        """Returns the time until the stop at the trial's own pace, or None while that is unknown.

        Args:
            now: The time.
        """
        pace = self._pace()
        if self.ended or pace is None:
            return None
        return max(0.0, (1 - self.share) * pace - (now - self._last_time))

    def seconds_in_all(self) -> float | None:
        """Returns how long the trial has taken if it is over, and will take at its pace if it is not, or None."""
        if not self.ended:
            return self._pace()
        here = 0.0 if self._began is None or self.ended_at is None else self.ended_at - self._began
        told = (self.result.get("time_total_s") if self.result else None) or 0.0  # more, if it was resumed
        return max(here, told) or None

    def seconds_since_start(self, now: float) -> float:
        """Returns how long ago it was placed; 0 before that.

        Args:
            now: The time.
        """
        return 0.0 if self._began is None else now - self._began

    def line(self, now: float) -> str:
        """Returns the state in one line of words.

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
        """What its steps are, as in `counted_metric`."""
        return counted_metric([self.result or {}])

    def steps_text(self) -> str:
        """Returns the steps taken, and of how many where the stop says so."""
        steps, words = cell_text(self.result.get(self.metric) if self.result else 0), self.metric.replace("_", " ")
        limit = self.stop.get(self.metric)
        return f"{steps} {words}" if limit is None else f"{steps} of {int(limit):,} {words}"

    def return_text(self) -> str:
        """Returns the mean return, with digits that stay in place while it grows."""
        mean = self.result.get("episode_return_mean") if self.result else None
        return "-" if mean is None else f"{mean:,.1f}" if abs(mean) >= 1 else f"{mean:.3f}"

    def rate_text(self) -> str:
        """Returns the steps per second, "" while they are unknown: those of SGD on average."""
        result = self.result or {}
        rate = result.get("env_steps_per_s")
        if self.metric == SGD_STEPS:
            rate = result[SGD_STEPS] / result["time_total_s"] if result.get("time_total_s") else None
        return "" if rate is None else f"{rate:,.0f} steps/s"

    def left_text(self, now: float) -> str:
        """Returns the time left, "" while it is unknown. A return may stop the trial sooner than that.

        Args:
            now: The time.
        """
        left = self.seconds_left(now)
        return "" if left is None else f"{whole_seconds(left)} left"

    def _pace(self) -> float | None:
        """Returns the seconds for the whole way to the stop: as seen since it has started, else as the trial says."""
        gone, took = self.share - self._base_share, self._last_time - self._base_time
        if gone > 0 and took > 0:
            return took / gone
        if self.result is None or (self.result.get("iteration") or 0) <= ITERATIONS_TO_START:
            return None
        total = self.result.get("time_total_s")
        return total / self.share if total and self.share > 0 else None


@dataclass(frozen=True)
class Leader:
    """The configuration that is best so far.

    Attributes:
        metric: What the trials are judged by.
        value: The best values of its seeds, averaged.
        what: What it is, and of how many seeds the mean is, in words; "" in a run of one trial.
    """

    metric: str
    value: float
    what: str

    def __str__(self) -> str:
        return f"best {metric_words(self.metric)} {cell_text(self.value)}{f' ({self.what})' if self.what else ''}"


@dataclass
class RunProgress:
    """How far a run is.

    Attributes:
        experiment: Name of the experiment.
        trials: Its trials by name.
        expected: How many trials there will be; more than `trials` while a searcher has not suggested all of them.
        resources: What the running trials have taken, None where that is unknown.
        uses_ray: Whether Ray is started or joined first.
    """

    experiment: str
    trials: dict[str, TrialProgress]
    expected: int = 0
    resources: RunResources | None = None
    uses_ray: bool = False
    _slots: int = 0

    def observe(self, event: TrialEvent, now: float) -> TrialProgress:
        """Takes in what the run tells about a trial.

        Args:
            event: The event.
            now: The time.

        Returns:
            The trial.
        """
        trial = self.trials.setdefault(event.trial, TrialProgress(event.trial, {}))
        trial.observe(event, now)
        self.count_slots()
        return trial

    @property
    def starts_ray(self) -> bool:
        """Whether the run waits for Ray, which has neither told its resources nor started a trial."""
        told = not self.uses_ray or self.resources is not None
        return not told and all(trial.status == "PENDING" for trial in list(self.trials.values()))

    def count_slots(self) -> None:
        """Takes note of how many trials run at once."""
        self._slots = max(self._slots, sum(trial.status == "RUNNING" for trial in self.trials.values()))

    def seconds_left(self, now: float) -> float | None:
        """Returns the time until the last trial ends, or None while that is unknown.

        Running trials go on at their pace. Those that wait begin where one ends, and take as long as others have taken
        or will take.

        Args:
            now: The time.
        """
        trials = list(self.trials.values())
        known = [seconds for trial in trials if (seconds := trial.seconds_in_all()) is not None]
        typical = sum(known) / len(known) if known else None
        waiting, lefts = [1.0] * max(0, self.expected - len(trials)), []
        for trial in trials:
            left = trial.seconds_left(now)
            if trial.status == "PENDING" or (trial.status == "PAUSED" and left is None):
                waiting.append(1 - trial.share)
            elif not trial.ended and left is not None:
                lefts.append(left)
            elif not trial.ended and typical is not None:
                lefts.append(max(0.0, typical - trial.seconds_since_start(now)))
            elif not trial.ended:
                return None
        if typical is None or not (lefts or waiting):
            return None
        lefts += [0.0] * (max(1, self._slots) - len(lefts))
        heapq.heapify(lefts)
        for share in waiting:
            heapq.heappush(lefts, heapq.heappop(lefts) + share * typical)
        return max(lefts)

    def leader(self) -> Leader | None:
        """Returns the configuration with the highest mean over its seeds of their best values, None before any."""
        groups: dict[Hashable, list[TrialProgress]] = {}
        for trial in list(self.trials.values()):
            groups.setdefault(trial.name if trial.group is None else (trial.group,), []).append(trial)
        means: list[tuple[float, list[TrialProgress]]] = []
        for group in groups.values():
            bests = [trial.best for trial in group if trial.best is not None]
            if bests:
                means.append((sum(bests) / len(bests), group))
        if not means:
            return None
        value, group = max(means, key=lambda pair: pair[0])
        known = sum(trial.best is not None for trial in group)
        seeds = f"mean of {f'{known} of ' if known < len(group) else ''}{counted(len(group), 'seed')}"
        settings = {} if group[0].group is None else group[0].params  # in a population they are not what made it good
        words = ", ".join(f"{name}={cell_text(setting)}" for name, setting in settings.items())
        what = [words or group[0].name] if len(groups) > 1 else []
        return Leader(group[0].judged_by, value, ", ".join([*what, *([seeds] if len(group) > 1 else [])]))

    def counts_text(self) -> str:
        """Returns how many trials there are of each status, in words."""
        trials = list(self.trials.values())
        counts = Counter(trial.status for trial in sorted(trials, key=_place_of_status))
        more = [f"{self.expected - len(trials)} to come"] if self.expected > len(trials) else []
        parts = ", ".join([*(f"{count} {status.lower()}" for status, count in counts.items()), *more])
        return f"{counted(max(self.expected, len(trials)), 'trial')}: {parts}"

    def resources_text(self) -> str:
        """Returns what is in use of what there is, "" where that is unknown."""
        if self.resources is None:
            return ""
        used = self.resources
        gpus = f", {used.gpus_used:g}/{used.gpus_total:g} GPUs" if used.gpus_total else ""
        return f"{used.cpus_used:g}/{used.cpus_total:g} CPUs{gpus} in use"

    def stopping_text(self) -> str:
        """Returns what a run that is to stop waits for, and how long that has taken so far."""
        running = [trial for trial in self.trials.values() if trial.status == "RUNNING"]
        if not running:
            return "stopping"
        last = [trial.result.get("time_this_iter_s") or 0.0 for trial in running if trial.result is not None]
        if len(running) == 1:
            took = f"the one before took {duration(last[0])}" if last else "it is the first"
            return f"saves and stops at the end of this iteration ({took})"
        took = f"the longest before took {duration(max(last))}" if last else "they are the first"
        return f"{len(running)} trials save and stop at the end of their iterations ({took})"

    def left_text(self, now: float) -> str:
        """Returns the time left, roughly, "" while it is unknown.

        Args:
            now: The time.
        """
        left = self.seconds_left(now)
        if left is None:
            return ""
        rough = 5 * round(left / 5) if left < 60 else 60 * round(left / 60)
        return f"about {whole_seconds(rough).removesuffix(' 00 s')} left" if rough else "almost done"

    def summary(self, now: float) -> str:
        """Returns the state in one line of words.

        Args:
            now: The time.
        """
        leader = self.leader()
        parts = [self.counts_text(), "" if leader is None else str(leader), self.resources_text(), self.left_text(now)]
        return "; ".join(filter(None, parts))


def counted_metric(results: Iterable[Result]) -> str:
    """Returns which of their steps results are told by: env steps, or SGD steps where no env is stepped.

    Examples:
        >>> counted_metric([{"env_steps": 0, "sgd_steps": 30}])
        'sgd_steps'
        >>> counted_metric([{"env_steps": 64, "sgd_steps": 30}, {}])
        'env_steps'
    """
    results = list(results)
    steps_no_env = not any(result.get(ENV_STEPS) for result in results)
    return SGD_STEPS if steps_no_env and any(result.get(SGD_STEPS) for result in results) else ENV_STEPS


def whole_seconds(seconds: float) -> str:
    """Returns a duration without fractions, which would flicker in a view that is drawn again and again."""
    return f"{seconds:.0f} s" if seconds < 59.5 else duration(seconds)


def _place_of_status(trial: TrialProgress) -> int:
    order = ("RUNNING", "PAUSED", "PENDING")
    return order.index(trial.status) if trial.status in order else len(order)


def shown_first(trials: Iterable[TrialProgress]) -> list[TrialProgress]:
    """Returns the trials that are worth a line, the most interesting first: running, paused, then the last ended."""
    trials = list(trials)
    running = [trial for trial in trials if trial.status == "RUNNING"]
    paused = [trial for trial in trials if trial.status == "PAUSED"]
    ended = sorted((trial for trial in trials if trial.ended), key=lambda trial: -(trial.ended_at or 0.0))
    return running + paused + ended
