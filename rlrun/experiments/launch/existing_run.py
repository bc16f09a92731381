"""Runs that already exist: which parts a call continues, from this machine's disk or a copy in external storage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import (
    CheckpointError,
    EnvironmentUnusable,
    OutOfResources,
    Problem,
    RlrunError,
    SpecError,
    TrainingFailed,
    UsageError,
)
from rlrun.experiments.launch.chain import following
from rlrun.experiments.launch.checks import check_cluster, check_compiler, check_packages, choose_executor
from rlrun.experiments.launch.parts import LaunchedExperiment, remaining_suggestions
from rlrun.experiments.runs.copy_owner import CopyOwner
from rlrun.experiments.runs.events import RunFound
from rlrun.experiments.runs.labels import read_labels, write_labels
from rlrun.experiments.runs.outcome import resume_command, shown_path
from rlrun.experiments.runs.run_directory import (
    RUN_FILE,
    Executor,
    RunDirectory,
    directory_name,
    follow_import_paths,
    new_directory,
)
from rlrun.experiments.runs.run_lock import drivers_of
from rlrun.experiments.runs.run_upload import copied, copy_location, fetch_run, is_taken, owned
from rlrun.experiments.runs.spec_changes import SpecChanges, extend, problems_of_changes, spec_changes, take_over
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.experiment import Experiment
from rlrun.experiments.trial.trial_directory import TRIAL_FILE, TrialDirectory
from rlrun.experiments.trial.trial_loggers import require_loggers

FAILURES: dict[int, type[RlrunError]] = {
    kind.exit_code: kind
    for kind in (RlrunError, UsageError, TrainingFailed, CheckpointError, EnvironmentUnusable, OutOfResources)
}
"""Class of the error that is raised again for a failed trial, by the exit code in its record."""


@dataclass(frozen=True)
class ExistingRun:
    """An existing run with the same name as an experiment that is about to run.

    Attributes:
        directory: Directory of the run.
        experiment: The experiment, whose settings may differ from those of the run.
        changes: The changed settings.
        fetched: Path or URI of the copy from which the run was just fetched; "" if the run was already on disk.
        set_aside: New path of the run's older directory, which was moved away to make room for the fetched run; None if
            there was none.
    """

    directory: RunDirectory
    experiment: Experiment
    changes: SpecChanges
    fetched: str = ""
    set_aside: Path | None = None


def prepare_resume(run: RunDirectory, *, trust: bool) -> None:
    """Recreates missing records of a run, and makes the modules that the run names importable.

    Args:
        run: The run.
        trust: Whether the run's modules may be imported.

    Raises:
        RunDamaged: Some records are damaged.
        UsageError: Another process is running the run.
    """
    if trust:
        follow_import_paths([path for path in run.table.import_paths if Path(path).is_dir()])
    run.restore_records()


def remaining_part(
    opened: RunDirectory, executor: Executor | None, address: str | None, *, retry_failed: bool, eager: bool
) -> LaunchedExperiment | None:
    """Remaining part of a run, checked and ready to resume; None if the run is complete.

    A run that was started with the executor "local" keeps it, unless the caller chooses otherwise.
    """
    if executor is None and address is None and opened.table.executor == "local":
        executor = "local"
    experiment = opened.experiment()
    trials = [opened.trial(name) for name in opened.unfinished(retry_failed=retry_failed)]
    if not trials and not remaining_suggestions(experiment, opened):
        if opened.table.copy is not None:  # the previous process may have been killed before the copy was complete
            with opened.locked(), owned(opened) as owner, copied(opened, owner):
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


def path_of_run(experiment: Experiment, runs_dir: Path, name: str | None) -> Path:
    """Absolute path of the first run of an experiment, which has no number at the end of its name.

    Args:
        experiment: The experiment.
        runs_dir: The folder that holds the runs.
        name: Name of the run; None for the experiment's name.
    """
    return runs_dir.absolute() / directory_name(name or experiment.name)


def recorded_output(path: Path) -> str | None:
    """Path of the data set (`output`) that a run records; None if it records none, or if the directory holds no run.

    Raises:
        RunDamaged: A file of the run is damaged.
    """
    run = opened_run(path)
    return None if run is None else run.spec()[0].get("output")


def find_runs(
    experiments: Sequence[Experiment], runs_dir: Path, name: str | None, from_checkpoint: Path | None
) -> dict[str, ExistingRun]:
    """Finds existing runs with the names of experiments, on this machine's disk or in the experiments' storage.

    A run is fetched from the storage if it exists only there, or if another machine has continued it from there. No run
    is changed yet.

    Args:
        experiments: The experiments of a call.
        runs_dir: The folder that holds the runs.
        name: Name of the run; None for the experiments' names.
        from_checkpoint: The checkpoint whose weights the call's trials start from, or None.

    Returns:
        The runs, by experiment name.

    Raises:
        SpecError: An experiment and its run differ in settings that can change result rows.
        UsageError: A storage cannot be reached.
        RunDamaged: A file of a run is damaged.
    """
    found: dict[str, ExistingRun] = {}
    problems: list[Problem] = []
    for experiment in experiments:
        path = path_of_run(experiment, runs_dir, name)
        fetched, set_aside = "", None
        directory = opened_run(path)
        if directory is not None and _is_outdated(directory):
            fetched = str(directory.table.copy)
            set_aside = _fetch_instead(fetched, path)
            directory = RunDirectory.open(path)
        if directory is None and (fetched := _fetched(experiment, path)):
            directory = RunDirectory.open(path)
        if directory is None:
            continue
        changes = spec_changes(directory, experiment)
        if changes.longer and _later_stage_has_begun(directory):
            changes = replace(changes, longer=(), with_rows=(*changes.with_rows, *changes.longer))
        problems += problems_of_changes(directory, experiment, changes.with_rows)
        problems += problems_of_start(directory, experiment, from_checkpoint)
        found[experiment.name] = ExistingRun(directory, experiment, changes, fetched, set_aside)
    if problems:
        advice = "a run can continue only with its original settings: restore them, or choose another name"
        raise SpecError([*problems, Problem("", advice)])
    return found


def opened_run(path: Path) -> RunDirectory | None:
    """Opens a run; None if there is no run, or if a process was killed while creating the directory.

    Raises:
        RunDamaged: run.json is invalid, or is missing although trials have started.
    """
    if (path / RUN_FILE).exists() or any(_has_begun(file.parent) for file in path.glob(f"*/{TRIAL_FILE}")):
        return RunDirectory.open(path)
    return None


def _has_begun(trial: Path) -> bool:
    directory = TrialDirectory(trial)
    record = directory.read_record()
    return record is not None and (record.status != "PENDING" or record.iteration > 0 or _has_checkpoint(directory))


def _has_checkpoint(trial: TrialDirectory) -> bool:
    return bool(CheckpointStore(trial.checkpoints).paths())


def _copy_of(experiment: Experiment, path: Path) -> str:
    """Path or URI of a run's copy in the experiment's storage; "" if there is no copy.

    Raises:
        UsageError: The storage cannot be reached.
    """
    if experiment.storage is None:
        return ""
    copy = copy_location(experiment.storage, path.name)
    return copy if is_taken(copy_location(copy, RUN_FILE)) else ""


def _fetched(experiment: Experiment, path: Path) -> str:
    """Downloads an experiment's run from its storage; returns the copy's path or URI; "" if there is no copy.

    Raises:
        UsageError: The storage cannot be reached, or the run's directory exists and is not empty.
    """
    copy = _copy_of(experiment, path)
    if not copy:
        return ""
    try:
        if path.exists():
            path.rmdir()
    except OSError:
        raise UsageError(f"{path} is not a run, but has the same name as the run in {copy}: move it away") from None
    fetch_run(copy, path.parent)
    return copy


def _is_outdated(run: RunDirectory) -> bool:
    copy = run.table.copy
    return copy is not None and not drivers_of(run.path) and CopyOwner(copy, run.path).is_outdated()


def _fetch_instead(copy: str, path: Path) -> Path:
    """Downloads a run in place of its older directory; returns the older directory's new path."""
    with TemporaryDirectory(prefix=".", dir=path.parent) as folder:
        fetched = fetch_run(copy, Path(folder))
        aside = new_directory(path.parent, f"{path.name}-out-of-date")
        path.rename(aside)  # replaces `aside`, an empty directory
        fetched.rename(path)
    return aside


