"""Runs experiments, and goes on with runs that were interrupted: one entry for Python and for the command line.

Where the trials run is the last decision. A lone trial without workers runs in this process, and ray is not even
imported; everything else runs under Ray Tune. Loop, files, checkpoints and events are the same.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rlrun.checkpoint.format import verify_checkpoint
from rlrun.checkpoint.manifest import read_manifest
from rlrun.cluster.ray_session import (
    RaySession,
    belongs_to_ray,
    cluster_capacity,
    demand_cluster,
    warn_if_open_to_everyone,
)
from rlrun.cluster.resources import check_fits, machine_capacity
from rlrun.errors import UsageError
from rlrun.launch.local_executor import run_locally
from rlrun.runs.active_run import ActiveRun
from rlrun.runs.driver_log import DriverLog
from rlrun.runs.events import RunFinished, RunStarted, RunStopping, Watcher
from rlrun.runs.interrupts import Interrupts
from rlrun.runs.outcome import call_failure, is_over
from rlrun.runs.run_directory import Executor, RunDirectory, default_runs_dir, follow_import_paths
from rlrun.runs.run_upload import copied, is_taken, place_of_copy
from rlrun.runs.trial_result import TrialResult
from rlrun.search.searchers.make_searcher import check_installed
from rlrun.spec.experiment import Experiment, TrialSpec
from rlrun.spec.load import load_experiments, parse_experiments
from rlrun.training.learner_factory import demand_compiler
from rlrun.trial.loggers.trial_logger import demand_loggers

ExperimentSource = Experiment | Mapping[str, Any] | str | Path


def run(
    experiments: ExperimentSource | Sequence[ExperimentSource],
    *,
    overrides: Sequence[str] = (),
    runs_dir: Path | str | None = None,
    name: str | None = None,
    seed: int | None = None,
    executor: Executor | None = None,
    address: str | None = None,
    from_checkpoint: Path | str | None = None,
    watch: Watcher = lambda event: None,
) -> list[TrialResult]:
    """Runs experiments, one after the other, to their ends.

    Trials that fail do not keep others from running: look at `status` and `error` of what is returned. Only where no
    trial of an experiment came through is the first one's exception raised, after everything has run.

    Ctrl-C or SIGTERM lets running trials finish their iteration and save; a second one ends the run at once.

    Args:
        experiments: A spec file, an experiment, or a mapping of names to experiments as a spec file holds it; or
            several of these.
        overrides: Texts ``path=value`` that go before what files and mappings say, as with ``--set``.
        runs_dir: The folder that holds the runs; ``$RLRUN_RUNS`` or ``./runs`` by default.
        name: Name of the run's directory; the experiment's name by default. ``-2``, ``-3``, ... is added to one that
            is taken.
        seed: Run this one seed instead of the experiments' own.
        executor: "local" for this process, one trial after the other; "ray" for Tune on Ray; by default "local" for a
            lone trial without workers, else "ray".
        address: A Ray cluster to join, which is brought the modules of the user's that the experiments name; by default
            Ray is started on this machine where it is needed, unless this process belongs to one already.
        from_checkpoint: A checkpoint whose weights every trial starts from.
        watch: Called with each event of the run (see `rlrun.runs.events`). If it raises, running trials save and stop,
            and its exception is raised.

    Returns:
        All trials of all experiments, in order.

    Raises:
        SpecError: If a spec is wrong; with everything that is.
        UsageError: If the arguments make no sense together, a trial needs more CPUs or GPUs than there are, or a
            logger's package is missing.
        CheckpointError: If `from_checkpoint` cannot be used.
        RlrunError: What the first trial raised, if all of an experiment's trials failed.
        Interrupted: If the user interrupted; the message says how to go on.
    """
    found = _experiments(experiments, overrides)
    if seed is not None:
        found = [experiment.replace(seeds=(seed,)) for experiment in found]
    if name is not None:
        _check_name(name, found)
    start = None if from_checkpoint is None else Path(from_checkpoint)
    if start is not None:
        verify_checkpoint(start)
    plans = []
    for experiment in found:
        trials = experiment.trials()
        plans.append((experiment, trials, _choose_executor(experiment, trials, executor, address)))
        demand_loggers(experiment.loggers)
    _check_place([trial for experiment, trials, _ in plans for trial in trials or [experiment.first_trial()]], address)
    _check_packages(found)
    folder = default_runs_dir() if runs_dir is None else Path(runs_dir)
    parts = []
    for experiment, trials, chosen in plans:
        directory = _new_directory(folder, name, experiment, trials, chosen, start)
        parts.append(_Part(directory, experiment, trials, chosen, resumed=False))
    return _run_all(parts, address=address, from_checkpoint=start, eager=False, watch=watch)


def resume(
    directory: Path | str,
    *,
    executor: Executor | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    extend: Mapping[str, float] | None = None,
    eager: bool = False,
    watch: Watcher = lambda event: None,
) -> list[TrialResult]:
    """Goes on with a run that was interrupted or killed, each trial from its newest valid checkpoint.

    Finished trials are left as they are. The directory may have been moved since.

    Args:
        directory: The run's directory.
        executor: As in `run`, for the trials that are left.
        address: As in `run`.
        retry_failed: Whether trials that failed are tried again, from their newest checkpoint.
        extend: New values of stop criteria, later than the run's own; trials that these had ended go on.
        eager: Whether updates that were compiled may go on uncompiled where there is no compiler any more.
        watch: Called with each event of the run.

    Returns:
        All trials of the run, in order, also those that had been finished before.

    Raises:
        UsageError: If it is not a run, another process is running it, a trial.json is damaged, or a trial needs more
            than there is.
        CheckpointError: If a trial has checkpoints but none that can be used, and no other trial came through.
        CompilerMissing: If updates were compiled, there is no compiler here, and `eager` is False.
        Interrupted: If the user interrupted again.
    """
    opened = RunDirectory.open(Path(directory))
    follow_import_paths([path for path in opened.table.import_paths if Path(path).is_dir()])
    opened.mend_records()
    if extend:
        with opened.locked():
            opened.extend(extend)
    experiment = opened.experiment()
    trials = [opened.trial(name) for name in opened.unfinished(retry_failed=retry_failed)]
    if not trials and not _still_to_suggest(experiment, opened):
        if opened.table.copy is not None:  # the process before may have been killed before it was in step
            with opened.locked(), copied(opened):
                pass
        return opened.results()
    demand_loggers(experiment.loggers)
    _check_place(trials or [experiment.first_trial()], address)
    _check_packages([experiment])
    if address is None and not eager:
        _check_compiler(opened, trials)
    chosen = _choose_executor(experiment, trials, executor, address)
    part = _Part(opened, experiment, trials, chosen, resumed=True)
    return _run_all([part], address=address, from_checkpoint=None, eager=eager, watch=watch)


def _new_directory(
    folder: Path,
    name: str | None,
    experiment: Experiment,
    trials: Sequence[TrialSpec],
    executor: Executor,
    start: Path | None,
) -> RunDirectory:
    """Makes the directory of a new run, of a name that is free in its storage as well.

    Raises:
        UsageError: If the storage cannot be reached.
    """
    storage, name = experiment.storage, name or experiment.name
    if storage is None:
        return RunDirectory.create(folder, name, experiment, trials, executor, start)
    place = partial(place_of_copy, storage)
    directory = RunDirectory.create(
        folder, name, experiment, trials, executor, start, is_taken=lambda name: is_taken(place(name))
    )
    directory.note_copy(place(directory.path.name))
    return directory


def _check_compiler(directory: RunDirectory, trials: Sequence[TrialSpec]) -> None:
    """Asks before a trial is touched: one that began and failed for want of a compiler would count as failed.

    Raises:
        CompilerMissing: If updates of a trial were compiled, and there is no compiler here.
    """
    names = {trial.name for trial in trials}
    for trial in directory.results():
        if trial.name in names and trial.checkpoint and read_manifest(trial.checkpoint).about.get("compiled"):
            demand_compiler()
            return


@dataclass(frozen=True)
class _Part:
    """One experiment's share of a call: its directory, the trials to run and where."""

    directory: RunDirectory
    experiment: Experiment
    trials: list[TrialSpec]
    executor: Executor
    resumed: bool

    @property
    def examples(self) -> list[TrialSpec]:
        """Its trials, or one like those that a searcher will make."""
        return self.trials or [self.experiment.first_trial()]

    @property
    def uses_ray(self) -> bool:
        return self.executor == "ray" or any(trial.config.needs_ray for trial in self.trials)


