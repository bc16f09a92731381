"""Checks of experiments before a run starts: names, packages, envs, resources and compiler."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlrun.engine.checkpoint.manifest import read_manifest
from rlrun.engine.messages.errors import (
    EnvironmentUnusable,
    Problem,
    RlrunError,
    SpecError,
    TrainingFailed,
    UsageError,
    did_you_mean,
)
from rlrun.engine.training.assemble.description import Description
from rlrun.engine.training.assemble.learner_factory import continued_executor
from rlrun.engine.training.save.checkpointing import update_executor_of
from rlrun.experiments.cluster.ray_session import belongs_to_ray, require_cluster
from rlrun.experiments.cluster.resources import TrialResources, check_fits, machine_capacity
from rlrun.experiments.runs.run_directory import Executor, RunDirectory
from rlrun.experiments.search.suggestions import check_installed
from rlrun.experiments.spec.experiment import Experiment, TrialSpec


def check_name(name: str, experiments: Sequence[Experiment]) -> None:
    """Raises an error if a run's name is invalid, or if one name is given for several experiments.

    Raises:
        UsageError: If the name is invalid, or there are several experiments.
    """
    if len(experiments) > 1:
        raise UsageError(
            f"the name '{name}' can be given to one run only, but there are {len(experiments)} experiments"
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+=-]*", name):
        raise UsageError(
            f"the name '{name}' must consist of letters, digits and _.+=-, because it becomes a directory name"
        )


def check_chains(experiments: Sequence[Experiment]) -> None:
    """Checks that experiments come after those that they continue from, which must have exactly one trial per seed.

    Raises:
        UsageError: An experiment's predecessor is missing or comes later, or their trials do not correspond.
    """
    before: dict[str, Experiment] = {}
    for experiment in experiments:
        if experiment.begins is not None:
            earlier = before.get(experiment.begins.after)
            if earlier is None:
                hint = did_you_mean(experiment.begins.after, before)
                raise UsageError(
                    f"{experiment.name} is set to start after {experiment.begins.after}, which is not among the "
                    f"experiments before it{hint}"
                )
            has_all = set(experiment.seeds) <= set(earlier.seeds)
            if experiment.begins.recorded:  # each trial reads data of the earlier trial with its name
                has_all = experiment.seeds == earlier.seeds
            if earlier.num_configurations > 1 or not has_all:
                raise UsageError(
                    f"{experiment.name} starts after {earlier.name}, which must have exactly one trial for "
                    "each of its seeds"
                )
        before[experiment.name] = experiment


def choose_executor(
    experiment: Experiment, trials: Sequence[TrialSpec], executor: Executor | None, address: str | None
) -> Executor:
    """Chooses the executor of an experiment's trials: the user's choice, else Ray if needed, else this process.

    Args:
        experiment: The experiment.
        trials: The experiment's trials.
        executor: The user's choice, or None.
        address: The Ray cluster to join, or None.

    Raises:
        UsageError: If the executor is "local" and a cluster, a scheduler or a searcher needs Ray.
    """
    steered = "scheduler" if experiment.scheduler else "searcher" if experiment.searches else ""
    needs_ray = steered or len(trials) > 1 or any(trial.needs_ray for trial in trials) or address is not None
    chosen = executor or ("ray" if needs_ray else "local")
    if address is not None and chosen == "local":
        raise UsageError("executor 'local' runs trials in this process; leave it out to run them on a cluster")
    if steered and chosen == "local":
        raise UsageError(
            f"executor 'local' runs trials one after another; leave it out so that the {steered} can compare trials"
        )
    return chosen


def check_packages(experiments: Sequence[Experiment]) -> None:
    """Raises an error if an experiment's searcher needs a package that is not installed.

    Raises:
        UsageError: If a searcher's package is missing; the message names the pip command.
    """
    for experiment in experiments:
        if experiment.searcher is not None:
            check_installed(experiment.searcher.kind)


def check_envs(experiments: Sequence[Experiment]) -> None:
    """Validates experiments by instantiating each env and its policies once.

    Raises:
        SpecError: Some experiments cannot run; the error lists one problem per experiment.
        EnvironmentUnusable: The only problem is an env that cannot be instantiated on this machine.
        TrainingFailed: The only problem is an exception in an env's own code.
    """
    wrong: list[tuple[Problem, RlrunError]] = []
    for experiment in experiments:
        trials = experiment.trials() or [experiment.first_trial()]
        if experiment.begins is not None and experiment.begins.recorded:
            continue  # its data does not exist yet
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


def check_cluster(trials: Sequence[TrialSpec], address: str | None) -> None:
    """Raises an error if the Ray cluster cannot be reached, or if this machine can never provide a trial's resources.

    A cluster may grow, so whether it can provide the resources is only checked after this process has joined it.

    Args:
        trials: The trials to run.
        address: The Ray cluster to join, or None.

    Raises:
        UsageError: If the cluster cannot be joined, or a trial needs more CPUs or GPUs than this machine has.
    """
    if address is not None:
        require_cluster(address)
    elif not belongs_to_ray():
        check_fits(trials, machine_capacity(needs_gpus=any(TrialResources.of(trial).total_gpus for trial in trials)))


def check_wait(wait_for_nodes_s: float | None, address: str | None) -> None:
    """Raises an error if the user wants to wait for nodes, but there is no cluster.

    Args:
        wait_for_nodes_s: Seconds to wait for nodes, or None for the default.
        address: The Ray cluster to join, or None.

    Raises:
        UsageError: There is no cluster to wait for.
    """
    if wait_for_nodes_s is not None and address is None and not belongs_to_ray():
        raise UsageError("--wait-for-nodes needs --address: without a cluster there are no nodes to wait for")


def check_compiler(directory: RunDirectory, trials: Sequence[TrialSpec]) -> None:
    """Refuses to resume trials with compiled updates on a machine without a compiler.

    The check runs before any trial starts; without it, the trials would fail later.

    Raises:
        CompilerMissing: If a trial has compiled updates, and there is no compiler.
    """
    names = {trial.name for trial in trials}
    for trial in directory.results():
        if trial.name in names and trial.checkpoint:
            continued_executor(update_executor_of(read_manifest(trial.checkpoint).about))
