"""``rlrun train``: trains the experiments of spec files, and saves their policies."""

from __future__ import annotations

import os
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.experiments import algorithm_and_env_options, named_experiments
from rlrun.cli.options import (
    address_option,
    complete_specs,
    complete_trials,
    executor_option,
    json_option,
    machine_option,
    max_trials_option,
    note_option,
    progress_options,
    resume_option,
    retry_failed_option,
    runs_dir_option,
    set_option,
    shard_option,
    spec_files_option,
    tag_option,
    wait_for_nodes_option,
)
from rlrun.cli.resume import continue_command
from rlrun.engine.processes.restart_note import directories_to_continue
from rlrun.experiments.runs.shard import Shard

if TYPE_CHECKING:
    from rlrun.cli.watch import Progress
    from rlrun.experiments.runs.run_directory import Executor
    from rlrun.experiments.spec.experiment import Experiment

RESTARTS_VARIABLE = "SLURM_RESTART_COUNT"
"""Environment variable in which Slurm counts how often it has requeued a job."""


@click.command()
@click.argument("specs", type=click.Path(path_type=Path), nargs=-1, metavar="[FILE]...", shell_complete=complete_specs)
@spec_files_option
@algorithm_and_env_options
@set_option
@machine_option
@click.option("--seed", type=click.IntRange(min=0), help="Run only this seed instead of the spec's seeds.")
@click.option("--name", help="Name of the run; default: the experiment's name.")
@tag_option
@note_option
@executor_option
@address_option
@wait_for_nodes_option
@click.option(
    "--from",
    "from_checkpoint",
    type=click.Path(path_type=Path),
    metavar="CHECKPOINT",
    shell_complete=complete_trials,
    help="Start from the weights of this checkpoint, card, trial or run.",
)
@resume_option
@retry_failed_option
@shard_option
@click.option("--dry-run", is_flag=True, help="Print the planned trials without running them.")
@max_trials_option
@progress_options
@runs_dir_option
@json_option("the trials and their results")
def train(
    specs: tuple[Path, ...],
    files: tuple[Path, ...],
    algorithm: str | None,
    env: str | None,
    overrides: tuple[str, ...],
    machine: str | None,
    seed: int | None,
    name: str | None,
    tags: tuple[str, ...],
    note: str | None,
    executor: Executor | None,
    address: str | None,
    wait_for_nodes_s: float | None,
    from_checkpoint: Path | None,
    resumes: bool,
    retry_failed: bool,
    shard: str | None,
    dry_run: bool,
    max_trials: int | None,
    progress: Progress | None,
    quiet: bool,
    runs_dir: Path,
) -> None:
    """Train the experiments in spec files, or an algorithm on an env.

    FILE is a spec file, or the name of a spec that ships with rlrun (`rlrun examples`).
    With --resume, a job can repeat the same command until the run is complete.
    With --shard, the jobs of a job array each train a part of the same sweep.

    \b
    rlrun train my.yaml --set config.lr=1e-3
    rlrun train my.yaml --name job1 --resume
    rlrun train sweep.yaml --shard 0/4
    rlrun train cartpole/ppo
    rlrun train --algorithm ppo --env CartPole-v1
    """  # noqa: D301 (\b keeps click from rewrapping the paragraph)
    if machine is not None:
        overrides = (*overrides, f"machine={machine}")
    numbers = None if shard is None else astuple(Shard.parsed(shard))
    if retry_failed and not resumes and shard is None:
        raise click.UsageError("--retry-failed needs --resume: add it, or use rlrun resume RUN --retry-failed")
    if seed is not None:
        overrides = (*overrides, f"seeds=[{seed}]")
    if runs := directories_to_continue():  # if this process replaces one that died; none for a shard
        continue_command(
            runs,
            executor,
            address,
            wait_for_nodes_s,
            progress,
            retry_failed=retry_failed,
            eager=False,
            trust=True,
            quiet=quiet,
        )
        return
    experiments = named_experiments((*specs, *files), algorithm, env, overrides, max_trials)
    if dry_run:
        from rlrun.cli.dry_run import print_plan

        print_plan(experiments)
        return
    from rlrun.cli.outcome import print_outcome
    from rlrun.cli.targets import checkpoint_named
    from rlrun.cli.watch import watching
    from rlrun.experiments.launch.run import run

    if not resumes and shard is None:
        _refuse_restart(experiments, runs_dir, name)
    start = None if from_checkpoint is None else checkpoint_named(str(from_checkpoint), runs_dir, best=False)
    with watching(progress, quiet=quiet, names_experiment=len(experiments) > 1) as watcher:
        trials = run(
            experiments,
            runs_dir=runs_dir,
            executor=executor,
            name=name,
            tags=tags,
            note=note or "",
            address=address,
            wait_for_nodes_s=wait_for_nodes_s,
            from_checkpoint=start,
            resume=resumes,
            retry_failed=retry_failed,
            shard=numbers,
            watch=watcher,
        )
    print_outcome(trials)


def _refuse_restart(experiments: list[Experiment], runs_dir: Path, name: str | None) -> None:
    """Raises an error if Slurm has requeued the job whose run would begin again.

    Raises:
        click.UsageError: If this is a restart of the job, and it has left an interrupted run.
    """
    from rlrun.experiments.launch.existing_run import interrupted_runs

    restarts = os.environ.get(RESTARTS_VARIABLE, "")
    if not restarts.isdecimal() or int(restarts) == 0:
        return
    for event in interrupted_runs(experiments, runs_dir, name):
        raise click.UsageError(
            f"{event.text}. Slurm has restarted this job ({RESTARTS_VARIABLE}={restarts}): add --resume to the command "
            "in the job script, or choose another --name"
        )