def _run_all(
    parts: Sequence[_Part], *, address: str | None, from_checkpoint: Path | None, eager: bool, watch: Watcher
) -> list[TrialResult]:
    """Runs the parts of a call one after the other, with one Ray for all of them.

    Raises:
        RlrunError: As `call_failure` says; else what the first trial of a part raised, if all of its trials failed.
    """
    interrupts = Interrupts()
    actives: list[ActiveRun] = []
    with ExitStack() as locks:
        for part in parts:
            locks.enter_context(part.directory.locked())
        try:
            _run_parts(
                parts, actives, interrupts, address=address, from_checkpoint=from_checkpoint, eager=eager, watch=watch
            )
        except UsageError:  # there is no such cluster, or it is too small: nothing has begun, so nothing shall be left
            for part in parts:
                if not part.resumed:
                    part.directory.discard_if_unbegun()
            raise
        except KeyboardInterrupt:  # the second one
            interrupts.received = interrupts.received or "SIGINT"
        for part in parts:  # the processes of all trials have ended with Ray
            part.directory.settle()
        ends = [part.directory.results() for part in parts]
    found = [trial for trials in ends for trial in trials]
    errors = {active.directory.path / name: error for active in actives for name, error in active.errors.items()}
    fault = next((active.fault for active in actives if active.fault is not None), None)
    left = [part.directory.path for part, trials in zip(parts, ends, strict=True) if _is_left(part, trials)]
    failure = call_failure(found, left, signal=interrupts.received, fault=fault, errors=errors)
    if failure is not None:
        raise failure
    for active, trials in zip(actives, ends, strict=True):
        if active.errors and all(trial.status == "ERROR" for trial in trials):
            raise next(iter(active.errors.values()))
    return found


