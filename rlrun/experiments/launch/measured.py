"""Measurement of settings ``auto`` before the trials of a run: one value for all of them."""

from __future__ import annotations

from contextlib import ExitStack

from rlrun.experiments.cluster.ray_session import RaySession, belongs_to_ray, cluster_capacity
from rlrun.experiments.cluster.resources import TrialResources, machine_capacity
from rlrun.experiments.runs.events import RunMeasured, RunMeasuring, Watcher
from rlrun.experiments.runs.run_directory import Executor
from rlrun.experiments.spec.auto_settings import candidates
from rlrun.experiments.spec.experiment import Experiment, TrialSpec


def with_measured_settings(
    experiment: Experiment, executor: Executor | None, address: str | None, watch: Watcher
) -> Experiment:
    """Experiment with numbers in place of ``auto``, measured here; the same experiment without ``auto``.

    Its first trial learns for some seconds with each setting, without its hooks, and writes nothing.

    Args:
        experiment: The experiment.
        executor: The user's choice of an executor, or None.
        address: The Ray cluster to join, or None.
        watch: Called with the events of measuring.

    Raises:
        UsageError: The cluster cannot be joined, or is too small.
        TrainingFailed: The user's code raised.
    """
    if not experiment.auto:
        return experiment
    watch(RunMeasuring(experiment.name, experiment.auto))
    from rlrun.experiments.launch.timings import chosen, quiet, time_settings

    trial = experiment.first_trial().replace(hooks=())
    at_a_time = 1 if executor == "local" else experiment.num_trials
    with ExitStack() as stack:
        if address is not None:
            stack.enter_context(quiet(RaySession([trial], address, [experiment])))
        settings = candidates(trial.config, experiment.auto, room_for_workers(trial, at_a_time))
        timings = list(time_settings(trial, settings))
    best = chosen(timings)
    measured = experiment.with_measured(best.num_workers, best.num_envs_per_worker)
    numbers = {name: getattr(measured.config, name) for name in experiment.auto}
    watch(RunMeasured(experiment.name, numbers, best.env_steps_per_s, len(timings), len(settings)))
    return measured


def room_for_workers(trial: TrialSpec, at_a_time: int) -> int:
    """Maximum number of workers of a trial where others run at the same time, each with an equal share of the CPUs.

    Args:
        trial: The trial.
        at_a_time: Number of trials that run at the same time.
    """
    needs = TrialResources.of(trial)
    if belongs_to_ray():
        capacity = cluster_capacity("the cluster")
    else:
        capacity = machine_capacity(needs_gpus=needs.total_gpus > 0)
    # Workers that reserve no CPUs are bounded by the CPUs as well.
    return int(max(min(capacity.room_for_workers(needs), sum(capacity.cpus)), 0)) // at_a_time
