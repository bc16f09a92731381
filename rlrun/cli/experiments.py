"""Experiments of a command: those of spec files, or the one that is shipped for an algorithm and an env."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.options import Command, complete_algorithms
from rlrun.cli.terminal import echo

if TYPE_CHECKING:
    from rlrun.algorithm import Algorithm
    from rlrun.spec.experiment import Experiment


def algorithm_named(name: str) -> type[Algorithm[Any]]:
    """Returns the algorithm class that a user names; modules of the current folder can be imported, as in a spec.

    Raises:
        UsageError: If there is no such algorithm.
    """
    from rlrun.registry import algorithm_class
    from rlrun.spec.load import make_importable

    make_importable(Path.cwd())
    return algorithm_class(name)


def algorithm_and_env_options(command: Command) -> Command:
    """Adds ``--algorithm`` and ``--env``, which replace a spec file."""
    env = click.option(
        "--env", help="Without a file: the env, such as CartPole-v1; settings are the ones shipped for it."
    )
    algorithm = click.option(
        "--algorithm", shell_complete=complete_algorithms, help="Without a file: the algorithm, such as ppo."
    )
    return algorithm(env(command))


def named_experiments(
    files: tuple[Path, ...],
    algorithm: str | None,
    env: str | None,
    overrides: tuple[str, ...],
    max_trials: int | None = None,
) -> list[Experiment]:
    """Returns the experiments of spec files, or the one that is shipped for an algorithm and an env.

    Args:
        files: The spec files.
        algorithm: Without files, the algorithm.
        env: Without files, the env.
        overrides: Texts ``path=value`` that override the values in the files.
        max_trials: Most trials that an experiment may have, None for the default.

    Raises:
        click.UsageError: If neither or both are given.
    """
    if bool(files) == bool(algorithm or env):
        raise click.UsageError("name spec files with -f, or an algorithm and an env with --algorithm and --env")
    from rlrun.spec.experiment import MAX_TRIALS
    from rlrun.spec.load import load_experiments, shipped_experiment

    most = MAX_TRIALS if max_trials is None else max_trials
    if files:
        return load_experiments(files, overrides, max_trials=most)
    if algorithm is None or env is None:
        raise click.UsageError("--algorithm and --env go together")
    experiment = shipped_experiment(algorithm, env, overrides, max_trials=most)
    echo(f"{experiment.name}: {experiment.origin}", err=True)
    return [experiment]
