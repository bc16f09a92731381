"""Resource requirements (CPUs, GPUs) of trials, and whether a machine or cluster can meet them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.spec.experiment import TrialSpec


@dataclass(frozen=True)
class TrialResources:
    """CPUs and GPUs allocated to a running trial.

    Attributes:
        cpus: CPUs of the trial's own process, which also learns or samples if no remote learners or workers do.
        gpus: GPUs of the trial's own process.
        num_workers: Number of remote rollout workers.
        cpus_per_worker: CPUs of each rollout worker.
        gpus_per_worker: GPUs of each rollout worker; 0 unless workers learn.
        num_learners: Total number of remote learners over all policies.
        cpus_per_learner: CPUs of each learner; the maximum over policies.
        gpus_per_learner: GPUs of each learner; the maximum over policies.
        cpus_of_server: CPUs of the inference server; 0 if there is no server.
        gpus_of_server: GPUs of the inference server.
    """

    cpus: float
    gpus: float
    num_workers: int
    cpus_per_worker: float
    gpus_per_worker: float
    num_learners: int
    cpus_per_learner: float
    gpus_per_learner: float
    cpus_of_server: float = 0.0
    gpus_of_server: float = 0.0

    @classmethod
    def of(cls, trial: TrialSpec) -> TrialResources:
        """Computes the resource requirements of a trial."""
        sampling, settings = trial.config, list(trial.settings.values())
        elsewhere = [config for config in settings if config.num_learners]
        on_workers = [config for config in settings if config.learns_on_workers and sampling.num_workers]
        in_process = [config for config in settings if config not in elsewhere + on_workers]
        return cls(
            cpus=trial.resources.cpus,
            gpus=sum(config.num_gpus for config in in_process),
            num_workers=sampling.num_workers,
            cpus_per_worker=sampling.num_cpus_per_worker,
            gpus_per_worker=sum(config.num_gpus for config in on_workers) / max(sampling.num_workers, 1),
            num_learners=sum(config.num_learners for config in elsewhere),
            cpus_per_learner=max(config.cpus_per_learner for config in elsewhere or settings),
            gpus_per_learner=max((config.gpus_per_learner for config in elsewhere), default=0.0),
            cpus_of_server=sampling.cpus_of_server,
            gpus_of_server=sampling.inference.num_gpus if sampling.is_served else 0.0,
        )

    @property
    def total_cpus(self) -> float:
        """Total CPUs of the trial's process, rollout workers, learners and inference server."""
        of_learners = self.num_learners * self.cpus_per_learner
        return self.cpus + self.num_workers * self.cpus_per_worker + of_learners + self.cpus_of_server

    @property
    def total_gpus(self) -> float:
        """Total GPUs of the trial's process, rollout workers, learners and inference server."""
        of_learners = self.num_learners * self.gpus_per_learner
        return self.gpus + self.num_workers * self.gpus_per_worker + of_learners + self.gpus_of_server

    def bundles(self) -> list[dict[str, float]]:
        """Bundles of Ray's placement group: the trial's process, learners, the inference server, rollout workers."""
        return [
            _bundle(self.cpus, self.gpus),
            *([_bundle(self.cpus_per_learner, self.gpus_per_learner)] * self.num_learners),
            *([_bundle(self.cpus_of_server, self.gpus_of_server)] if self.cpus_of_server else []),
            *([_bundle(self.cpus_per_worker, self.gpus_per_worker)] * self.num_workers),
        ]

    @override
    def __str__(self) -> str:
        return self.text(shares_trial_cpu=False)

    def text(self, *, shares_trial_cpu: bool) -> str:
        """Formats the requirements for messages: the total, and its breakdown.

        Args:
            shares_trial_cpu: Whether the trial's own process may share the CPUs of its workers and learners (see
                `Capacity`); the total is then the CPUs of the process or those of all others, whichever is larger.
        """
        parts = []
        if self.num_learners:
            parts.append(f"{self.num_learners} x {_number(self.cpus_per_learner)} for learners")
        if self.cpus_of_server:
            parts.append(f"{_number(self.cpus_of_server)} for the inference server")
        if self.num_workers:
            parts.append(f"{self.num_workers} x {_number(self.cpus_per_worker)} for workers")
        cpus = self.total_cpus
        if shares_trial_cpu and cpus - self.cpus >= self.cpus:
            cpus -= self.cpus
        elif shares_trial_cpu:
            cpus, parts = self.cpus, []
        elif parts:
            parts.insert(0, f"{_number(self.cpus)} for the trial")
        needs = _amounts(cpus, self.total_gpus, with_gpus=self.total_gpus > 0)
        return f"{needs} ({' + '.join(parts)})" if parts else needs


