"""``rlrun regress FILE...``: checks whether experiments still reach the targets in their specs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import (
    complete_specs,
    executor_option,
    json_option,
    progress_options,
    resume_option,
    runs_dir_option,
    set_option,
    spec_files_option,
)
from rlrun.cli.tables import duration, echo, stdout_width, table
from rlrun.report.step_axis import STEP_NAMES

if TYPE_CHECKING:
    from rlrun.cli.watch import Progress
    from rlrun.experiments.runs.run_directory import Executor
    from rlrun.report.regression.baseline import Baseline
    from rlrun.report.regression.verdicts import Verdict

Command = TypeVar("Command", bound=Callable[..., object])


def output_option(name: str, description: str) -> Callable[[Command], Command]:
    """Creates a command-line option for an output file.

    Args:
        name: The option, such as "--junit".
        description: The help text.
    """
    return click.option(name, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=description)


@click.command()
@click.argument("specs", type=click.Path(path_type=Path), nargs=-1, metavar="[FILE]...", shell_complete=complete_specs)
@spec_files_option
@set_option
@click.option(
    "--seeds", type=click.IntRange(min=1), help="Run seeds 0 to N - 1 instead of the specs' seeds.", metavar="N"
)
@click.option(
    "--best", is_flag=True, help="Evaluate the checkpoint with the best training return instead of the last one."
)
@click.option(
    "--control", is_flag=True, help="Freeze the policies, and require that every experiment misses its target."
)
@executor_option
@resume_option
@output_option(
    "--baseline", "Compare learning curves and speed with this baseline; a worse learning curve is a missed target."
)
@output_option("--save-baseline", "Save this run's learning curves, speed and verdicts as a baseline.")
@click.option("--fail-on-speed", is_flag=True, help="With --baseline: also fail if an experiment is slower.")
@output_option("--junit", "Write the verdicts as JUnit XML, for continuous integration.")
@progress_options
@runs_dir_option
@json_option("the verdicts")
def regress(
    specs: tuple[Path, ...],
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    seeds: int | None,
    best: bool,
    control: bool,
    executor: Executor | None,
    resumes: bool,
    baseline: Path | None,
    save_baseline: Path | None,
    fail_on_speed: bool,
    junit: Path | None,
    progress: Progress | None,
    quiet: bool,
    runs_dir: Path,
) -> None:
    """Run experiments and check that they reach their targets.

    Each trial's final checkpoint is evaluated in 20 deterministic episodes. The spec's `passes` is the number of seeds
    that must reach the target; the default is two thirds of the seeds. If fewer do, the exit code is 3; if a trial
    failed, it is 4.

    \b
    rlrun regress configs/regression/ --junit junit.xml
    rlrun regress configs/regression/ --control
    """  # noqa: D301 (\b keeps click from rewrapping the paragraph)
    from rlrun.cli.watch import watching
    from rlrun.experiments.spec.load import load_experiments
    from rlrun.report.regression import suite
    from rlrun.report.regression.baseline import baseline_of, compare, write_baseline
    from rlrun.report.regression.junit import junit_xml
    from rlrun.report.regression.verdicts import verdict_data

    if not (files := (*specs, *files)):
        raise click.UsageError("no spec file was given; for example, run: rlrun regress my.yaml")
    if control and (baseline or save_baseline):
        raise click.UsageError(
            "--control freezes the policies, so there are no curves to compare with a baseline or to save"
        )
    if fail_on_speed and baseline is None:
        raise click.UsageError("--fail-on-speed needs a --baseline")
    stored = None if baseline is None else _stored(baseline, fail_on_speed=fail_on_speed)
    for file in filter(None, (junit, save_baseline)):
        _make_folder_of(file)  # fails now, not after hours of training
    experiments = load_experiments(files, overrides)
    with watching(progress, quiet=quiet, names_experiment=len(experiments) > 1) as watcher:
        verdicts = suite.regress(
            experiments,
            runs_dir=runs_dir,
            seeds=seeds,
            control=control,
            best=best,
            executor=executor,
            resume=resumes,
            watch=watcher,
        )
    if save_baseline is not None:
        write_baseline(save_baseline, baseline_of(verdicts))
    if stored is not None:
        verdicts = compare(verdicts, stored, holds_speed=fail_on_speed)
    if junit is not None:
        junit.write_bytes(junit_xml(verdicts))
    print_result({"experiments": [verdict_data(verdict) for verdict in verdicts]}, verdicts_text(verdicts))
    _raise_misses(verdicts)


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """Formats the results of a regression run as tables: trials, comparisons with a baseline, and verdicts."""
    parts = [cases_table(verdicts)]
    if any(verdict.area is not None for verdict in verdicts):
        parts.append(comparisons_table(verdicts))
    parts.append(
        table(
            ["experiment", "verdict", "seeds"],
            [[verdict.experiment, _outcome(verdict), verdict.summary] for verdict in verdicts],
            stdout_width(),
        )
    )
    return "\n\n".join(parts)


def cases_table(verdicts: Sequence[Verdict]) -> str:
    """Formats the trials of a regression run as a table, with one row per trial and metric."""
    rows = [
        [
            verdict.experiment,
            case.trial,
            case.steps,
            duration(case.seconds),
            metric,
            case.values.get(metric),
            least,
            case.outcome_of(metric),
        ]
        for verdict in verdicts
        for case in verdict.cases
        for metric, least in case.expected.items()
    ]
    steps = _steps_name(verdicts)
    headings = ["experiment", "trial", steps, "training", "metric", "reached", "expected", "outcome"]
    return table(headings, rows, stdout_width(), expendable=["training", steps])


def _steps_name(verdicts: Sequence[Verdict]) -> str:
    counters = {case.counter for verdict in verdicts for case in verdict.cases}
    return STEP_NAMES[counters.pop()] if len(counters) == 1 else "steps"


def comparisons_table(verdicts: Sequence[Verdict]) -> str:
    """Formats comparisons with a baseline run as a table: rows for each experiment's learning curve and speed."""
    rows = [
        [verdict.experiment, what, found.judgement, str(found)]
        for verdict in verdicts
        for what, found in (("mean return of the curve", verdict.area), (f"{_steps_name([verdict])}/s", verdict.speed))
        if found is not None
    ]
    return table(["experiment", "against the baseline", "verdict", "difference, with 95% interval"], rows)


