"""Progress of a run: its trials, the best configuration so far, and the remaining time."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.cli.tables import cell_text, counted, duration, metric_words
from rlrun.cli.trial_progress import OUTCOME_METRICS, RETURN, TrialMetrics, TrialProgress, whole_seconds

if TYPE_CHECKING:
    from rlrun.experiments.runs.events import RunResources, RunWaiting, TrialEvent


@dataclass(frozen=True)
class BestConfiguration:
    """Best configuration of a run so far.

    Attributes:
        metric: Metric by which trials are compared.
        value: Best value of each trial, averaged over the seeds.
        what: Description of the configuration and its number of seeds; "" in a run of one trial.
        kind: "configuration", or "trial" in a population; "" if the run has only one configuration.
    """

    metric: str
    value: float
    what: str
    kind: str

    @override
    def __str__(self) -> str:
        text = f"{metric_words(self.metric)} {cell_text(self.value)}{f' ({self.what})' if self.what else ''}"
        return f"best {self.kind}: {text}" if self.kind else f"best {text}"


@dataclass
class RunProgress:
    """Progress of a run.

    Attributes:
        trials: Progress of the run's trials, by name.
        expected: Total number of trials at the end, including those that a searcher has not suggested yet.
        resources: CPUs and GPUs in use; None if unknown.
        uses_ray: Whether the run needs Ray, which it starts or joins before its trials.
        metrics: Metrics of the trial, in a run with a single trial; otherwise empty, to save memory.
        waiting: The newest report on a wait for cluster nodes; None if the run is not waiting.
    """

    trials: dict[str, TrialProgress]
    expected: int = 0
    resources: RunResources | None = None
    uses_ray: bool = False
    metrics: TrialMetrics = field(default_factory=TrialMetrics)
    waiting: RunWaiting | None = None
    _waits_since: float = 0.0
    _slots: int = 0

    def observe(self, event: TrialEvent, now: float) -> TrialProgress:
        """Updates the progress with an event from a trial.

        Args:
            event: The event.
            now: Current time in seconds, on the caller's clock.

        Returns:
            Progress of the event's trial.
        """
        trial = self.trials.setdefault(event.trial, TrialProgress(event.trial, {}))
        trial.observe(event, now)
        if self.has_single_trial and event.result is not None:
            self.metrics.observe(event.result, trial.named.values())
        self.count_slots()
        return trial

    def note_waiting(self, event: RunWaiting, now: float) -> bool:
        """Records a report on a wait for nodes.

        Args:
            event: The report.
            now: Current time in seconds, on the caller's clock.

        Returns:
            Whether the report says anything new apart from the longer wait.
        """
        before, self.waiting, self._waits_since = self.waiting, event, now - event.seconds
        return before is None or replace(before, seconds=event.seconds) != event

    def waiting_text(self, now: float) -> str:
        """Message about the wait for nodes; "" if the run is not waiting.

        Args:
            now: Current time in seconds, on the caller's clock.
        """
        if self.waiting is None:
            return ""
        event, so_far = self.waiting, whole_seconds(now - self._waits_since)
        starting = ", ".join(f"{number} x {kind}" for kind, number in Counter(event.starting).items())
        parts = [
            f"waiting for nodes, {so_far} of {whole_seconds(event.limit_s)}: {event.trial} needs {event.needs}",
            f"starting: {starting}" if starting else "",
            f"could not start: {', '.join(event.failed)}" if event.failed else "",
        ]
        return "; ".join(filter(None, parts))

    @property
    def starts_ray(self) -> bool:
        """Whether the run is still waiting for Ray to start: resources are unknown, and no trial has started."""
        is_ready = not self.uses_ray or self.resources is not None
        return not is_ready and all(trial.status == "PENDING" for trial in list(self.trials.values()))

    @property
    def has_single_trial(self) -> bool:
        """Whether the run has a single trial."""
        return max(self.expected, len(self.trials)) == 1

    def count_slots(self) -> None:
        """Updates the maximum number of trials that have run at once; the estimate of the remaining time needs it."""
        self._slots = max(self._slots, sum(trial.status == "RUNNING" for trial in self.trials.values()))

    def seconds_left(self, now: float) -> float | None:
        """Estimated remaining seconds of the run, or None while unknown.

        The estimate extrapolates running trials at their current pace. It assumes that a pending trial starts when
        another trial ends, and takes as long as the other trials do on average.

        Args:
            now: Current time in seconds, on the caller's clock.
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

    def leader(self) -> BestConfiguration | None:
        """Best configuration so far, by the trials' best values averaged over seeds; None before the first value."""
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
        settings = {} if group[0].group is None else group[0].params  # a population member's settings change
        words = ", ".join(f"{name}={cell_text(setting)}" for name, setting in settings.items())
        what = [words or group[0].name] if len(groups) > 1 else []
        kind = "" if len(groups) == 1 else "trial" if group[0].group is None else "configuration"
        text = ", ".join([*what, *([seeds] if len(group) > 1 else [])])
        return BestConfiguration(group[0].judged_by, value, text, kind)

    def counts_text(self) -> str:
        """Formats the number of trials by status, such as "3 trials: 2 running, 1 pending"."""
        trials = list(self.trials.values())
        counts = Counter(trial.status for trial in sorted(trials, key=_place_of_status))
        more = [f"{self.expected - len(trials)} not started"] if self.expected > len(trials) else []
        parts = ", ".join([*(f"{count} {status.lower()}" for status, count in counts.items()), *more])
        return f"{counted(max(self.expected, len(trials)), 'trial')}: {parts}"

    def newest_text(self) -> str:
        """Formats the range of the running trials' newest returns, or of their game outcomes; "" if there are none."""
        running = [trial for trial in list(self.trials.values()) if trial.status == "RUNNING"]
        is_games = any(trial.plays_games for trial in running)
        shown = OUTCOME_METRICS if is_games else {metric_words(RETURN): RETURN}
        found = {}
        for words, metric in shown.items():
            values = [value for trial in running if (value := (trial.result or {}).get(metric)) is not None]
            if values:
                low, high = cell_text(min(values)), cell_text(max(values))
                found[words] = low if low == high else f"{low} to {high}"
        return ", ".join(f"{words} {text}" for words, text in found.items())

    def resources_text(self) -> str:
        """Formats the CPUs and GPUs in use, such as "3/8 CPUs in use"; "" if unknown."""
        if self.resources is None:
            return ""
        used = self.resources
        gpus = f", {used.gpus_used:g}/{used.gpus_total:g} GPUs" if used.gpus_total else ""
        return f"{used.cpus_used:g}/{used.cpus_total:g} CPUs{gpus} in use"

    def stopping_text(self) -> str:
        """Message after an interrupt: what running trials must still do before they stop, and how long it may take."""
        after = ", and Ray will then be stopped" if self.uses_ray else ""
        running = [trial for trial in self.trials.values() if trial.status == "RUNNING"]
        if not running:
            waits = self.starts_ray and self.waiting is None
            return "Ray will be stopped as soon as it has started" if waits else f"the run will stop{after}"
        last = [trial.result.get("time_this_iter_s") or 0.0 for trial in running if trial.result is not None]
        if len(running) == 1:
            took = f"the previous one took {duration(last[0])}" if last else "the first iteration"
            return f"the trial will save and stop at the end of this iteration ({took}){after}"
        took = f"the longest so far took {duration(max(last))}" if last else "the first iterations"
        return f"{len(running)} trials will save and stop at the end of their iterations ({took}){after}"

    def remaining_text(self, now: float) -> str:
        """Formats the approximate remaining time, such as "about 5 min left"; "" while unknown.

        Args:
            now: Current time in seconds, on the caller's clock.
        """
        left = self.seconds_left(now)
        if left is None:
            return ""
        rough = 5 * round(left / 5) if left < 60 else 60 * round(left / 60)
        return f"about {whole_seconds(rough).removesuffix(' 00 s')} left" if rough else "almost done"

    def summary(self, now: float) -> str:
        """Formats the progress of the run as one line.

        The line shows the number of trials by status, the newest values of running trials, the best configuration,
        resources and the remaining time.

        Args:
            now: Current time in seconds, on the caller's clock.
        """
        leader = self.leader()
        parts = [
            self.counts_text(),
            self.newest_text(),
            "" if leader is None else str(leader),
            self.resources_text(),
            self.remaining_text(now),
        ]
        return "; ".join(filter(None, parts))


def _place_of_status(trial: TrialProgress) -> int:
    order = ("RUNNING", "PAUSED", "PENDING")
    return order.index(trial.status) if trial.status in order else len(order)