def _run_parts(
    parts: Sequence[_Part],
    actives: list[ActiveRun],
    interrupts: Interrupts,
    *,
    address: str | None,
    from_checkpoint: Path | None,
    eager: bool,
    watch: Watcher,
) -> None:
    """Runs the parts of a call until one is stopped; each is added to `actives` before it begins."""
    on_ray = [trial for part in parts if part.uses_ray for trial in part.examples]
    ray = RaySession(on_ray, address, [part.experiment for part in parts])
    with DriverLog() as log, interrupts, ray as session:
        for part in parts:
            active = ActiveRun(
                part.directory,
                part.experiment,
                part.trials,
                part.resumed,
                from_checkpoint,
                eager,
                interrupts,
                log,
                watch,
            )
            actives.append(active)
            with active.stopping_when_full():
                _run_part(part, active, session)
            if active.watch_error is not None:
                raise active.watch_error
            if interrupts.received:
                return


def _is_left(part: _Part, trials: Sequence[TrialResult]) -> bool:
    """Whether a part has trials that are not over, or trials that a searcher has still to make."""
    is_done = all(is_over(trial.status) for trial in trials)
    return not is_done or _still_to_suggest(part.experiment, part.directory) > 0


def _run_part(part: _Part, active: ActiveRun, session: RaySession) -> None:
    """Runs one experiment's trials where they are to run, and tells the watcher of the beginning and the end."""
    began = time.monotonic()
    if part.uses_ray:
        active.log.send_to(part.directory.log)
    else:
        active.log.close()
    active.tell(
        RunStarted(
            experiment=part.directory.table.experiment,
            directory=part.directory.path,
            executor=part.executor,
            uses_ray=part.uses_ray,
            trials=tuple(part.trials),
            resumed=part.resumed,
            terminal=active.log.terminal,
            expected=len(part.trials) + _still_to_suggest(part.experiment, part.directory),
        )
    )
    if part.uses_ray:
        with active.log.speaking():
            warn_if_open_to_everyone()
        _start_ray(session, active.interrupts)
    if active.interrupts.received:
        active.tell(RunStopping(active.interrupts.received))
    else:
        with copied(part.directory):
            _run_trials(part, active, session)
    active.tell(RunFinished(part.directory.path, tuple(part.directory.results()), time.monotonic() - began))