def _outcome(verdict: Verdict) -> str:
    if verdict.failed_cases:
        return "failed"
    if verdict.control:
        return "gate too weak" if verdict.is_too_weak else "missed, as expected"
    return "passed" if verdict.passed else "worse" if verdict.reached else "missed"


def _make_folder_of(file: Path) -> None:
    try:
        file.absolute().parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise click.UsageError(f"cannot write {file}: {file.parent} is a file, not a folder") from error


def _stored(path: Path, *, fail_on_speed: bool) -> Baseline:
    """Loads the baseline before the runs; rejects a baseline of another machine if speed is compared."""
    from rlrun.engine.messages.errors import UsageError
    from rlrun.report.regression.baseline import difference_of_machines, read_baseline, this_machine

    found = read_baseline(path)
    elsewhere = difference_of_machines(this_machine(), found.machine)
    if fail_on_speed and elsewhere:
        raise UsageError(
            f"{path}: made on another machine, so speeds cannot be compared ({elsewhere}); leave out --fail-on-speed"
        )
    return found


def _raise_misses(verdicts: Sequence[Verdict]) -> None:
    """Prints warnings and errors of failed trials; raises an error if an experiment did not pass.

    Raises:
        TrainingFailed: If an experiment did not pass and a trial failed.
        TargetMissed: If an experiment did not pass and no trial failed.
    """
    from rlrun.engine.messages.errors import TargetMissed, TrainingFailed

    for verdict in verdicts:
        if verdict.warning:
            echo(f"warning: {verdict.experiment}: {verdict.warning}", err=True)
        for case in verdict.cases:
            if case.error:
                echo(f"{verdict.experiment}/{case.trial}: {case.error}", err=True)
    missed = [f"{verdict.experiment}: {verdict.message}" for verdict in verdicts if not verdict.passed]
    if missed:
        has_failed = any(verdict.failed_cases for verdict in verdicts)
        raise (TrainingFailed if has_failed else TargetMissed)("\n".join(missed))
