"""Loading of the experiments that a command runs, from spec files or the options ``--algorithm`` and ``--env``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.options import Command, complete_algorithms, complete_envs
from rlrun.cli.tables import echo

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.training.assemble.description import Description
    from rlrun.experiments.spec.experiment import Experiment


def algorithm_named(name: str) -> type[Algorithm[Any]]:
    """Resolves a name or import path to an algorithm class; modules in the current folder are importable.

    Raises:
        UsageError: If there is no such algorithm.
    """
    from rlrun.engine.settings.registry import algorithm_class
    from rlrun.experiments.spec.load import make_importable

    make_importable(Path.cwd())
    return algorithm_class(name)


def algorithm_and_env_options(command: Command) -> Command:
    """Command decorator: adds the options ``--algorithm`` and ``--env``, as an alternative to spec files."""
    env = click.option(
        "--env",
        shell_complete=complete_envs,
        help="Env (or world, as YAML) to use without a spec file, such as CartPole-v1. If rlrun ships settings for it, "
        "they are used.",
    )
    algorithm = click.option(
        "--algorithm", shell_complete=complete_algorithms, help="Algorithm to use without a spec file, such as ppo."
    )
    return algorithm(env(command))


def described_trainings(
    algorithm: str | None, files: tuple[Path, ...], overrides: tuple[str, ...] = ()
) -> list[tuple[str, Description]]:
    """Describes training runs (envs, policies, settings) without starting them.

    Args:
        algorithm: Name or import path of an algorithm.
        files: The spec files; the first trial of each experiment is described.
        overrides: Texts ``path=value`` that override the values in the files.

    Returns:
        Pairs of a name and a description. For `algorithm`, there is a single pair, with default settings and no
        particular env; for `files`, there is one pair per experiment.

    Raises:
        click.UsageError: If neither or both of `algorithm` and `files` are given.
    """
    if bool(algorithm) == bool(files):
        raise click.UsageError("name an algorithm, or spec files with -f")
    from rlrun.engine.training.assemble.description import ANY_ENV, Description
    from rlrun.engine.training.assemble.policies import Policies
    from rlrun.experiments.spec.load import load_experiments

    if algorithm is not None:
        return [(algorithm, Description(ANY_ENV, Policies.alone(algorithm_named(algorithm)())))]
    trials = [experiment.first_trial() for experiment in load_experiments(files, overrides)]
    return [(trial.experiment, Description(trial.env, trial.learns, trial.seed, hooks=trial.hooks)) for trial in trials]


def named_experiments(
    files: tuple[Path, ...],
    algorithm: str | None,
    env: str | None,
    overrides: tuple[str, ...],
    max_trials: int | None = None,
) -> list[Experiment]:
    """Loads the experiments in spec files, or the experiment that rlrun ships for an algorithm and an env.

    Args:
        files: The spec files.
        algorithm: Name of the algorithm, if there are no files.
        env: Id of the env, or a YAML mapping (for a multi-agent world, for example), if there are no files.
        overrides: Texts ``path=value`` that override the values in the files.
        max_trials: Maximum number of trials in an experiment; None for the default.

    Raises:
        click.UsageError: If neither or both of files and algorithm are given.
    """
    if bool(files) == bool(algorithm or env):
        raise click.UsageError("name spec files with -f, or an algorithm and an env with --algorithm and --env")
    from rlrun.experiments.spec.experiment import MAX_TRIALS
    from rlrun.experiments.spec.load import load_experiments, shipped_experiment

    most = MAX_TRIALS if max_trials is None else max_trials
    if files:
        tell = partial(echo, err=True)
        return load_experiments(files, overrides, max_trials=most, makes_envs=True, tell=tell)
    if algorithm is None or env is None:
        raise click.UsageError("--algorithm and --env must be given together")
    from rlrun.cli.targets import env_written

    experiment = shipped_experiment(algorithm, env_written(env), overrides, max_trials=most, makes_envs=True)
    echo(f"{experiment.name}: {experiment.origin}", err=True)
    for warning in experiment.warnings:
        echo(f"warning: {warning}", err=True)
    return [experiment]
