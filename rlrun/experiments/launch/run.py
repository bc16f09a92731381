"""Entry points `run` and `resume` for experiments, used by Python and by the command line.

A single trial without workers runs in this process, and ray is not imported; everything else runs under Ray Tune. The
training loop, files, checkpoints and events are the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.format import verify_checkpoint
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.trust import refuse_risks_of_run
from rlrun.experiments.cluster.ray_session import RaySession, belongs_to_ray, cluster_capacity
from rlrun.experiments.cluster.resources import TrialResources, machine_capacity
from rlrun.experiments.launch.chain import following
from rlrun.experiments.launch.checks import (
    check_chains,
    check_cluster,
    check_compiler,
    check_name,
    check_packages,
    choose_executor,
)
from rlrun.experiments.launch.parts import LaunchedExperiment, remaining_suggestions, run_all
from rlrun.experiments.launch.rewind import rewind
from rlrun.experiments.runs.events import RunMeasured, RunMeasuring, Watcher
from rlrun.experiments.runs.labels import Labels, write_labels
from rlrun.experiments.runs.run_directory import Executor, RunDirectory, default_runs_dir, follow_import_paths
from rlrun.experiments.runs.run_upload import copied, copy_location, is_taken
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
    from_checkpoint: Path | str | None = None,
    watch: Watcher = lambda event: None,
) -> list[TrialResult]:
    """Runs experiments one after the other, until all trials have ended, and returns the trials.

    A failed trial does not stop the others: look at `status` and `error` of the returned trials. If all trials of an
    experiment failed, the exception of its first trial is raised after everything has run.

    Ctrl-C or SIGTERM lets running trials finish their iteration and save; a second signal ends the run at once.

    Args:
        experiments: A spec file, an experiment, or a mapping of names to experiments with the structure of a spec file;
            or a sequence of these.
        overrides: Texts ``path=value`` that override the values in files and mappings, as with ``--set``.
        runs_dir: The folder that holds the runs; ``$RLRUN_RUNS`` or ``./runs`` by default.
        name: Name of the run's directory; the experiment's name by default. ``-2``, ``-3``, ... is appended if it is
            taken.
        tags: Tags of the runs, by which `rlrun runs --tag` finds them.
        note: A note that is stored with the runs.
        seed: The single seed to run, instead of the experiments' own seeds.
        executor: "local" for this process, one trial after the other; "ray" for Tune on Ray; by default "local" for a
            single trial without workers, else "ray".
        address: A Ray cluster to join, to which the user's own modules are shipped. By default Ray is started on this
            machine if necessary, unless this process has already joined a cluster.
        from_checkpoint: A checkpoint whose weights every trial starts from, except those of later stages.
        watch: Called with each event of the run (see `rlrun.experiments.runs.events`). If it raises, running trials
            save and stop, and its exception is raised.

    Returns:
        All trials of all experiments, in order.

    Raises:
        SpecError: With all mistakes of the specs.
        UsageError: If arguments contradict each other, a trial needs more CPUs or GPUs than available, or a logger's
            package is missing.
        CheckpointError: If `from_checkpoint` cannot be used.
        RlrunError: The error of the first trial, if all trials of an experiment failed.
        Interrupted: If the user interrupted; the message holds the command that resumes the run.
    """
    found = _experiments(experiments, overrides)
    if seed is not None:
        found = [experiment.replace(seeds=(seed,)) for experiment in found]
    labels = Labels().changed(tags, note=note)
    if name is not None:
        check_name(name, found)
    check_chains(found)
    start = None if from_checkpoint is None else Path(from_checkpoint)
    if start is not None:
        verify_checkpoint(start)
    plans = _plans(found, executor, address)
    check_packages(found)
    if any(experiment.auto for experiment in found):
        plans = _plans(
            [with_measured_settings(experiment, executor, address, watch) for experiment in found], executor, address
        )
    folder = default_runs_dir() if runs_dir is None else Path(runs_dir)
    parts: list[LaunchedExperiment] = []
    for experiment, trials, chosen in plans:
        directory = _new_directory(folder, name, experiment, trials, chosen, start, parts)
        if labels != Labels():
            write_labels(directory.path, labels)
        parts.append(LaunchedExperiment(directory, experiment, trials, chosen, resumed=False))
    return run_all(parts, address=address, eager=False, watch=watch)


def resume(
    directory: Path | str,
    *,
    executor: Executor | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    extend: Mapping[str, float] | None = None,
    from_step: float | None = None,
    eager: bool = False,
    trust: bool = True,
    watch: Watcher = lambda event: None,
) -> list[TrialResult]:
    """Resumes a run that was interrupted or killed, with each trial from its newest valid checkpoint.

    Finished trials are left as they are. Runs of later stages are resumed after it. The run's directory may
    have been moved in the meantime.

    Args:
        directory: The run's directory.
        executor: Executor of the remaining trials, as in `run`.
        address: A Ray cluster to join, as in `run`.
        retry_failed: Whether failed trials are resumed too, from their newest checkpoint.
        extend: New, larger values of stop criteria; trials that ended by their old criteria are resumed.
        from_step: Number of env steps to which trials are first rewound: each trial beyond it resumes from its newest
            complete checkpoint at or before this number. Later results are moved to the trial's folder ``set_aside``.
        eager: Whether updates that were compiled may run uncompiled on a machine without a compiler.
        trust: Whether the code, files and services that the run names may be used; False for another person's run.
        watch: Called with each event of the run.

    Returns:
        All trials of the run, in order, including trials that had finished before, and unfinished trials of later
        stages.

    Raises:
        UsageError: If the directory is not a run, another process runs it, a trial needs more CPUs or GPUs than
            available, or the run cannot be rewound to `from_step`.
        RunDamaged: If run.json or a trial.json cannot be read.
        CheckpointRefused: If the run names code, files or services, and `trust` is False.
        CheckpointError: If a trial has checkpoints but none that can be used, and no other trial succeeded.
        CompilerMissing: If updates were compiled, this machine has no compiler, and `eager` is False.
        Interrupted: If the user interrupted again.
    """
    opened = RunDirectory.open(Path(directory))
    runs = [opened, *following(opened)]
    for run_directory in runs:
        if trust:
            paths = run_directory.table.import_paths
            follow_import_paths([path for path in paths if Path(path).is_dir()])
        else:
            refuse_risks_of_run(run_directory.path)
        run_directory.restore_records()
    if extend:
        with opened.locked():
            opened.extend(extend)
    if from_step is not None:
        rewind(opened, from_step, watch)
    parts = []
    for run_directory in runs:
        part = _remaining_run(run_directory, executor, address, retry_failed=retry_failed, eager=eager)
        if part is not None:
            parts.append(part)
    if not parts:
        return opened.results()
    return run_all(parts, address=address, eager=eager, watch=watch)


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


def _remaining_run(
    opened: RunDirectory, executor: Executor | None, address: str | None, *, retry_failed: bool, eager: bool
) -> LaunchedExperiment | None:
    """Remaining part of a run for a resume, checked; None if the run is complete."""
    experiment = opened.experiment()
    trials = [opened.trial(name) for name in opened.unfinished(retry_failed=retry_failed)]
    if not trials and not remaining_suggestions(experiment, opened):
        if opened.table.copy is not None:  # the previous process may have been killed before the copy was complete
            with opened.locked(), copied(opened):
                pass
        return None
    require_loggers(experiment.loggers)
    check_cluster(trials or [experiment.first_trial()], address)
    check_packages([experiment])
    if address is None and not eager:
        check_compiler(opened, trials)
    return LaunchedExperiment(
        opened, experiment, trials, choose_executor(experiment, trials, executor, address), resumed=True
    )


def _new_directory(
    folder: Path,
    name: str | None,
    experiment: Experiment,
    trials: Sequence[TrialSpec],
    executor: Executor,
    start: Path | None,
    before: Sequence[LaunchedExperiment],
) -> RunDirectory:
    """Creates the directory of a new run, under a name that is unused in the run's storage as well.

    One that begins after another of the runs `before` notes its directory's name.

    Raises:
        UsageError: If the storage cannot be reached.
    """
    storage, name = experiment.storage, name or experiment.name
    after = None
    if experiment.begins is not None:
        names = {part.experiment.name: part.directory.path.name for part in before}
        after, start = names[experiment.begins.after], None
    if storage is None:
        return RunDirectory.create(folder, name, experiment, trials, executor, start, after=after)
    place = partial(copy_location, storage)
    directory = RunDirectory.create(
        folder, name, experiment, trials, executor, start, after=after, is_taken=lambda name: is_taken(place(name))
    )
    directory.note_copy(place(directory.path.name))
    return directory


def _experiments(source: ExperimentSource | Sequence[ExperimentSource], overrides: Sequence[str]) -> list[Experiment]:
    """Returns validated experiments from spec files, mappings and experiments.

    Raises:
        SpecError: If a spec or an override is wrong.
        UsageError: If there is none, or overrides are given for an `Experiment`, which is validated already.
    """
    sources = [source] if isinstance(source, Experiment | Mapping | str | Path) else source
    found: list[Experiment] = []
    for one in sources:
        if isinstance(one, Experiment):
            if overrides:
                raise UsageError(
                    f"overrides are for files and mappings; '{one.name}' is an experiment: use its replace()"
                )
            found.append(one)
        elif isinstance(one, Mapping):
            found += parse_experiments(one, overrides, makes_envs=True)
        else:
            found += load_experiments([one], overrides, makes_envs=True)
    if not found:
        raise UsageError("there is no experiment to run")
    return found


def with_measured_settings(
    experiment: Experiment, executor: Executor | None, address: str | None, watch: Watcher
) -> Experiment:
    """Replaces the value ``auto`` in an experiment by the numbers of workers and envs that are fastest on this machine.

    Returns the experiment unchanged if no setting has this value.

    To measure the speed, the experiment's first trial learns for some seconds with each candidate, without hooks and
    without writing files.

    Args:
        experiment: The experiment.
        executor: The user's choice of an executor, or None.
        address: The Ray cluster to join, or None.
        watch: Called with the events `RunMeasuring` and `RunMeasured`.

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
    """Maximum number of rollout workers that a trial can have if several trials run at once and share the CPUs equally.

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
