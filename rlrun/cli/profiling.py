"""Profiler for training: time per dataflow operator, and per phase of each rollout worker."""

from __future__ import annotations

import bisect
import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlrun.engine.settings.metric import of_policy

if TYPE_CHECKING:
    from rlrun.engine.flow.flow import OperatorTiming
    from rlrun.engine.rollout.counts import MeasuredFragment
    from rlrun.engine.rollout.inference.served import Served
    from rlrun.engine.training.training import Training

Span = tuple[float, float]
"""Time span: begin and end on the clock of `time.perf_counter`."""

WARM_UP_ITERATIONS = 2
"""Number of warm-up iterations: the first starts workers and compiles; the second still awaits fragments of the
first."""

TIMED_KINDS = ("source", "for_each", "combine", "filter")
"""Kinds of dataflow operators that compute; all others only pass data on."""


@dataclass(frozen=True)
class WorkerTime:
    """Time profile of a rollout worker, from the start of the first measured fragment to the end of the last.

    Attributes:
        worker: Index of the worker; 0 is this process.
        fragments: Number of measured fragments.
        env_steps: Number of env steps in the measured fragments.
        phases: Seconds by phase of collection, such as env steps or inference.
        wait_s: Seconds between fragments, in which the worker was idle, loaded new weights, or serialized a fragment.
        transfer_s: Seconds in which the driver waited for finished fragments or deserialized them; None for a worker in
            this process, or if the clocks of the worker and the driver cannot be compared.
        queued_s: Seconds for which finished fragments were queued while the driver was busy; None if `transfer_s` is
            None.
        served: Counts of the requests to an inference server; None if the worker itself chose the actions.
    """

    worker: int
    fragments: int
    env_steps: int
    phases: dict[str, float]
    wait_s: float
    transfer_s: float | None
    queued_s: float | None
    served: Served | None = None


@dataclass(frozen=True)
class Profile:
    """Time profile of training: operators, idle time, fragments and workers.

    Attributes:
        began: Start of the measurement, on the clock of `time.perf_counter`.
        ended: End of the measurement.
        iterations: Number of iterations.
        env_steps: Number of env steps received.
        sgd_steps: Number of SGD steps, one per minibatch.
        hooks_s: Seconds spent in the trial's hooks; None without hooks.
        operators: Operators of the dataflow, with the time spans in which they ran.
        waits: Idle spans, in which no operator of the dataflow was ready.
        fragments: The measured fragments, in order of arrival.
        workers: Time profiles of the workers, in order of index.
        policy_lag_mean: Mean policy lag (age of the behavior weights, in batches) over the iterations; None if no
            iteration has a policy lag.
        policy_lag_max: Maximum policy lag.
        was_interrupted: Whether the user ended the measurement early.
    """

    began: float
    ended: float
    iterations: int
    env_steps: int
    sgd_steps: int
    hooks_s: float | None
    operators: tuple[OperatorTiming, ...]
    waits: tuple[Span, ...]
    fragments: tuple[MeasuredFragment, ...]
    workers: tuple[WorkerTime, ...]
    policy_lag_mean: float | None
    policy_lag_max: int | None
    was_interrupted: bool

    @property
    def seconds(self) -> float:
        """Length of the measurement in seconds."""
        return self.ended - self.began

    @property
    def waited_s(self) -> float:
        """Total idle time of the dataflow in seconds."""
        return _total(self.waits)

    @property
    def sgd_s(self) -> float:
        """Total time of SGD on the learner, in seconds."""
        return sum(operator.seconds for operator in self.operators if operator.learns)

    @property
    def between_s(self) -> float:
        """Seconds spent outside of operators, hooks and idle spans: dataflow scheduling, and processing of results."""
        spent = self.waited_s + sum(operator.seconds for operator in self.operators) + (self.hooks_s or 0.0)
        return self.seconds - spent


def warm_up(training: Training) -> float:
    """Starts a `Training` and runs warm-up iterations; returns the duration in seconds."""
    began = time.perf_counter()
    for _ in range(WARM_UP_ITERATIONS):
        training.step()
    return time.perf_counter() - began