def _later_stage_has_begun(run: RunDirectory) -> bool:
    return any(later.record(name).status != "PENDING" for later in following(run) for name in later.table.trials)


def problems_of_start(run: RunDirectory, experiment: Experiment, from_checkpoint: Path | None) -> list[Problem]:
    """Problems to report if a run started from weights other than the ones this call requests."""
    after = start = None
    if experiment.begins is not None:
        after = directory_name(experiment.begins.after)
    elif from_checkpoint is not None:
        start = str(from_checkpoint.absolute())
    pairs = ((run.table.after, after), (run.table.from_checkpoint, start))
    return [
        Problem(
            experiment.name,
            f"starts from {now or 'new weights'} now, but the existing run {shown_path(run.path)} was started from "
            f"{before or 'new weights'}",
        )
        for before, now in pairs
        if before != now
    ]


def take_up(existing: ExistingRun, *, tags: Sequence[str], note: str) -> None:
    """Records changes made since a run began: stop criteria, storage, labels, settings that do not change result rows.

    Stop criteria can only have become larger.

    Args:
        existing: The run.
        tags: Tags to add.
        note: New note; "" to keep the present one.

    Raises:
        UsageError: Another process is running the run, or its new storage has another run of the same name.
        RunDamaged: A file of the run is damaged.
    """
    run, changes = existing.directory, existing.changes
    prepare_resume(run, trust=True)
    with run.locked():
        if changes.without_rows:
            take_over(run, existing.experiment)
        if changes.longer:
            extend(run, changes.extension)
        _note_copy(existing)
        labels = read_labels(run.path)
        changed = labels.changed(tags, note=note or None)
        if changed != labels:
            write_labels(run.path, changed)