@dataclass(frozen=True)
class Capacity:
    """Capacity of a machine or cluster: CPUs and GPUs of each node.

    Attributes:
        cpus: CPUs of each node.
        gpus: GPUs of each node.
        place: Name of the machine or cluster in messages: "this machine" or "the cluster at 10.0.0.1:6379".
        shares_trial_cpu: Whether a trial's own process may share the CPUs of its workers and learners. True on a single
            machine, where the process is mostly idle; False on a cluster, which other users may share.
    """

    cpus: tuple[float, ...]
    gpus: tuple[float, ...]
    place: str
    shares_trial_cpu: bool

    def text(self, *, with_gpus: bool) -> str:
        """Formats the capacity for messages.

        Args:
            with_gpus: Whether to mention GPUs even if there are none.
        """
        total, gpus = sum(self.cpus), sum(self.gpus)
        if not (total or self.shares_trial_cpu or with_gpus):
            return f"no node of {self.place} has any"
        has = f"{self.place} has {_amounts(total, gpus, with_gpus=with_gpus)}"
        nodes = f"{len(self.cpus)} nodes, and at most {_counted(max(self.cpus, default=0), 'CPU')} on one"
        return f"{has} on {nodes}" if len(self.cpus) > 1 else has

    def fits(self, needs: TrialResources) -> bool:
        """Whether a trial fits into the total capacity, ignoring any other load.

        On a single machine, the workers and learners together must fit on its CPUs, and so must the trial's own
        process, counted separately. On a cluster all processes must fit together, each of them on one node.
        """
        return needs.num_workers <= self.room_for_workers(needs)

    def room_for_workers(self, needs: TrialResources) -> float:
        """Maximum number of rollout workers that fit next to a trial's process and learners; -1 if those do not fit."""
        room = -1.0
        each, gpus_each = needs.cpus_per_worker, needs.gpus_per_worker
        for cpus, gpus in self._left(needs, needs.num_learners):
            fitting = [_number_of(each, free) for free in cpus]
            if gpus_each:
                fitting = [min(number, _number_of(gpus_each, free)) for number, free in zip(fitting, gpus, strict=True)]
            room = max(room, sum(fitting))
        return room

    def room_for_learners(self, needs: TrialResources) -> int:
        """Maximum number of learners that fit next to a trial's own process; -1 if even the process does not fit."""
        fitting = [number for number in range(needs.num_learners + 1) if any(self._left(needs, number))]
        return max(fitting, default=-1)

    def _left(self, needs: TrialResources, num_learners: int) -> Iterator[tuple[list[float], list[float]]]:
        """Yields each node's remaining CPUs and GPUs for workers, for each possible node of the trial's process."""
        for node, (cpus, gpus) in enumerate(zip(self.cpus, self.gpus, strict=True)):
            if needs.cpus > cpus or needs.gpus > gpus:
                continue
            left, left_gpus = list(self.cpus), list(self.gpus)
            left[node] -= 0 if self.shares_trial_cpu else needs.cpus
            left_gpus[node] -= needs.gpus
            of_learner = needs.cpus_per_learner, needs.gpus_per_learner
            of_server = needs.cpus_of_server, needs.gpus_of_server
            if all(_take_place(each, left, left_gpus) for each in [*[of_learner] * num_learners, of_server]):
                yield left, left_gpus


def _number_of(each: float, free: float) -> float:
    """Number of processes that fit into a node's free CPUs or GPUs."""
    return math.floor(free / each + 1e-9) if each else math.inf


def _take_place(needs: tuple[float, float], cpus: list[float], gpus: list[float]) -> bool:
    """Allocates CPUs and GPUs of one process on the feasible node with most free CPUs; False without such a node."""
    fitting = [
        node
        for node, (free, free_gpus) in enumerate(zip(cpus, gpus, strict=True))
        if needs[0] <= free + 1e-9 and needs[1] <= free_gpus + 1e-9
    ]
    if not fitting:
        return False
    node = max(fitting, key=lambda node: cpus[node])
    cpus[node] -= needs[0]
    gpus[node] -= needs[1]
    return True


