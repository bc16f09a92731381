"""Runs divided into shards of trials: checks of what shards can run, and creation of the run by the first shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlrun.engine.messages.errors import Problem, SpecError, UsageError
from rlrun.experiments.launch.existing_run import (
    ExistingRun,
    found_event,
    opened_run,
    path_of_run,
    prepare_resume,
    problems_of_start,
    remaining_part,
)
from rlrun.experiments.launch.parts import LaunchedExperiment
from rlrun.experiments.runs.events import RunFound, Watcher
from rlrun.experiments.runs.labels import Labels, write_labels
from rlrun.experiments.runs.outcome import shown_path
from rlrun.experiments.runs.run_directory import Executor, RunDirectory, make_folder
from rlrun.experiments.runs.run_lock import creation_lock
from rlrun.experiments.runs.shard import Shard
from rlrun.experiments.runs.spec_changes import SpecChanges, problems_of_changes, spec_changes
from rlrun.experiments.spec.experiment import Experiment, TrialSpec


def check_shards(experiments: Sequence[Experiment], executor: Executor | None, address: str | None) -> None:
    """Refuses experiments whose trials cannot be trained in shards, because shards know nothing of each other.

    Raises:
        UsageError: An experiment has a feature that needs all trials in one process, or the executor is Ray.
    """
    if executor == "ray" or address is not None:
        option = "--executor ray" if address is None else "--address"
        raise UsageError(
            f"--shard cannot be combined with {option}, because Ray distributes the trials itself: "
            "leave out one of the two"
        )
    for experiment in experiments:
        if reason := _why_not_in_shards(experiment):
            raise UsageError(f"{experiment.name} cannot be divided into shards: {reason}")


def _why_not_in_shards(experiment: Experiment) -> str:
    """Reason why an experiment's trials cannot be trained in shards; "" if they can."""
    if experiment.scheduler is not None:
        return f"the scheduler {experiment.scheduler.kind} compares all trials while they run; leave out --shard"
    if experiment.searches:
        return "the searcher chooses each trial by the results of the others; leave out --shard"
    if experiment.begins is not None:
        return (
            f"its trials continue trials of {experiment.begins.after}, which other shards may train; leave out --shard"
        )
    if experiment.storage is not None:
        return "only one process can update the copy in its storage; leave out --shard or storage"
    if experiment.auto:
        return f"each shard would measure {', '.join(experiment.auto)} separately; replace auto with numbers"
    return ""


def shared_run(
    experiment: Experiment,
    trials: Sequence[TrialSpec],
    shard: Shard,
    *,
    runs_dir: Path,
    name: str | None,
    from_checkpoint: Path | None,
    labels: Labels,
) -> RunDirectory:
    """Opens a shard of the run that has an experiment's name; creates the run if no other shard has created it yet.

    Args:
        experiment: The experiment.
        trials: All trials of the experiment.
        shard: The shard.
        runs_dir: The folder that holds the runs.
        name: Name of the run; None for the experiment's name.
        from_checkpoint: The checkpoint whose weights every trial starts from, or None.
        labels: Tags and note of a new run.

    Raises:
        SpecError: The run's settings differ from those of the experiment.
        UsageError: The run is divided into a different number of shards, or another process is running the whole run.
        RunDamaged: A file of the run is damaged.
    """
    path = path_of_run(experiment, runs_dir, name)
    make_folder(path, "the directory of a run")
    with creation_lock(path):
        run = opened_run(path)
        if run is None:
            run = RunDirectory.create_in(path, experiment, trials, "local", from_checkpoint, shards=shard.count)
            if labels != Labels():
                write_labels(path, labels)
    if run.table.shards is None:
        raise UsageError(
            f"{shown_path(path)} was started without --shard; leave out --shard to continue it, or choose another "
            "--name"
        )
    if run.table.shards != shard.count:
        raise UsageError(
            f"--shard {shard}: {shown_path(path)} is divided into {run.table.shards} shards: use --shard "
            f"I/{run.table.shards}, or choose another --name"
        )
    changes = spec_changes(run, experiment)
    differing = (*changes.with_rows, *changes.longer, *changes.without_rows)
    problems = [*problems_of_changes(run, experiment, differing), *problems_of_start(run, experiment, from_checkpoint)]
    if problems:
        advice = "all shards of a run have the same settings: restore them, or train under another name"
        raise SpecError([*problems, Problem("", advice)])
    return RunDirectory(run.path, run.table, shard)


def launched_shard(
    run: RunDirectory, experiment: Experiment, *, retry_failed: bool, watch: Watcher
) -> LaunchedExperiment | None:
    """Remaining part of a shard, checked and ready to run; None if nothing is left to run.

    Args:
        run: The shard of a run.
        experiment: The experiment.
        retry_failed: Whether failed trials are resumed too.
        watch: Called with the event `RunFound` if the shard was started before, or has no trials.

    Raises:
        UsageError: Another process is running the shard, or a trial needs more CPUs or GPUs than this machine has.
        RunDamaged: A file of the run is damaged.
    """
    prepare_resume(run, trust=True)
    with run.locked():  # makes sure that no other process is running the shard
        part = remaining_part(run, "local", None, retry_failed=retry_failed, eager=False)
    has_begun = any(run.record(name).status != "PENDING" for name in run.trial_names)
    if not run.trial_names:
        text = (
            f"shard {run.shard} of {shown_path(run.path)} has no trials, because the run has only "
            f"{len(run.table.trials)}"
        )
        watch(RunFound(experiment.name, run.path, text, (), is_over=True))
    elif has_begun:
        watch(found_event(ExistingRun(run, experiment, SpecChanges((), (), ())), part))
    return part and replace(part, resumed=has_begun)