def _note_copy(existing: ExistingRun) -> None:
    run, storage = existing.directory, existing.experiment.storage
    copy = None if storage is None else copy_location(storage, run.path.name)
    if copy == run.table.copy:
        return
    if not existing.fetched and _copy_of(existing.experiment, run.path):
        raise UsageError(f"storage {copy}: already has a run with this name; choose another --name or storage")
    run.write_table(replace(run.table, copy=copy))


def found_event(existing: ExistingRun, part: LaunchedExperiment | None) -> RunFound:
    """Event that says how a call continues a run, or that the run has nothing left to do.

    Args:
        existing: The run.
        part: The remaining part of the run; None if there is none.
    """
    run, trials = existing.directory, tuple(existing.directory.results())
    at = f"{'' if run.shard is None else f'shard {run.shard} of '}{shown_path(run.path)} "
    if existing.fetched:
        aside = f"; the older directory was moved to {shown_path(existing.set_aside)}" if existing.set_aside else ""
        at += f"(fetched from {existing.fetched}{aside}) "
    if part is None:
        text = _end(trials)
    elif existing.changes.longer:
        stop = ", ".join(f"{metric} {value:,g}" for metric, value in existing.changes.extension.items())
        text = f"is at {_progress(trials)}: continuing to {stop}"
    elif any(_has_checkpoint(TrialDirectory(trial.directory)) for trial in trials):
        text = f"was interrupted at {_progress(trials)}: continuing"
    elif all(trial.status == "PENDING" for trial in trials):
        text = "has not started yet: starting"
    else:
        text = "has no checkpoint yet: starting again"
    return RunFound(existing.experiment.name, run.path, at + text, trials, is_over=part is None)


def complete_event(run: RunDirectory) -> RunFound:
    """Event that says that a run has nothing left to resume, and which option makes it train longer.

    Args:
        run: The run.
    """
    trials = tuple(run.results())
    longer = "" if any(trial.status == "ERROR" for trial in trials) else "; --extend METRIC=VALUE trains longer"
    text = f"{shown_path(run.path)} {_end(trials)}{longer}"
    return RunFound(run.table.experiment, run.path, text, trials, is_over=True)


def _end(trials: Sequence[TrialResult]) -> str:
    """State of a run that has nothing left to run."""
    failed = sum(trial.status == "ERROR" for trial in trials)
    if failed:
        lost = f"{failed} of {len(trials)} trials failed"
        return f"ended at {_progress(trials)}, and {lost}; --retry-failed resumes them"
    return f"is complete at {_progress(trials)}: there is nothing left to run"


def interrupted_runs(experiments: Sequence[Experiment], runs_dir: Path, name: str | None) -> list[RunFound]:
    """Events for interrupted runs with the names of experiments that are about to start from the beginning.

    A run that exists only as a copy in external storage counts as interrupted.

    Args:
        experiments: The experiments.
        runs_dir: The folder that holds the runs.
        name: Name of the run; None for the experiments' names.
    """
    found = []
    for experiment in experiments:
        path = path_of_run(experiment, runs_dir, name)
        with suppress(RlrunError, OSError):  # a damaged run must not prevent a new one
            run, copy = opened_run(path), _copy_of(experiment, path)
            trials: tuple[TrialResult, ...] = ()
            if run is not None and not drivers_of(path) and _is_left(run):
                trials = tuple(run.results())
                state = f"{shown_path(path)} exists and was interrupted at {_progress(trials)}"
                advice = f"run {resume_command(path)}, or repeat the command with --resume"
            elif run is None and copy:
                state, advice = f"{copy} exists", "repeat the command with --resume"
            else:
                continue
            found.append(RunFound(experiment.name, path, f"{state}; to continue it, {advice}", trials, is_over=False))
    return found


def _is_left(run: RunDirectory) -> bool:
    return bool(run.unfinished(retry_failed=False)) or remaining_suggestions(run.experiment(), run) > 0


def _progress(trials: Sequence[TrialResult]) -> str:
    """Steps of all trials, such as "2,048 env steps in 2 trials"."""
    unit = "env_steps" if any(trial.env_steps for trial in trials) else "sgd_steps"
    steps = sum(int(trial.last_result.get(unit) or 0) for trial in trials)
    words = f"{steps:,} {'env' if unit == 'env_steps' or not steps else 'SGD'} steps"
    return f"{words} in {len(trials)} trials" if len(trials) > 1 else words


def past_failure(trials: Sequence[TrialResult]) -> RlrunError | None:
    """Error of a run's first trial, if all trials of the run have failed.

    Args:
        trials: The trials of the run.
    """
    if not trials or any(trial.status != "ERROR" or trial.record is None for trial in trials):
        return None
    first = trials[0]
    kind = TrainingFailed if first.record is None else FAILURES.get(first.record.exit_code, TrainingFailed)
    return kind(first.error)
