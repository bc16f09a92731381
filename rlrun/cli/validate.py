"""``rlrun validate FILE...``: all mistakes of spec files at once, or a table of their experiments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_specs, json_option, machine_option, max_trials_option, set_option
from rlrun.cli.tables import echo, stdout_width, table

if TYPE_CHECKING:
    from rlrun.experiments.spec.experiment import Experiment


@click.command()
@click.argument(
    "files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...", shell_complete=complete_specs
)
@set_option
@machine_option
@max_trials_option
@click.option("--env", "make_envs", is_flag=True, help="Also create the policies for each env.")
@json_option("the experiments")
def validate(
    files: tuple[Path, ...], overrides: tuple[str, ...], machine: str | None, max_trials: int | None, make_envs: bool
) -> None:
    """Check spec files and list all mistakes.

    Each env is created once, to check that the algorithm supports its actions. With
    --env, the policies are created too, and an env that cannot be created is an
    error.
    """
    from rlrun.experiments.spec.experiment import MAX_TRIALS
    from rlrun.experiments.spec.load import load_experiments

    if machine is not None:
        overrides = (*overrides, f"machine={machine}")
    most = MAX_TRIALS if max_trials is None else max_trials
    loaded = load_experiments(files, overrides, max_trials=most, makes_envs=True, tell=partial(echo, err=True))
    if make_envs:
        from rlrun.experiments.launch.checks import check_envs

        check_envs(loaded)
    experiments = [_described(experiment) for experiment in loaded]
    tuned = [key for key in ("scheduler", "searcher") if any(experiment[key] for experiment in experiments)]
    rows = [[experiment[key] for key in ("name", "algorithm", "env", "trials", *tuned)] for experiment in experiments]
    listed = table(["experiment", "algorithm", "env", "trials", *tuned], rows, stdout_width())
    print_result({"experiments": experiments}, "\n".join([listed, *_notes(loaded)]))


def _notes(experiments: Sequence[Experiment]) -> list[str]:
    """Lines on experiments whose results or numbers depend on the machine."""
    measured = [
        (
            f"{experiment.name}: {' and '.join(experiment.auto)} will be measured before the run, so results "
            "depend on the machine"
        )
        for experiment in experiments
        if experiment.auto
    ]
    return measured + [
        (
            f"{experiment.name}: min_share_of_fragments {share:g} skips fragments of slow workers, so results "
            "depend on the machine, and resumed runs are not exact"
        )
        for experiment in experiments
        if (share := experiment.config.min_share_of_fragments) < 1 and experiment.config.num_workers > 1
    ]


def _described(experiment: Experiment) -> dict[str, Any]:
    from rlrun.experiments.spec.titles import env_title

    return {
        "name": experiment.name,
        "algorithm": experiment.algorithm,
        "env": env_title(experiment.env.to_data()),
        "trials": experiment.num_trials,
        "scheduler": None if experiment.scheduler is None else experiment.scheduler.kind,
        "searcher": None if experiment.searcher is None else experiment.searcher.kind,
    }
