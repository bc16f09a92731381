"""``rlrun profile``: measures which dataflow operators and worker phases a training run spends its time on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.experiments import algorithm_and_env_options, named_experiments
from rlrun.cli.json_document import print_result
from rlrun.cli.options import OutputFile, json_option, machine_option, set_option, spec_files_option
from rlrun.cli.profiling import Profile, profiled, warm_up
from rlrun.cli.tables import echo

if TYPE_CHECKING:
    from rlrun.engine.algorithm_config import AlgorithmConfig
    from rlrun.experiments.spec.experiment import TrialSpec


@click.command()
@spec_files_option
@algorithm_and_env_options
@set_option
@machine_option
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Minimum duration in seconds; the iteration in progress is always finished.",
)
@click.option(
    "--trace",
    type=OutputFile(),
    metavar="FILE",
    help="Also write a trace (JSON) for ui.perfetto.dev or chrome://tracing.",
)
@json_option("the profile")
def profile(
    files: tuple[Path, ...],
    algorithm: str | None,
    env: str | None,
    overrides: tuple[str, ...],
    machine: str | None,
    seconds: float,
    trace: Path | None,
) -> None:
    """Measure where training spends its time, by operator and worker.

    Runs the first trial of the spec files, or an algorithm on an env, in this process (rollout workers run in
    separate processes) and writes nothing to the runs folder. Startup and compilation are not measured. Ctrl-C ends
    the measurement early.
    """
    from rlrun.cli.profile_tables import profile_data, profile_lines, write_trace
    from rlrun.engine.messages.errors import Interrupted
    from rlrun.experiments.cluster.resources import machine_cpus
    from rlrun.experiments.trial.trial_training import training_of
    from rlrun.experiments.trial.user_code import user_code_explained

    if machine is not None:
        overrides = (*overrides, f"machine={machine}")
    trial = _first_trial(files, algorithm, env, overrides)
    running = training_of(trial, announce=lambda text: echo(text, err=True))
    with running, user_code_explained(*map(type, running.description.policies.algorithms.values())):
        echo("starting and, if necessary, compiling (not measured)", err=True)
        warm_up_s = warm_up(running)
        echo(f"measuring for {seconds:g} s", err=True)
        measured = profiled(running, seconds)
        advice = remedy(measured, trial.config, machine_cpus())
        lines = [*profile_lines(trial, measured, warm_up_s), advice]
        print_result({**profile_data(trial, measured, warm_up_s), "remedy": advice}, "\n".join(lines))
        if trace is not None:
            write_trace(measured, trace)
            echo(f"Trace: {trace}", err=True)
    if measured.was_interrupted:
        raise Interrupted(f"Interrupted: the profile above covers {measured.seconds:.1f} s.")


def _first_trial(
    files: tuple[Path, ...], algorithm: str | None, env: str | None, overrides: tuple[str, ...]
) -> TrialSpec:
    first, *others = named_experiments(files, algorithm, env, overrides)
    trial = first.first_trial()
    if others or first.num_trials > 1:
        echo(f"{first.name}: running only the first trial, {trial.name}", err=True)
    return trial


MOST = 0.5
"""Share of the total time above which a part of the training gets advice."""

COLLECTING_BESIDE_THE_REST = 0.25
"""Target for the time spent on collecting experience, as a share of all other time."""

MANY_ENVS = 64
"""Number of envs per worker above which more envs hardly reduce the overhead per env step."""


def remedy(profile: Profile, config: AlgorithmConfig, cpus: int) -> str:
    """Advice on speeding up the slowest part of training without changing the batch size.

    Args:
        profile: Profile of the training.
        config: Sampling settings of the training.
        cpus: Number of CPUs of this machine.
    """
    received = sum(operator.seconds for operator in profile.operators if operator.kind == "source")
    collecting = (profile.waited_s + received) / profile.seconds
    if profile.sgd_s / profile.seconds > MOST:
        share = f"{profile.sgd_s / profile.seconds:.0%}"
        return f"remedy: learning takes {share} of the time, so more workers will not help; see `rlrun docs scaling`"
    if collecting <= MOST:
        return "remedy: none, because neither collecting nor learning takes most of the time"
    begin = f"remedy: collecting experience takes {collecting:.0%} of the time"
    spent = {phase: sum(worker.phases.get(phase, 0.0) for worker in profile.workers) for phase in _phases(profile)}
    acting = spent.get("inference", 0.0) + spent.get("recording", 0.0)
    envs = config.num_envs_per_worker
    if acting > spent.get("env_step", 0.0) and envs < MANY_ENVS:
        return f"{begin}, more of it in acting than in envs: try num_envs_per_worker: {2 * envs} (now {envs})"
    now = max(config.num_workers, 1)
    wanted = math.ceil(now * collecting / (COLLECTING_BESIDE_THE_REST * max(1 - collecting, 1e-3)))
    workers = min(wanted, cpus - 1)
    if workers > config.num_workers and workers > 1:
        return f"{begin}, most of it in envs: try num_workers: {workers} (now {config.num_workers})"
    return f"{begin}, but the {cpus} CPUs of this machine are too few for more workers; see `rlrun docs scaling`"


def _phases(profile: Profile) -> list[str]:
    return list(dict.fromkeys(phase for worker in profile.workers for phase in worker.phases))
