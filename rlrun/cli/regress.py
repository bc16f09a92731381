"""``rlrun regress -f FILE...``: whether experiments still reach what their specs expect of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.options import json_option, print_json, runs_dir_option, set_option, spec_files_option
from rlrun.cli.tables import stdout_width, table

if TYPE_CHECKING:
    from rlrun.rollout.evaluation import EvaluationResult
    from rlrun.spec.experiment import ExpectConfig, Experiment
    from rlrun.tune.run_directory import TrialResult

EPISODES = 20
NEEDED_SHARE = (2, 3)  # of an experiment's trials: one unlucky seed of three is no regression


@dataclass(frozen=True)
class Verdict:
    """How one trial did.

    Attributes:
        experiment: The experiment's name.
        trial: The trial's name.
        env_steps: Env steps it took.
        values: Metric -> the value reached, None where there is none.
        expected: Metric -> the least value.
        passed: Whether every metric reached it.
    """

    experiment: str
    trial: str
    env_steps: int
    values: dict[str, float | None]
    expected: dict[str, float]
    passed: bool


@click.command()
@spec_files_option(required=True)
@set_option
@click.option(
    "--seeds", type=click.IntRange(min=1), help="Run the seeds 0 to N-1 instead of the specs' own.", metavar="N"
)
@click.option("--best", is_flag=True, help="Judge the best checkpoint by training return, not the last.")
@runs_dir_option
@json_option("the verdicts")
def regress(
    files: tuple[Path, ...], overrides: tuple[str, ...], seeds: int | None, best: bool, runs_dir: Path, as_json: bool
) -> None:
    """Run experiments and hold them to what their specs expect.

    Each trial's checkpoint is evaluated with 20 deterministic episodes. Two thirds of an experiment's trials must pass;
    else the exit code is 3.
    """
    from rlrun.errors import TargetMissed
    from rlrun.spec.load import load_experiments

    if seeds is not None:
        overrides = (*overrides, f"seeds={seeds}")
    experiments = load_experiments(files, overrides)
    expected = {experiment.name: _expectation(experiment) for experiment in experiments}
    verdicts = [
        verdict
        for experiment in experiments
        for verdict in _verdicts(experiment, expected[experiment.name], runs_dir, best=best)
    ]
    if as_json:
        print_json([asdict(verdict) for verdict in verdicts])
    else:
        click.echo(verdicts_table(verdicts))
    if missed := missed_experiments(verdicts):
        raise TargetMissed(f"below what the spec expects: {', '.join(missed)}")


def missed_experiments(verdicts: list[Verdict]) -> list[str]:
    """Returns the experiments of which fewer than two thirds of the trials passed."""
    share, of = NEEDED_SHARE
    names = dict.fromkeys(verdict.experiment for verdict in verdicts)
    passes = {name: [verdict.passed for verdict in verdicts if verdict.experiment == name] for name in names}
    return [name for name, passed in passes.items() if sum(passed) * of < len(passed) * share]


def verdicts_table(verdicts: list[Verdict]) -> str:
    """Lays the verdicts out, a row for each metric of each trial."""
    rows = [
        [
            verdict.experiment,
            verdict.trial,
            verdict.env_steps,
            metric,
            verdict.values[metric],
            least,
            "passed" if verdict.passed else "missed",
        ]
        for verdict in verdicts
        for metric, least in verdict.expected.items()
    ]
    headings = ["experiment", "trial", "env steps", "metric", "reached", "expected", "verdict"]
    return table(headings, rows, stdout_width())


def _expectation(experiment: Experiment) -> ExpectConfig:
    from rlrun.errors import UsageError

    if experiment.expect is None:
        raise UsageError(f"{experiment.name} expects nothing: add `expect: {{episode_return_mean: ...}}` to its spec")
    return experiment.expect


def _verdicts(experiment: Experiment, expect: ExpectConfig, runs_dir: Path, *, best: bool) -> list[Verdict]:
    from rlrun.cli.watch import RunWatcher
    from rlrun.tune.run import run

    if expect.within_env_steps is not None:
        limit = min(experiment.stop.get("env_steps", expect.within_env_steps), expect.within_env_steps)
        experiment = experiment.replace(stop={**experiment.stop, "env_steps": limit})
    with RunWatcher() as watcher:
        trials = run([experiment], runs_dir=runs_dir, watch=watcher)
    return [_verdict(experiment.name, trial, expect.metrics, runs_dir, best=best) for trial in trials]


def _verdict(experiment: str, trial: TrialResult, expected: dict[str, float], runs_dir: Path, *, best: bool) -> Verdict:
    from rlrun.cli.targets import evaluation_env, restored

    checkpoint = trial.best_checkpoint if best else trial.checkpoint
    values: dict[str, float | None] = dict.fromkeys(expected)
    if trial.status == "ERROR":
        click.echo(f"{trial.name}: {trial.error}", err=True)
    elif checkpoint is not None:
        with restored(checkpoint, runs_dir, trust=True) as algorithm:  # made by this very command
            evaluated = _metrics(algorithm.evaluate(EPISODES, env=evaluation_env(checkpoint, algorithm)))
        values = {metric: evaluated.get(metric, trial.last_result.get(metric)) for metric in expected}
    passed = all(value is not None and value >= expected[metric] for metric, value in values.items())
    return Verdict(experiment, trial.name, trial.last_result.get("env_steps", 0), values, expected, passed)


def _metrics(result: EvaluationResult) -> dict[str, float]:
    """Returns the metrics of an evaluation under the names that training gives its own, and with `evaluation/`."""
    values = {
        "episode_return_mean": result.mean,
        "episode_return_std": result.std,
        "episode_return_min": result.min,
        "episode_return_max": result.max,
        "episode_len_mean": result.len_mean,
    }
    return values | {f"evaluation/{name}": value for name, value in values.items()}
