"""What a trial asks of a machine or cluster, and whether it can ever get it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlrun.errors import UsageError
from rlrun.spec.experiment import TrialSpec


@dataclass(frozen=True)
class TrialResources:
    """What one trial needs for as long as it runs.

    Attributes:
        cpus: CPUs of the trial's own process, which learns and, without workers, samples.
        gpus: GPUs of the trial's own process.
        num_workers: Number of rollout workers in processes of their own.
        cpus_per_worker: CPUs of each of them.
    """

    cpus: float
    gpus: float
    num_workers: int
    cpus_per_worker: float

    @classmethod
    def of(cls, trial: TrialSpec) -> TrialResources:
        """Returns what a trial needs."""
        return cls(
            cpus=trial.resources.cpus,
            gpus=trial.config.num_gpus,
            num_workers=trial.config.num_workers,
            cpus_per_worker=trial.config.num_cpus_per_worker,
        )

    @property
    def total_cpus(self) -> float:
        """CPUs of the trial and all its workers."""
        return self.cpus + self.num_workers * self.cpus_per_worker

    def bundles(self) -> list[dict[str, float]]:
        """Returns Ray's bundles: the trial's own first, then one for each worker."""
        trial = {"CPU": self.cpus, "GPU": self.gpus} if self.gpus else {"CPU": self.cpus}
        return [trial] + [{"CPU": self.cpus_per_worker}] * self.num_workers

    def __str__(self) -> str:
        needs = f"{_number(self.total_cpus)} CPUs and {_number(self.gpus)} GPUs"
        if not self.num_workers:
            return needs
        workers = f"{self.num_workers} x {_number(self.cpus_per_worker)} for workers"
        return f"{needs}: {_number(self.cpus)} for the trial + {workers}"


@dataclass(frozen=True)
class Capacity:
    """What a machine or cluster has.

    Attributes:
        cpus: CPUs of each node.
        gpus: GPUs of each node.
        place: What it is, for a message: "this machine" or "the cluster at 10.0.0.1:6379".
        shares_trial_cpu: Whether a trial's own process may run on the CPUs of its workers. It does on one's own
            machine, where it mostly waits while they sample; a cluster is shared and is taken at its word.
    """

    cpus: tuple[float, ...]
    gpus: tuple[float, ...]
    place: str
    shares_trial_cpu: bool

    def __str__(self) -> str:
        has = f"{self.place} has {_number(sum(self.cpus))} CPUs and {_number(sum(self.gpus))} GPUs"
        nodes = f"{len(self.cpus)} nodes with {_number(max(self.cpus, default=0))} CPUs at most"
        return f"{has} on {nodes}" if len(self.cpus) > 1 else has

    def fits(self, needs: TrialResources) -> bool:
        """Tells whether a trial can run here when nothing else does.

        On one's own machine the workers must fit its CPUs, and so must the trial's own process; together they may
        exceed them by the latter. On a cluster everything must fit side by side, each process on one node.
        """
        return needs.num_workers <= self.room_for_workers(needs)

    def room_for_workers(self, needs: TrialResources) -> float:
        """Returns how many workers of a trial's kind fit beside its own process; -1 if not even that fits."""
        room = -1.0
        for node, (cpus, gpus) in enumerate(zip(self.cpus, self.gpus, strict=True)):
            if needs.cpus <= cpus and needs.gpus <= gpus:
                left = list(self.cpus)
                left[node] -= 0 if self.shares_trial_cpu else needs.cpus
                each = needs.cpus_per_worker
                room = max(room, sum(math.floor(free / each + 1e-9) for free in left) if each else math.inf)
        return room


def check_fits(trials: Iterable[TrialSpec], capacity: Capacity) -> None:
    """Refuses trials that could wait for ever.

    Args:
        trials: The trials about to run.
        capacity: What there is.

    Raises:
        UsageError: If a trial can never get what it needs; it names the first such trial, and the numbers.
    """
    unfit = [trial for trial in trials if not capacity.fits(TrialResources.of(trial))]
    if not unfit:
        return
    needs = TrialResources.of(unfit[0])
    others = f" (and {len(unfit) - 1} more)" if len(unfit) > 1 else ""
    raise UsageError(f"trial {unfit[0].name}{others} needs {needs}; {capacity}{_advice(needs, capacity)}")


def machine_capacity(needs_gpus: bool) -> Capacity:
    """Returns what this machine offers to this process.

    Args:
        needs_gpus: Whether anyone asks for a GPU; only then is torch imported to count them.
    """
    gpus = 0
    if needs_gpus:
        import torch

        gpus = torch.cuda.device_count()
    return Capacity(cpus=(float(machine_cpus()),), gpus=(float(gpus),), place="this machine", shares_trial_cpu=True)


def ray_cpus(trials: Sequence[TrialSpec], cores: int) -> float:
    """Returns how many CPUs a Ray of our own is told to have: the cores, or what its largest trial needs.

    Args:
        trials: The trials that will run; each fits the machine.
        cores: The machine's cores.
    """
    return float(max([cores, *(math.ceil(TrialResources.of(trial).total_cpus) for trial in trials)]))


def machine_cpus() -> int:
    """Returns the cores this process may use: its affinity, or less where a container's quota allows less."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        cores = os.cpu_count() or 1
    quota = container_quota(Path("/sys/fs/cgroup/cpu.max"))
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


def container_quota(cpu_max: Path) -> float | None:
    """Returns how many CPUs a container may use, from cgroup v2's "QUOTA PERIOD" in microseconds; None for no limit."""
    try:
        quota, period = cpu_max.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _advice(needs: TrialResources, capacity: Capacity) -> str:
    """Says which fields to lower, where lowering them can help."""
    if needs.gpus > max(capacity.gpus, default=0):
        return "; lower num_gpus"
    if not needs.num_workers:
        return "; lower resources.cpus"
    room = capacity.room_for_workers(needs)
    return (
        "; lower resources.cpus" if room < 0 else f"; num_workers can be {room:g} at most, or lower num_cpus_per_worker"
    )


def _number(value: float) -> str:
    return f"{value:g}"
