"""``rlrun plan ALGORITHM``: an algorithm's dataflow, as text or as a Mermaid diagram."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.options import complete_algorithms, set_option, spec_files_option

if TYPE_CHECKING:
    from rlrun.algorithm import Algorithm

ANY_ENV = "CartPole-v1"  # the dataflow does not depend on the env; nothing is made of it


@click.command()
@click.argument("algorithm", required=False, shell_complete=complete_algorithms)
@spec_files_option(required=False)
@set_option
@click.option("--mermaid", is_flag=True, help="Print a Mermaid diagram instead of text.")
def plan(algorithm: str | None, files: tuple[Path, ...], overrides: tuple[str, ...], mermaid: bool) -> None:
    """Print the dataflow of an algorithm.

    Of ALGORITHM with its default settings, or of each experiment in spec files.
    """
    from rlrun.flow.plan import plan_mermaid, plan_text

    if bool(algorithm) == bool(files):
        raise click.UsageError("name an algorithm, or spec files with -f")
    draw = plan_mermaid if mermaid else plan_text
    for name, planned in _algorithms(algorithm, files, overrides):
        if len(files) > 0:
            click.echo(f"%% {name}" if mermaid else f"# {name}")
        click.echo(draw(planned.plan().describe()))


def _algorithms(
    algorithm: str | None, files: tuple[Path, ...], overrides: tuple[str, ...]
) -> list[tuple[str, Algorithm[Any]]]:
    """Returns what is to be planned, with names; of an experiment it is the first trial."""
    from rlrun.registry import algorithm_class

    if algorithm is not None:
        return [(algorithm, algorithm_class(algorithm)(ANY_ENV))]
    from rlrun.spec.load import load_experiments

    trials = [experiment.first_trial() for experiment in load_experiments(files, overrides)]
    return [(trial.experiment, algorithm_class(trial.algorithm)(trial.env, trial.config)) for trial in trials]