def check_fits(trials: Iterable[TrialSpec], capacity: Capacity, after: str = "") -> None:
    """Raises an error for a trial that needs more resources than the cluster has, and would therefore wait forever.

    Args:
        trials: The trials about to run.
        capacity: The machine or cluster.
        after: End of the message, such as how long the run has waited.

    Raises:
        UsageError: If a trial cannot fit; the message names the first such trial, and what it needs.
    """
    unfit = [trial for trial in trials if not capacity.fits(TrialResources.of(trial))]
    if not unfit:
        return
    needs = TrialResources.of(unfit[0])
    others = f" (and {len(unfit) - 1} more)" if len(unfit) > 1 else ""
    wanted = needs.text(shares_trial_cpu=capacity.shares_trial_cpu)
    has, advice = capacity.text(with_gpus=needs.total_gpus > 0), _advice(needs, capacity)
    raise UsageError(f"trial {unfit[0].name}{others} needs {wanted}, but {has}. {advice}.{after}")


def machine_capacity(needs_gpus: bool) -> Capacity:
    """Capacity of this machine: the CPUs and GPUs available to this process.

    Args:
        needs_gpus: Whether a trial needs a GPU; only then is torch imported to count GPUs.
    """
    gpus = 0
    if needs_gpus:
        import torch

        gpus = torch.cuda.device_count()
    return Capacity(cpus=(float(machine_cpus()),), gpus=(float(gpus),), place="this machine", shares_trial_cpu=True)


def ray_cpus(trials: Sequence[TrialSpec], cores: int) -> float:
    """Number of CPUs for a private Ray: the maximum of the machine's cores and the largest trial's CPUs.

    Args:
        trials: The trials that will run; each of them must fit on the machine.
        cores: The machine's cores.
    """
    return float(max([cores, *(math.ceil(TrialResources.of(trial).total_cpus) for trial in trials)]))


def machine_cpus() -> int:
    """Number of cores available to this process, limited by its CPU affinity and the container's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        cores = os.cpu_count() or 1
    quota = container_quota(Path("/sys/fs/cgroup/cpu.max"))
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


def container_quota(cpu_max: Path) -> float | None:
    """Reads a container's CPU limit from cgroup v2's file cpu.max; None for no limit.

    The file contains "QUOTA PERIOD" in microseconds.
    """
    try:
        quota, period = cpu_max.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _advice(needs: TrialResources, capacity: Capacity) -> str:
    """Advice on the settings to lower, with feasible values, and on more nodes."""
    nodes = [] if capacity.shares_trial_cpu else ["add nodes", "wait for them with --wait-for-nodes"]
    *first, last = [*nodes, *(f"lower {setting}" for setting in _settings_to_lower(needs, capacity))]
    comma = "," if len(first) > 1 else ""
    text = f"{', '.join(first)}{comma} or {last}" if first else last
    return text[0].upper() + text[1:]


def _settings_to_lower(needs: TrialResources, capacity: Capacity) -> list[str]:
    if needs.gpus > max(capacity.gpus, default=0) or needs.total_gpus > sum(capacity.gpus):
        return ["inference.num_gpus"] if needs.gpus_of_server and not needs.gpus else ["num_gpus"]
    room = capacity.room_for_workers(needs)
    if room >= 0:
        return [f"num_workers to {room:g}", "num_cpus_per_worker"]
    learners = capacity.room_for_learners(needs)
    return ["resources.cpus" if learners < 0 else f"num_learners to {learners}"]


def _bundle(cpus: float, gpus: float) -> dict[str, float]:
    return {"CPU": cpus, "GPU": gpus} if gpus else {"CPU": cpus}


def _amounts(cpus: float, gpus: float, *, with_gpus: bool) -> str:
    has_gpus = with_gpus or gpus > 0
    return _counted(cpus, "CPU") + (f" and {_counted(gpus, 'GPU')}" if has_gpus else "")


def _counted(value: float, unit: str) -> str:
    return f"{_number(value)} {unit if value == 1 else f'{unit}s'}"


def _number(value: float) -> str:
    return f"{value:g}"
