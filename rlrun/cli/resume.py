"""``rlrun resume RUN``: resumes a run that was interrupted or killed, or extends a finished one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.exits import require_complete
from rlrun.cli.options import (
    address_option,
    complete_runs,
    executor_option,
    json_option,
    progress_options,
    retry_failed_option,
    runs_dir_option,
    trust_option,
    wait_for_nodes_option,
)
from rlrun.cli.tables import echo
from rlrun.engine.processes.restart_note import directories_to_continue

if TYPE_CHECKING:
    from rlrun.cli.watch import Progress
    from rlrun.experiments.runs.run_directory import Executor
    from rlrun.experiments.runs.trial_result import TrialResult


@click.command()
@click.argument("run_name", metavar="RUN", shell_complete=complete_runs)
@executor_option
@address_option
@wait_for_nodes_option
@click.option(
    "--eager", is_flag=True, help="Resume a compiled run without compilation; results then differ in the last digits."
)
@retry_failed_option
@click.option(
    "--extend",
    "extensions",
    multiple=True,
    metavar="METRIC=VALUE",
    help="Raise a stop criterion, such as env_steps=2e6.",
)
@click.option(
    "--from",
    "from_step",
    metavar="STEP",
    help="Go back to the newest checkpoint at or before this env step; later results are set aside.",
)
@progress_options
@runs_dir_option
@trust_option
@json_option("the trials and their results")
def resume(
    run_name: str,
    executor: Executor | None,
    address: str | None,
    wait_for_nodes_s: float | None,
    eager: bool,
    retry_failed: bool,
    extensions: tuple[str, ...],
    from_step: str | None,
    progress: Progress | None,
    quiet: bool,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Resume an interrupted run, or extend a finished one.

    Each trial resumes from its newest complete checkpoint; finished trials are left
    as they are. RUN is a run's directory, its name in the runs folder (`rlrun runs`),
    or the URI of its copy in remote storage, which is downloaded to the runs folder.
    If results are damaged beyond repair, names the files; the exit code is then 5.
    """
    from rlrun.cli.targets import is_own, naming_runs_dir, run_named
    from rlrun.cli.watch import watching
    from rlrun.experiments.launch.run import resume as resume_run
    from rlrun.experiments.runs.run_upload import fetch_run

    if runs := directories_to_continue():
        continue_command(
            runs,
            executor,
            address,
            wait_for_nodes_s,
            progress,
            retry_failed=retry_failed,
            eager=eager,
            trust=trust or is_own(runs[0], runs_dir),
            quiet=quiet,
        )
        return
    directory = fetch_run(run_name, runs_dir) if "://" in run_name else run_named(run_name, runs_dir)
    with naming_runs_dir(directory), watching(progress, quiet=quiet) as watcher:
        trials = resume_run(
            directory,
            executor=executor,
            address=address,
            wait_for_nodes_s=wait_for_nodes_s,
            eager=eager,
            retry_failed=retry_failed,
            extend=extended_stops(extensions),
            from_step=None if from_step is None else _step(from_step),
            trust=trust or is_own(directory, runs_dir),
            watch=watcher,
        )
    _print_result(directory, trials)


def continue_command(
    runs: Sequence[Path],
    executor: Executor | None,
    address: str | None,
    wait_for_nodes_s: float | None,
    progress: Progress | None,
    *,
    retry_failed: bool,
    eager: bool,
    trust: bool,
    quiet: bool,
) -> None:
    """Continues a command's runs after its process has died, in the replacement started by the parent process.

    The specs of `rlrun train` are not read again, since they may have changed.

    Args:
        runs: Directories of the runs, in order.
        executor: Passed to `rlrun.experiments.launch.run.continue_runs`, as are `address` and `wait_for_nodes_s`.
        address: Address of the cluster to join, or None.
        wait_for_nodes_s: Seconds to wait for nodes, or None.
        progress: Progress display that the user has chosen, or None.
        retry_failed: Whether failed trials are resumed too.
        eager: Whether compiled updates may run uncompiled.
        trust: Whether the code, files and services that the runs name may be used.
        quiet: Whether no progress is displayed.
    """
    from rlrun.cli.targets import naming_runs_dir
    from rlrun.cli.watch import watching
    from rlrun.experiments.launch.run import continue_runs

    names_experiment = len(runs) > 1
    with naming_runs_dir(runs[0]), watching(progress, quiet=quiet, names_experiment=names_experiment) as watcher:
        trials = continue_runs(
            runs,
            executor=executor,
            address=address,
            wait_for_nodes_s=wait_for_nodes_s,
            retry_failed=retry_failed,
            eager=eager,
            trust=trust,
            watch=watcher,
        )
    _print_result(runs[0], trials)


def _print_result(directory: Path, trials: Sequence[TrialResult]) -> None:
    """Prints the outcome of a command that has continued runs, and any damage that it found.

    Raises:
        RunDamaged: If results are damaged beyond repair.
    """
    from rlrun.cli.outcome import print_outcome

    problems = [text for trial in trials for text in trial.problems]
    for text in problems:
        echo(text, err=True)
    print_outcome(trials)
    require_complete(directory, problems)


def _step(text: str) -> float:
    """Parses the value of ``--from``, such as 2_048 or 2e6."""
    try:
        return float(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise click.UsageError(f"--from {text}: must be a number of env steps, such as 2e6") from None


def extended_stops(texts: tuple[str, ...]) -> dict[str, float]:
    """Parses the values of ``--extend``, such as ``env_steps=2e6``, into new stop criteria.

    Examples:
        >>> extended_stops(("env_steps=2e6",))
        {'env_steps': 2000000.0}
    """
    stops = {}
    for text in texts:
        metric, _, number = text.partition("=")
        try:
            stops[metric.strip()] = float(number.replace("_", ""))
        except ValueError:
            raise click.UsageError(f"--extend {text}: must be METRIC=VALUE, such as env_steps=2e6") from None
    return stops