def profiled(training: Training, seconds: float) -> Profile:
    """Profiles a `Training` for a given duration, extended to the end of an iteration.

    An interrupt (Ctrl-C) ends profiling early; the result is then a partial profile.

    Args:
        training: The `Training`, already warmed up, so that nothing has to start or compile.
        seconds: Seconds after which no new iteration begins.
    """
    from rlrun.engine.rollout.phases import machine_clock
    from rlrun.experiments.trial.altered_process import require_elapsed

    flow, workers = training.running.flow, training.running.workers
    before = {timing.path: timing for timing in flow.timings()}
    env_steps, sgd_steps = workers.counts.env_steps, _sgd_steps(training)
    measured = workers.counts.measured = []
    hooks = training.running.hooks
    hooks_s = None if hooks is None else hooks.seconds
    flow.keep_spans()
    began = time.perf_counter()
    lags: list[tuple[float, int]] = []
    described = training.description
    policies = described.policies.reported_policies(described.env) or ("",)
    iterations, was_interrupted = 0, False
    try:
        while time.perf_counter() - began < seconds:
            result = training.step()
            require_elapsed(time.perf_counter() - began)
            iterations += 1
            lags += [
                (mean, result[of_policy(policy, "policy_lag_max")])
                for policy in policies
                if (mean := result[of_policy(policy, "policy_lag_mean")]) is not None
            ]
    except KeyboardInterrupt:
        was_interrupted = True
    ended = time.perf_counter()
    # Fragments begun before the measurement are left out, except on other machines, whose clocks cannot be compared.
    fragments = tuple(own for own in measured if own.times.clock != machine_clock() or own.times.began >= began)
    workers.counts.measured = None
    operators = tuple(_since(timing, before[timing.path]) for timing in flow.timings() if timing.kind in TIMED_KINDS)
    waits = tuple(flow.waits or ())
    receiving = sorted(
        [*waits, *(span for operator in operators if operator.kind == "source" for span in operator.spans)]
    )
    return Profile(
        began=began,
        ended=ended,
        iterations=iterations,
        env_steps=workers.counts.env_steps - env_steps,
        sgd_steps=_sgd_steps(training) - sgd_steps,
        hooks_s=None if hooks is None or hooks_s is None else hooks.seconds - hooks_s,
        operators=operators,
        waits=waits,
        fragments=fragments,
        workers=tuple(worker_times(fragments, receiving, travel=workers.num_workers > 0)),
        policy_lag_mean=sum(mean for mean, _ in lags) / len(lags) if lags else None,
        policy_lag_max=max((highest for _, highest in lags), default=None),
        was_interrupted=was_interrupted,
    )


def _sgd_steps(training: Training) -> int:
    """Total number of SGD steps (minibatches) of all policies."""
    return sum(trainee.learner.sgd_steps for trainee in training.running.trainees)


def worker_times(
    fragments: Iterable[MeasuredFragment], receiving: Sequence[Span], *, travel: bool
) -> Iterable[WorkerTime]:
    """Yields the time profile of each rollout worker, in order of index.

    Args:
        fragments: The measured fragments.
        receiving: Time spans in which the driver waited for or received fragments, in order and without overlaps.
        travel: Whether workers run in other processes, so that the transfer of fragments takes time.
    """
    from rlrun.engine.rollout.inference.served import merged
    from rlrun.engine.rollout.phases import machine_clock

    by_worker: dict[int, list[MeasuredFragment]] = defaultdict(list)
    for fragment in fragments:
        by_worker[fragment.worker].append(fragment)
    for worker, own in sorted(by_worker.items()):
        phases: dict[str, float] = defaultdict(float)
        for fragment in own:
            for phase, spent in fragment.times.seconds.items():
                phases[phase] += spent
        spans = sorted((fragment.times.began, fragment.times.ended) for fragment in own)
        on_the_way = [(fragment.times.ended, fragment.received) for fragment in own]
        is_comparable = travel and all(fragment.times.clock == machine_clock() for fragment in own)
        transfer_s = sum(_overlap(span, receiving) for span in on_the_way) if is_comparable else None
        yield WorkerTime(
            worker=worker,
            fragments=len(own),
            env_steps=sum(fragment.env_steps for fragment in own),
            phases=dict(phases),
            wait_s=spans[-1][1] - spans[0][0] - _total(spans),
            transfer_s=transfer_s,
            queued_s=None if transfer_s is None else _total(on_the_way) - transfer_s,
            served=merged([fragment.served for fragment in own if fragment.served is not None]),
        )


def _since(timing: OperatorTiming, before: OperatorTiming) -> OperatorTiming:
    return dataclasses.replace(timing, seconds=timing.seconds - before.seconds, items=timing.items - before.items)


def _total(spans: Iterable[Span]) -> float:
    return sum(ended - began for began, ended in spans)


def _overlap(span: Span, others: Sequence[Span]) -> float:
    """Seconds of a span that overlap with sorted, disjoint other spans."""
    first = max(bisect.bisect_left(others, (span[0], span[0])) - 1, 0)
    overlap = 0.0
    for began, ended in others[first:]:
        if began >= span[1]:
            break
        overlap += max(min(ended, span[1]) - max(began, span[0]), 0.0)
    return overlap
