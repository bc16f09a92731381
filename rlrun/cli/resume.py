"""``rlrun resume RUN``: goes on with a run that was interrupted or killed."""

from __future__ import annotations

from pathlib import Path

import click

from rlrun.cli.options import json_option, runs_dir_option, trust_option


@click.command()
@click.argument("run_name", metavar="RUN")
@click.option("--executor", type=click.Choice(["local", "ray"]), help="Where trials run; by default what they need.")
@click.option("--address", help="Join the Ray cluster at this address.")
@runs_dir_option
@trust_option
@json_option("the trials and their results")
def resume(
    run_name: str, executor: str | None, address: str | None, runs_dir: Path, trust: bool, as_json: bool
) -> None:
    """Go on with a run that was interrupted or killed.

    Each trial goes on from its newest whole checkpoint. RUN is a run's directory or its name in the runs folder (see `rlrun runs`). Finished trials are left as they are.
    """
    from rlrun.cli.report import report
    from rlrun.cli.targets import run_named
    from rlrun.cli.watch import RunWatcher
    from rlrun.tune.run import resume as resume_run

    directory = run_named(run_name, runs_dir)
    with RunWatcher() as watcher:
        trials = resume_run(directory, executor=executor, address=address, watch=watcher)
    report(trials, as_json=as_json)
