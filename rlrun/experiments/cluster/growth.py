"""Waiting for a Ray cluster to grow until its living nodes have room for each trial."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rlrun.experiments.cluster.ray_internals import AutoscalerReport, autoscaler_report
from rlrun.experiments.cluster.resources import Capacity, TrialResources, check_fits
from rlrun.experiments.spec.experiment import TrialSpec

WAIT_FOR_NODES_S = 900.0
"""Default time limit in seconds for nodes that an autoscaler starts; GPU nodes of clouds take up to ten minutes."""

LOOK_EVERY_S = 1.0
"""Seconds between two checks of the cluster's nodes."""

REPORT_EVERY_S = 30.0
"""Seconds between two reports while nothing changes."""


@dataclass(frozen=True)
class NodeWait:
    """State of a trial that is waiting for nodes.

    Attributes:
        trial: Name of the trial.
        needs: The CPUs and GPUs that the trial needs.
        seconds: Seconds that the trial has waited so far.
        limit_s: Seconds after which the run is refused.
        autoscaler: The autoscaler's newest report.
    """

    trial: str
    needs: str
    seconds: float
    limit_s: float
    autoscaler: AutoscalerReport


class NodeWaiter:
    """Waits until the living nodes of a cluster have room for each trial, checking one trial after the other.

    While a trial waits, its placement group is pending in the cluster; an autoscaler thus learns what to start. The
    group belongs to this job and disappears with it.

    Args:
        capacity: Function that returns the capacity of the living nodes.
        limit_s: Seconds after which a trial that does not fit is refused. By default, it is refused immediately if the
            cluster is known to have no autoscaler, and otherwise after `WAIT_FOR_NODES_S`.
        report: Called with each new report: at the start, after a change, and every 30 s.
        is_stopped: Function that returns whether the user has interrupted the run; the wait then ends.
    """

    def __init__(
        self,
        capacity: Callable[[], Capacity],
        limit_s: float | None,
        report: Callable[[NodeWait], object],
        is_stopped: Callable[[], bool],
    ) -> None:
        self._capacity = capacity
        self._limit_s = limit_s
        self._report = report
        self._is_stopped = is_stopped
        self._began = time.monotonic()
        self._reported_at = -math.inf
        self._reported: AutoscalerReport | None = None

    def wait(self, trials: Sequence[TrialSpec]) -> None:
        """Waits until the cluster has had room for each trial at least once, starting with the largest trial.

        Raises:
            UsageError: The cluster has no room for a trial within the time limit.
        """
        by_needs = {TrialResources.of(trial): trial for trial in reversed(trials)}
        for needs in sorted(by_needs, key=lambda needs: (-needs.total_gpus, -needs.total_cpus)):
            if not self._capacity().fits(needs):
                self._look(by_needs[needs])  # if this raises, the cluster is not asked for nodes
                with demanded(needs):
                    self._wait_for(by_needs[needs])

    def _wait_for(self, trial: TrialSpec) -> None:
        while not (self._is_stopped() or self._capacity().fits(TrialResources.of(trial))):
            self._look(trial)
            time.sleep(LOOK_EVERY_S)

    def _look(self, trial: TrialSpec) -> None:
        """Reports what the autoscaler is doing if this has changed, or if the last report is old.

        Raises:
            UsageError: The time limit is over.
        """
        autoscaler = autoscaler_report()
        seconds, limit_s = time.monotonic() - self._began, self._limit_s
        if limit_s is None:
            limit_s = 0.0 if autoscaler.is_fixed else WAIT_FOR_NODES_S
        if seconds >= limit_s:
            failed = f" Ray could not start: {', '.join(autoscaler.failed)}." if autoscaler.failed else ""
            after = f" The run waited {seconds:.0f} s for nodes.{failed}" if limit_s else ""
            check_fits([trial], self._capacity(), after)
        elif autoscaler != self._reported or seconds - self._reported_at >= REPORT_EVERY_S:
            self._reported, self._reported_at = autoscaler, seconds
            self._report(NodeWait(trial.name, str(TrialResources.of(trial)), seconds, limit_s, autoscaler))


@contextmanager
def demanded(needs: TrialResources) -> Iterator[None]:
    """Context manager that keeps a placement group for a trial's resources pending in the cluster."""
    from ray.util import placement_group, remove_placement_group

    bundles = [bundle for bundle in needs.bundles() if any(bundle.values())]
    group = placement_group(bundles, strategy="PACK")
    try:
        yield
    finally:
        remove_placement_group(group)