def _start_ray(session: RaySession, interrupts: Interrupts) -> None:
    """Starts or joins Ray, which takes SIGTERM for itself meanwhile.

    Raises:
        KeyboardInterrupt: If one has come; nothing has begun that could save.
    """
    try:
        session.start()
        interrupts.listen()
    except SystemExit as error:  # what Ray makes of it
        if error.code != signal.SIGTERM:
            raise
        interrupts.received = interrupts.received or signal.SIGTERM.name
        raise KeyboardInterrupt from None


def _run_trials(part: _Part, active: ActiveRun, session: RaySession) -> None:
    if part.executor == "ray":
        from rlrun.tune.tune_executor import run_under_tune

        run_under_tune(active, session.spans_machines)
    else:
        run_locally(active)


def _experiments(source: ExperimentSource | Sequence[ExperimentSource], overrides: Sequence[str]) -> list[Experiment]:
    """Returns checked experiments from whatever names them.

    Raises:
        SpecError: If a spec or an override is wrong.
        UsageError: If there is none, or overrides are given for an experiment that is checked already.
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
            found += parse_experiments(one, overrides)
        else:
            found += load_experiments([one], overrides)
    if not found:
        raise UsageError("there is no experiment to run")
    return found


def _check_name(name: str, experiments: Sequence[Experiment]) -> None:
    if len(experiments) > 1:
        raise UsageError(f"the name '{name}' is for one run, and there are {len(experiments)} experiments")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+=-]*", name):
        raise UsageError(f"the name '{name}' must be of letters, digits and _.+=- (it becomes a directory)")


def _choose_executor(
    experiment: Experiment, trials: Sequence[TrialSpec], executor: Executor | None, address: str | None
) -> Executor:
    """Returns where trials run: where the user says, else on Ray only if they have a use for it.

    Raises:
        UsageError: If a cluster is named that nothing would use, or what needs Ray is to do without.
    """
    steered = "scheduler" if experiment.scheduler else "searcher" if experiment.searches else ""
    needs_ray = steered or len(trials) > 1 or any(trial.config.needs_ray for trial in trials) or address is not None
    chosen = executor or ("ray" if needs_ray else "local")
    if address is not None and chosen == "local":
        raise UsageError("executor 'local' runs trials in this process; leave it out to run them on a cluster")
    if steered and chosen == "local":
        raise UsageError(f"executor 'local' runs one trial after the other; leave it out for the {steered} to work")
    return chosen


def _check_packages(experiments: Sequence[Experiment]) -> None:
    """Refuses what lacks a package before anything is written.

    Raises:
        UsageError: If a searcher's package is missing; the message names the pip command.
    """
    for experiment in experiments:
        if experiment.searcher is not None:
            check_installed(experiment.searcher.kind)


def _still_to_suggest(experiment: Experiment, directory: RunDirectory) -> int:
    """Returns how many trials a searcher has still to make."""
    if not experiment.searches:
        return 0
    configurations = {directory.trial(name).configuration for name in directory.table.trials}
    return max(0, experiment.num_samples - len(configurations)) * len(experiment.seeds)


def _check_place(trials: Sequence[TrialSpec], address: str | None) -> None:
    """Refuses what can never run where it is to run, as far as that can be known before anything is written.

    Raises:
        UsageError: If the address cannot be joined, or a trial needs more than there is on this machine or in the Ray
            that this process belongs to.
    """
    if address is not None:
        demand_cluster(address)
    elif belongs_to_ray():
        check_fits(trials, cluster_capacity("the running Ray"))
    else:
        check_fits(trials, machine_capacity(needs_gpus=any(trial.config.num_gpus for trial in trials)))
