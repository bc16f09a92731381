"""Measures where the time of a running algorithm goes: operator by operator, and phase by phase on its workers."""

from __future__ import annotations

import bisect
import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlrun.metric import of_policy

if TYPE_CHECKING:
    from rlrun.flow.flow import OperatorTiming
    from rlrun.rollout.counts import MeasuredFragment
    from rlrun.training.training import Training

Span = tuple[float, float]
"""From when to when, on the clock of `time.perf_counter`."""

WARM_UP_ITERATIONS = 2
"""In the first one everything starts and compiles; the second one waits for fragments asked for in the first."""

TIMED_KINDS = ("source", "for_each", "combine", "filter")
"""Steps of a flow that do work of their own; the others only pass items on."""


@dataclass(frozen=True)
class WorkerTime:
    """What a worker did between the beginning of its first measured fragment and the end of its last one.

    Attributes:
        worker: Its index; 0 is this process.
        fragments: Fragments that it delivered with times.
        env_steps: Env steps in them.
        phases: Seconds by phase.
        wait_s: Seconds between fragments: it had nothing to do, took new weights, or packed what it sends.
        transfer_s: Seconds for which the driver waited for its finished fragments or unpacked them; None where nothing
            travels, and where the two clocks cannot be compared.
        queued_s: Seconds for which they lay finished while the driver was at something else; None likewise.
    """

    worker: int
    fragments: int
    env_steps: int
    phases: dict[str, float]
    wait_s: float
    transfer_s: float | None
    queued_s: float | None


@dataclass(frozen=True)
class Profile:
    """What was measured.

    Attributes:
        began: When measuring began, on the clock of `time.perf_counter`.
        ended: When it ended.
        iterations: Whole iterations in between.
        env_steps: Env steps that arrived in between.
        sgd_steps: Minibatches learned from in between.
        operators: The flow's operators and what they cost in between.
        waits: When the flow waited because nothing in it was ready.
        fragments: The measured fragments, in the order of their arrival.
        workers: What each worker did, in the order of their indices.
        policy_lag_mean: Mean over the iterations of how many batches old the weights were; None without an iteration.
        policy_lag_max: Most of it.
        was_interrupted: Whether the user ended it early.
    """

    began: float
    ended: float
    iterations: int
    env_steps: int
    sgd_steps: int
    operators: tuple[OperatorTiming, ...]
    waits: tuple[Span, ...]
    fragments: tuple[MeasuredFragment, ...]
    workers: tuple[WorkerTime, ...]
    policy_lag_mean: float | None
    policy_lag_max: int | None
    was_interrupted: bool

    @property
    def seconds(self) -> float:
        """Seconds that were measured."""
        return self.ended - self.began

    @property
    def waited_s(self) -> float:
        """Seconds of waiting."""
        return _total(self.waits)

    @property
    def sgd_s(self) -> float:
        """Seconds of SGD on the learner."""
        return sum(operator.seconds for operator in self.operators if operator.learns)

    @property
    def between_s(self) -> float:
        """Seconds between the operators: the flow itself, and results."""
        return self.seconds - self.waited_s - sum(operator.seconds for operator in self.operators)


def warm_up(training: Training) -> float:
    """Starts a training and runs its first iterations; returns the seconds that took."""
    began = time.perf_counter()
    for _ in range(WARM_UP_ITERATIONS):
        training.step()
    return time.perf_counter() - began


def profiled(training: Training, seconds: float) -> Profile:
    """Trains for about so many seconds, whole iterations of them, and measures what they go into.

    An interrupt (Ctrl-C) ends it early; what has been measured until then is returned.

    Args:
        training: The training; it has run before, so that nothing starts or compiles now.
        seconds: When no further iteration begins.
    """
    from rlrun.rollout.phases import machine_clock

    flow, workers = training.running.flow, training.running.workers
    before = {timing.path: timing for timing in flow.timings()}
    env_steps, sgd_steps = workers.counts.env_steps, _sgd_steps(training)
    measured = workers.counts.measured = []
    flow.keep_spans()
    began = time.perf_counter()
    lags: list[tuple[float, int]] = []
    described = training.description
    policies = described.policies.told_apart(described.env) or ("",)
    iterations, was_interrupted = 0, False
    try:
        while time.perf_counter() - began < seconds:
            result = training.step()
            iterations += 1
            lags += [
                (mean, result[of_policy(policy, "policy_lag_max")])
                for policy in policies
                if (mean := result[of_policy(policy, "policy_lag_mean")]) is not None
            ]
    except KeyboardInterrupt:
        was_interrupted = True
    ended = time.perf_counter()
    # What was under way before is left out, where that can be told: moments on other machines' clocks say nothing.
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
        operators=operators,
        waits=waits,
        fragments=fragments,
        workers=tuple(worker_times(fragments, receiving, travel=workers.num_workers > 0)),
        policy_lag_mean=sum(mean for mean, _ in lags) / len(lags) if lags else None,
        policy_lag_max=max((highest for _, highest in lags), default=None),
        was_interrupted=was_interrupted,
    )


def _sgd_steps(training: Training) -> int:
    """Returns the minibatches that all policies have learned from."""
    return sum(trainee.learner.sgd_steps for trainee in training.running.trainees)


def worker_times(
    fragments: Iterable[MeasuredFragment], receiving: Sequence[Span], *, travel: bool
) -> Iterable[WorkerTime]:
    """Yields what each worker did, in the order of their indices.

    Args:
        fragments: The measured fragments.
        receiving: When the driver waited or received, in order and without overlaps.
        travel: Whether fragments come from other processes.
    """
    from rlrun.rollout.phases import machine_clock

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
        )


def _since(timing: OperatorTiming, before: OperatorTiming) -> OperatorTiming:
    return dataclasses.replace(timing, seconds=timing.seconds - before.seconds, items=timing.items - before.items)


def _total(spans: Iterable[Span]) -> float:
    return sum(ended - began for began, ended in spans)


def _overlap(span: Span, others: Sequence[Span]) -> float:
    """Returns the seconds of a span that lie in any of the others, which are in order and do not overlap."""
    first = max(bisect.bisect_left(others, (span[0], span[0])) - 1, 0)
    overlap = 0.0
    for began, ended in others[first:]:
        if began >= span[1]:
            break
        overlap += max(min(ended, span[1]) - max(began, span[0]), 0.0)
    return overlap
