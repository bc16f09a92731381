"""Entry points `run` and `resume` for experiments, used by Python and by the command line.

A single trial without workers runs in this process, and ray is not imported; everything else runs under Ray Tune. The
training loop, files, checkpoints and events are the same in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.format import verify_checkpoint
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.processes.restart_note import leave_note
from rlrun.engine.trust import refuse_risks_of_run
from rlrun.experiments.cluster.ray_session import RaySession, belongs_to_ray, cluster_capacity
from rlrun.experiments.cluster.resources import TrialResources, machine_capacity
from rlrun.experiments.launch.chain import following
from rlrun.experiments.launch.checks import (
    check_chains,
    check_cluster,
    check_name,
    check_packages,
    check_wait,
    choose_executor,
)
from rlrun.experiments.launch.existing_run import (
    ExistingRun,
    complete_event,
    find_runs,
    found_event,
    interrupted_runs,
    past_failure,
    path_of_run,
    prepare_resume,
    remaining_part,
    take_up,
)
from rlrun.experiments.launch.parts import LaunchedExperiment, run_all, waiting_event
from rlrun.experiments.launch.rewind import rewind
from rlrun.experiments.launch.shards import check_shards, launched_shard, shared_run
from rlrun.experiments.runs.events import RunFound, RunMeasured, RunMeasuring, Watcher
from rlrun.experiments.runs.labels import Labels, write_labels
from rlrun.experiments.runs.outcome import resume_commands, shown_path
from rlrun.experiments.runs.run_directory import (
    Executor,
    RunDirectory,
    default_runs_dir,
    make_folder,
    new_directory,
)
from rlrun.experiments.runs.run_upload import copy_location, is_taken
from rlrun.experiments.runs.shard import Shard
from rlrun.experiments.runs.spec_changes import extend as extend_run
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.auto_settings import candidates
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.spec.load import load_experiments, parse_experiments
from rlrun.experiments.trial.trial_loggers import require_loggers

ExperimentSource = Experiment | Mapping[str, Any] | str | Path


def run(
    experiments: ExperimentSource | Sequence[ExperimentSource],
    *,
    overrides: Sequence[str] = (),
    runs_dir: Path | str | None = None,
    name: str | None = None,
    tags: Sequence[str] = (),
    note: str = "",
    seed: int | None = None,
    executor: Executor | None = None,
    address: str | None = None,
    wait_for_nodes_s: float | None = None,
    from_checkpoint: Path | str | None = None,
    resume: bool = False,
    retry_failed: bool = False,
    shard: tuple[int, int] | None = None,
    watch: Watcher = lambda event: None,
) -> list[TrialResult]:
    """Runs experiments one after the other, until all trials have ended, and returns the trials.

    A failed trial does not stop the others; check `status` and `error` of the returned trials. If all trials of an
    experiment failed, the exception of its first trial is raised after everything has run.

    Ctrl-C or SIGTERM lets running trials finish their iteration and save; a second signal ends the run at once.

    Args:
        experiments: A spec file, an experiment, or a mapping of names to experiments with the structure of a spec file;
            or a sequence of these.
        overrides: Strings ``path=value`` that override the values in files and mappings, as with ``--set``.
        runs_dir: The folder that holds the runs; ``$RLRUN_RUNS`` or ``./runs`` by default.
        name: Name of the run's directory; the experiment's name by default. If the name is taken, ``-2``, ``-3``, ...
            is appended.
        tags: Tags for the runs; `rlrun runs --tag` finds runs by their tags.
        note: A note that is stored with the runs.
        seed: The single seed to run, instead of the experiments' own seeds.
        executor: "local" for this process, one trial after the other; "ray" for Tune on Ray; by default "local" for a
            single trial without workers, else "ray".
        address: A Ray cluster to join, to which the user's own modules are shipped. By default Ray is started on this
            machine if necessary, unless this process has already joined a cluster.
        wait_for_nodes_s: Seconds to wait for nodes of the cluster if a trial does not fit; 0 refuses the trial at once.
            By default, the trial is refused at once if the cluster has no autoscaler, else after 15 minutes.
        from_checkpoint: A checkpoint whose weights every trial starts from, except trials of later stages.
        resume: Whether each experiment continues the run that already has its name, as `rlrun.resume` does: a complete
            run is left as it is, a larger stop criterion extends it, and a run that is only in the experiment's
            `storage` is fetched first. Without such a run, a new one begins.
        retry_failed: With `resume` or `shard`, whether failed trials are resumed too, from their newest checkpoint.
        shard: ``(i, n)`` to run only the trials i, i + n, i + 2n, ... of each experiment, one after the other in this
            process, while other processes run the other shards of the same run. The first of them creates the run. If
            the shard was interrupted, it continues.
        watch: Called with each event of the run (see `rlrun.experiments.runs.events`). If it raises an exception,
            running trials save and stop before the exception is raised to the caller.

    Returns:
        All trials of all experiments, or those of the shard, in order.

    Raises:
        SpecError: With all mistakes in the specs, or all settings in which the specs differ from the runs to be
            resumed.
        UsageError: If arguments contradict each other, a trial needs more CPUs or GPUs than available, a logger's
            package is missing, or another process is running a run that is to be resumed.
        CheckpointError: If `from_checkpoint` cannot be used, or a run that is to be resumed is damaged.
        RlrunError: The first trial's error, if all trials of an experiment failed, in this call or before it.
        Interrupted: If the user interrupted the run; the message contains the command that resumes it.
    """
    found = _experiments(experiments, overrides)
    if seed is not None:
        found = [experiment.replace(seeds=(seed,)) for experiment in found]
    labels = Labels().changed(tags, note=note)
    if name is not None:
        check_name(name, found)
    check_chains(found)
    check_wait(wait_for_nodes_s, address)
    if retry_failed and not resume and shard is None:
        raise UsageError("retry_failed needs resume: pass both, or neither")
    start = None if from_checkpoint is None else Path(from_checkpoint)
    if start is not None:
        verify_checkpoint(start)
    folder = default_runs_dir() if runs_dir is None else Path(runs_dir)
    if shard is not None:
        check_shards(found, executor, address)
        return _run_shard(found, Shard(*shard), folder, name, start, labels, retry_failed=retry_failed, watch=watch)
    existing = find_runs(found, folder, name, start) if resume else {}
    new = [experiment for experiment in found if experiment.name not in existing]
    plans = _plans(new, executor, address)
    check_packages(new)
    if not resume:
        for event in interrupted_runs(found, folder, name):
            watch(event)
    if any(experiment.auto for experiment in new):
        measured = [with_measured_settings(each, executor, address, wait_for_nodes_s, watch) for each in new]
        plans = _plans(measured, executor, address)
    parts = _parts_of_existing(
        existing, executor, address, tags=tags, note=note, retry_failed=retry_failed, watch=watch
    )
    left_alone = existing.keys() - parts.keys()
    directories = {experiment: one.directory for experiment, one in existing.items()}
    for experiment, trials, chosen in plans:
        path, was_there = _place_of_new_run(experiment, folder, name, has_exact_name=resume)
        if was_there:
            watch(
                RunFound(experiment.name, path, f"{shown_path(path)} contains no run yet: starting", (), is_over=False)
            )
        directory = directories[experiment.name] = _new_run(path, experiment, trials, chosen, start, directories)
        if labels != Labels():
            write_labels(path, labels)
        parts[experiment.name] = LaunchedExperiment(directory, experiment, trials, chosen, resumed=was_there)
    in_order = [parts[experiment.name] for experiment in found if experiment.name in parts]
    note_driver_restarts(found, [directories[experiment.name] for experiment in found])
    ended = []
    if in_order:
        ended = run_all(
            in_order, address=address, wait_for_nodes_s=wait_for_nodes_s, executor=executor, eager=False, watch=watch
        )
    return _all_trials(found, directories, left_alone, ended)


def _parts_of_existing(
    existing: Mapping[str, ExistingRun],
    executor: Executor | None,
    address: str | None,
    *,
    tags: Sequence[str],
    note: str,
    retry_failed: bool,
    watch: Watcher,
) -> dict[str, LaunchedExperiment]:
    """Remaining parts of existing runs, by experiment name; runs with nothing left to run are omitted."""
    parts = {}
    for experiment, one in existing.items():
        take_up(one, tags=tags, note=note)
        part = remaining_part(one.directory, executor, address, retry_failed=retry_failed, eager=False)
        watch(found_event(one, part))
        if part is not None:
            parts[experiment] = part
    return parts


def _run_shard(
    experiments: Sequence[Experiment],
    shard: Shard,
    folder: Path,
    name: str | None,
    start: Path | None,
    labels: Labels,
    *,
    retry_failed: bool,
    watch: Watcher,
) -> list[TrialResult]:
    """Runs the remaining trials of one shard of each experiment, and returns all trials of the shard."""
    directories: dict[str, RunDirectory] = {}
    parts: dict[str, LaunchedExperiment] = {}
    for experiment, trials, _ in _plans(experiments, "local", None):
        directory = directories[experiment.name] = shared_run(
            experiment, trials, shard, runs_dir=folder, name=name, from_checkpoint=start, labels=labels
        )
        part = launched_shard(directory, experiment, retry_failed=retry_failed, watch=watch)
        if part is not None:
            parts[experiment.name] = part
    remaining = list(parts.values())
    ended = run_all(remaining, address=None, wait_for_nodes_s=None, eager=False, watch=watch) if remaining else []
    return _all_trials(experiments, directories, directories.keys() - parts.keys(), ended)


def note_driver_restarts(experiments: Sequence[Experiment], runs: Sequence[RunDirectory]) -> None:
    """Leaves a note for the parent process, if one is waiting: the runs that it must continue if this process dies.

    Args:
        experiments: The experiments of the runs.
        runs: All runs of the call, in order.
    """
    leave_note(max(one.failure.driver_restarts for one in experiments), [run.path for run in runs])


def _all_trials(
    experiments: Sequence[Experiment],
    directories: Mapping[str, RunDirectory],
    left_alone: Set[str],
    ended: Sequence[TrialResult],
) -> list[TrialResult]:
    """Trials of all experiments of a call, in order.

    Args:
        experiments: The experiments.
        directories: Directories of their runs, by name of the experiment.
        left_alone: Names of the experiments whose runs had ended before the call.
        ended: The trials of the other runs.

    Raises:
        RlrunError: The error of a run whose trials had all failed before the call.
    """
    trials: dict[str, list[TrialResult]] = {}
    for experiment in experiments:
        directory = directories[experiment.name]
        if experiment.name in left_alone:
            trials[experiment.name] = directory.results()
        else:
            trials[experiment.name] = [trial for trial in ended if trial.directory.parent == directory.path]
    for name in left_alone:
        if (failure := past_failure(trials[name])) is not None:
            raise failure
    return [trial for own in trials.values() for trial in own]


def resume(
    directory: Path | str,
    *,
    executor: Executor | None = None,
    address: str | None = None,
    wait_for_nodes_s: float | None = None,
    retry_failed: bool = False,
    extend: Mapping[str, float] | None = None,
    from_step: float | None = None,
    eager: bool = False,
    trust: bool = True,
    watch: Watcher = lambda event: None,
) -> list[TrialResult]:
    """Resumes a run that was interrupted or killed; each trial starts from its newest valid checkpoint.

    Finished trials are left as they are. The runs of later stages are resumed after this run. The run's directory may
    have been moved in the meantime.

    Args:
        directory: The run's directory.
        executor: Executor of the remaining trials; by default "local" if the run was started with it, else as in `run`.
        address: A Ray cluster to join, as in `run`.
        wait_for_nodes_s: Seconds to wait for nodes of the cluster, as in `run`.
        retry_failed: Whether failed trials are resumed too, from their newest checkpoint.
        extend: New, larger values of stop criteria; trials that ended because of the old values are resumed.
        from_step: Number of env steps to which trials are first rewound: each trial beyond it resumes from its newest
            complete checkpoint at or before this number. Later results are moved to the trial's folder ``set_aside``.
        eager: Whether updates that were compiled may run uncompiled on a machine without a compiler.
        trust: Whether the code, files and services that the run names may be used; False for another person's run.
        watch: Called with each event of the run.

    Returns:
        All trials of the run, in order, including those that had already finished, and unfinished trials of later
        stages.

    Raises:
        UsageError: If the directory is not a run, another process is running it, a trial needs more CPUs or GPUs than
            available, or the run cannot be rewound to `from_step`.
        RunDamaged: If run.json or a trial.json cannot be read.
        CheckpointRefused: If the run names code, files or services, and `trust` is False.
        CheckpointError: If a trial has checkpoints but none that can be used, and no other trial succeeded.
        CompilerMissing: If updates were compiled, this machine has no compiler, and `eager` is False.
        Interrupted: If the user interrupted the run again.
    """
    check_wait(wait_for_nodes_s, address)
    opened = RunDirectory.open(Path(directory))
    runs = [opened, *following(opened)]
    for run_directory in runs:
        if not trust:
            refuse_risks_of_run(run_directory.path)
        prepare_resume(run_directory, trust=trust)
    if extend:
        with opened.locked():
            extend_run(opened, extend)
    if from_step is not None:
        rewind(opened, from_step, watch)
    parts = []
    for run_directory in runs:
        part = remaining_part(run_directory, executor, address, retry_failed=retry_failed, eager=eager)
        if part is not None:
            parts.append(part)
    if not parts:
        watch(complete_event(opened))
        return opened.results()
    note_driver_restarts([run_directory.experiment() for run_directory in runs], runs)
    return run_all(
        parts, address=address, wait_for_nodes_s=wait_for_nodes_s, executor=executor, eager=eager, watch=watch
    )


def continue_runs(
    directories: Sequence[Path],
    *,
    executor: Executor | None,
    address: str | None,
    wait_for_nodes_s: float | None,
    retry_failed: bool,
    eager: bool = False,
    trust: bool = True,
    watch: Watcher,
) -> list[TrialResult]:
    """Continues all runs of a command whose driver has died; `resume` continues a single run and its later stages.

    Args:
        directories: Directories of all runs of the command, in order.
        executor: Executor of the remaining trials, as in `run`.
        address: A Ray cluster to join, as in `run`.
        wait_for_nodes_s: Seconds to wait for nodes of the cluster, as in `run`.
        retry_failed: Whether failed trials are resumed too, as in `resume`.
        eager: Whether compiled updates may run uncompiled, as in `resume`.
        trust: Whether the code, files and services that the runs name may be used, as in `resume`.
        watch: Called with each event of the runs.

    Returns:
        All trials of the runs, in order.

    Raises:
        UsageError: As in `resume`; the message ends with the command that resumes the runs.
        RlrunError: Other errors, as in `resume`.
    """
    parts: dict[str, LaunchedExperiment] = {}
    ended: Sequence[TrialResult] = ()
    try:
        runs = [RunDirectory.open(path) for path in directories]
        experiments = [opened.experiment() for opened in runs]
        for opened, experiment in zip(runs, experiments, strict=True):
            if not trust:
                refuse_risks_of_run(opened.path)
            prepare_resume(opened, trust=trust)
            part = remaining_part(opened, executor, address, retry_failed=retry_failed, eager=eager)
            if part is not None:
                parts[experiment.name] = part
        if parts:
            remaining = list(parts.values())
            ended = run_all(
                remaining,
                address=address,
                wait_for_nodes_s=wait_for_nodes_s,
                executor=executor,
                eager=eager,
                watch=watch,
            )
    except UsageError as error:  # the cluster may have died with the driver
        raise UsageError(f"{error}; continue with: {resume_commands(directories)}") from error
    by_name = {experiment.name: opened for experiment, opened in zip(experiments, runs, strict=True)}
    return _all_trials(experiments, by_name, by_name.keys() - parts.keys(), ended)


def _plans(
    experiments: Sequence[Experiment], executor: Executor | None, address: str | None
) -> list[tuple[Experiment, list[TrialSpec], Executor]]:
    """Trials and executor of each experiment, checked."""
    plans = []
    for experiment in experiments:
        trials = experiment.trials()
        plans.append((experiment, trials, choose_executor(experiment, trials, executor, address)))
        require_loggers(experiment.loggers)
    check_cluster([trial for experiment, trials, _ in plans for trial in trials or [experiment.first_trial()]], address)
    return plans


def _place_of_new_run(
    experiment: Experiment, folder: Path, name: str | None, *, has_exact_name: bool
) -> tuple[Path, bool]:
    """Creates the directory of a new run, under a name that is unused in the run's storage as well.

    Args:
        experiment: The experiment.
        folder: The folder that holds the runs.
        name: Name of the run; None for the experiment's name.
        has_exact_name: Whether the directory gets exactly this name, even if it exists already; otherwise, a number is
            appended if the name is taken.

    Returns:
        The directory, and whether it was there already.

    Raises:
        UsageError: If the storage cannot be reached, or the directory cannot be created.
    """
    if not has_exact_name:
        storage = experiment.storage
        is_used = (lambda name: is_taken(copy_location(storage, name))) if storage else (lambda name: False)
        return new_directory(folder, name or experiment.name, is_used), False
    path = path_of_run(experiment, folder, name)
    was_there = path.exists()
    make_folder(path, "run directory")
    return path, was_there


def _new_run(
    path: Path,
    experiment: Experiment,
    trials: Sequence[TrialSpec],
    executor: Executor,
    start: Path | None,
    directories: Mapping[str, RunDirectory],
) -> RunDirectory:
    """Creates a new run in its directory.

    A run that begins after another one, whose directory is among `directories`, notes the name of this directory.
    """
    after = None
    if experiment.begins is not None:
        after, start = directories[experiment.begins.after].path.name, None
    directory = RunDirectory.create_in(path, experiment, trials, executor, start, after=after)
    if experiment.storage is not None:
        directory.write_table(replace(directory.table, copy=copy_location(experiment.storage, path.name)))
    return directory


def _experiments(source: ExperimentSource | Sequence[ExperimentSource], overrides: Sequence[str]) -> list[Experiment]:
    """Returns validated experiments from spec files, mappings and experiments.

    Raises:
        SpecError: If a spec or an override is wrong.
        UsageError: If there are no experiments, or overrides are given for an `Experiment`, which is already validated.
    """
    sources = [source] if isinstance(source, Experiment | Mapping | str | Path) else source
    found: list[Experiment] = []
    for one in sources:
        if isinstance(one, Experiment):
            if overrides:
                raise UsageError(
                    f"overrides apply only to files and mappings, but '{one.name}' is an experiment: use its replace()"
                )
            found.append(one)
        elif isinstance(one, Mapping):
            found += parse_experiments(one, overrides, makes_envs=True)
        else:
            found += load_experiments([one], overrides, makes_envs=True)
    if not found:
        raise UsageError("no experiments to run")
    return found


def with_measured_settings(
    experiment: Experiment,
    executor: Executor | None,
    address: str | None,
    wait_for_nodes_s: float | None,
    watch: Watcher,
) -> Experiment:
    """Replaces ``auto`` in an experiment with the numbers of workers and envs that are fastest on this machine.

    Returns the experiment unchanged if no setting has this value.

    To measure the speed, the experiment's first trial trains for a few seconds with each candidate, without hooks and
    without writing files.

    Args:
        experiment: The experiment.
        executor: The user's choice of an executor, or None.
        address: The Ray cluster to join, or None.
        wait_for_nodes_s: Seconds to wait for nodes of the cluster, or None for the default.
        watch: Called with the events `RunMeasuring` and `RunMeasured`.

    Raises:
        UsageError: The cluster cannot be joined, or is too small.
        TrainingFailed: The user's code raised an exception.
    """
    if not experiment.auto:
        return experiment
    watch(RunMeasuring(experiment.name, experiment.auto))
    from rlrun.experiments.launch.timings import chosen, quiet, time_settings

    trial = experiment.first_trial().replace(hooks=())
    at_a_time = 1 if executor == "local" else experiment.num_trials
    with ExitStack() as stack:
        if address is not None:
            session = RaySession([trial], address, [experiment], wait_for_nodes_s)
            stack.enter_context(quiet(session, lambda wait: watch(waiting_event(wait))))
        settings = candidates(trial.config, experiment.auto, room_for_workers(trial, at_a_time))
        timings = list(time_settings(trial, settings))
    best = chosen(timings)
    measured = experiment.with_measured(best.num_workers, best.num_envs_per_worker)
    numbers = {name: getattr(measured.config, name) for name in experiment.auto}
    watch(RunMeasured(experiment.name, numbers, best.env_steps_per_s, len(timings), len(settings)))
    return measured


def room_for_workers(trial: TrialSpec, at_a_time: int) -> int:
    """Maximum number of rollout workers for a trial if several trials run at once and share the CPUs equally.

    Args:
        trial: The trial.
        at_a_time: Number of trials that run at the same time.
    """
    needs = TrialResources.of(trial)
    if belongs_to_ray():
        capacity = cluster_capacity("the cluster")
    else:
        capacity = machine_capacity(needs_gpus=needs.total_gpus > 0)
    # The number of CPUs also limits workers that reserve none.
    return int(max(min(capacity.room_for_workers(needs), sum(capacity.cpus)), 0)) // at_a_time
