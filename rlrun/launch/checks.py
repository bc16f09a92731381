"""What is asked before anything is written or started: what can never run is refused at once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlrun.checkpoint.manifest import read_manifest
from rlrun.cluster.ray_session import belongs_to_ray, cluster_capacity, demand_cluster
from rlrun.cluster.resources import TrialResources, check_fits, machine_capacity
from rlrun.errors import EnvironmentUnusable, Problem, RlrunError, SpecError, TrainingFailed, UsageError
from rlrun.runs.run_directory import Executor, RunDirectory
from rlrun.search.searchers.make_searcher import check_installed
from rlrun.spec.experiment import Experiment, TrialSpec
from rlrun.training.checkpointing import update_executor_of
from rlrun.training.description import Description
from rlrun.training.learner_factory import demand_compiler


def check_name(name: str, experiments: Sequence[Experiment]) -> None:
    """Refuses a name that cannot be a run's, or that several runs would share.

    Raises:
        UsageError: If it is one.
    """
    if len(experiments) > 1:
        raise UsageError(f"the name '{name}' is for one run, and there are {len(experiments)} experiments")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+=-]*", name):
        raise UsageError(f"the name '{name}' must be of letters, digits and _.+=- (it becomes a directory)")


def choose_executor(
    experiment: Experiment, trials: Sequence[TrialSpec], executor: Executor | None, address: str | None
) -> Executor:
    """Returns where trials run: where the user says, else on Ray only if they have a use for it.

    Raises:
        UsageError: If a cluster is named that nothing would use, or what needs Ray is to do without.
    """
    steered = "scheduler" if experiment.scheduler else "searcher" if experiment.searches else ""
    needs_ray = steered or len(trials) > 1 or any(trial.needs_ray for trial in trials) or address is not None
    chosen = executor or ("ray" if needs_ray else "local")
    if address is not None and chosen == "local":
        raise UsageError("executor 'local' runs trials in this process; leave it out to run them on a cluster")
    if steered and chosen == "local":
        raise UsageError(f"executor 'local' runs one trial after the other; leave it out for the {steered} to work")
    return chosen


def check_packages(experiments: Sequence[Experiment]) -> None:
    """Refuses what lacks a package before anything is written.

    Raises:
        UsageError: If a searcher's package is missing; the message names the pip command.
    """
    for experiment in experiments:
        if experiment.searcher is not None:
            check_installed(experiment.searcher.kind)


def check_envs(experiments: Sequence[Experiment]) -> None:
    """Makes each env once, and the policy that is to learn in it.

    Raises:
        SpecError: What is wrong with each experiment that cannot run.
        EnvironmentUnusable: If it is only one, whose env cannot be made here.
        TrainingFailed: If it is only one, whose env's own code raised.
    """
    wrong: list[tuple[Problem, RlrunError]] = []
    for experiment in experiments:
        trials = experiment.trials() or [experiment.first_trial()]
        for trial in {repr(trial.env): trial for trial in reversed(trials)}.values():
            try:
                described = Description(trial.env, trial.learns, trial.seed)
                described.check()
                if trial.evaluation is not None and trial.evaluation.env is not None:
                    described.check_fits(trial.evaluation.env, described.spaces())
                if trial.evaluation is not None and trial.evaluation.against is not None:
                    described.matches()
            except RlrunError as error:
                wrong.append((Problem(experiment.name, str(error), experiment.origin), error))
    if len(wrong) == 1:
        problem, cause = wrong[0]
        for kind in (EnvironmentUnusable, TrainingFailed):
            if isinstance(cause, kind):
                raise kind(str(problem)) from cause
    if wrong:
        raise SpecError([problem for problem, _ in wrong])


def check_place(trials: Sequence[TrialSpec], address: str | None) -> None:
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
        check_fits(trials, machine_capacity(needs_gpus=any(TrialResources.of(trial).total_gpus for trial in trials)))


def check_compiler(directory: RunDirectory, trials: Sequence[TrialSpec]) -> None:
    """Asks before a trial is touched: one that began and failed for want of a compiler would count as failed.

    Raises:
        CompilerMissing: If updates of a trial were compiled, and there is no compiler here.
    """
    names = {trial.name for trial in trials}
    for trial in directory.results():
        if trial.name not in names or not trial.checkpoint:
            continue
        if update_executor_of(read_manifest(trial.checkpoint).about) == "compiled":
            demand_compiler()
            return
