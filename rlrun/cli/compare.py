"""``rlrun compare A B ...``: compares runs, configurations or trials, with confidence intervals and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import axis_option, complete_trials, json_option, metric_options, runs_dir_option
from rlrun.cli.tables import cell_text, stdout_width, table
from rlrun.report.step_axis import STEP_NAMES

if TYPE_CHECKING:
    from rlrun.engine.settings.metric import Mode
    from rlrun.report.comparison import Comparison, Side
    from rlrun.report.configurations import Group
    from rlrun.report.reading import RunView
    from rlrun.report.statistics import Estimate

MOST_PAIRS = 12


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="RUN|TRIAL...", shell_complete=complete_trials)
@metric_options
@axis_option
@click.option(
    "--by",
    metavar="SETTING",
    help="Group each run's trials by one setting, such as config.lr, over all others and seeds.",
)
@click.option("--pool", is_flag=True, help="Compare runs as a whole instead of their configurations.")
@runs_dir_option
@json_option("the comparison")
def compare(
    targets: tuple[str, ...],
    metric: str | None,
    mode: Mode | None,
    axis: str | None,
    by: str | None,
    pool: bool,
    runs_dir: Path,
) -> None:
    """Compare runs, the configurations of runs, or trials.

    Each seed of a configuration is one sample; a population (pbt) counts as one sample, its best member. The tables
    show the interquartile mean, mean and median with 95% bootstrap intervals, for final values and for areas under
    the curve, and the probability of improvement (Agarwal et al. 2021).
    """
    from rlrun.cli.targets import run_or_trial_named
    from rlrun.engine.messages.errors import UsageError
    from rlrun.experiments.runs.unreported_metrics import unreported_metrics
    from rlrun.report.comparison import compare as compared
    from rlrun.report.comparison import env_notes
    from rlrun.report.reading import axis_of, metric_of_all, read_judged_runs

    named = [run_or_trial_named(target, runs_dir) for target in targets]
    chosen = list(dict.fromkeys((run.resolve(), trial) for run, trial in named))
    if by is not None and pool:
        raise UsageError("--by and --pool group trials differently; leave one out")
    if pool and len(chosen) == 1:
        raise UsageError("--pool makes one group of each run: name several runs, or group trials with --by SETTING")
    runs, judged_by, mode = read_judged_runs([run for run, _ in chosen], metric, mode)
    common, note = metric_of_all(runs, judged_by) if metric is None else (judged_by, "")
    comparison = compared(_groups(runs, chosen, by, pool=pool), common, axis_of(runs, axis), mode)
    remarks = [*([note] if note else []), *env_notes(runs)]
    for run in runs:
        remarks += [f"{run.name}: {text}" for text in unreported_metrics(run.spec, run.trials)]
        remarks += run.problems
    data = {**asdict(comparison), "notes": [*comparison.notes, *remarks]}
    print_result(data, comparison_text(comparison, remarks))


def comparison_text(comparison: Comparison, remarks: Sequence[str] = ()) -> str:
    """Formats a comparison: tables of final values, areas under the curve and pairwise tests; then a verdict."""
    axis = STEP_NAMES.get(comparison.axis, "s of training")
    stretch = f"{cell_text(_whole(comparison.start))} to {cell_text(_whole(comparison.stop))} {axis}"
    parts = [
        f"{comparison.metric} at {cell_text(_whole(comparison.stop))} {axis}\n"
        + _table([(side, side.at_end) for side in comparison.sides]),
        f"area under the curve, as a mean over {stretch}\n"
        + _table([(side, side.under_curve) for side in comparison.sides]),
        _pairs_table(comparison),
    ]
    if notes := [*comparison.notes, *remarks]:
        parts.append("\n".join(f"note: {note}" for note in notes))
    parts.append(f"Verdict: {comparison.verdict}.")
    return "\n\n".join(parts)


def _table(sides: list[tuple[Side, dict[str, Estimate]]]) -> str:
    rows = [
        [
            side.label,
            side.samples,
            *(
                cell
                for name in ("iqm", "mean", "median")
                for cell in (estimates[name].value, _interval(estimates[name], side.samples))
            ),
        ]
        for side, estimates in sides
    ]
    headings = ["", "seeds", "IQM", "95%", "mean", "95%", "median", "95%"]
    return table(headings, rows, stdout_width())


def _pairs_table(comparison: Comparison) -> str:
    single = {side.label for side in comparison.sides if side.samples < 2}
    rows = [
        [
            pair.ahead,
            pair.behind,
            f"{pair.probability.value:.0%}",
            "-" if pair.behind in single and pair.ahead in single else _share_interval(pair.probability),
            f"{pair.probability_of_area.value:.0%}",
            f"{pair.p_value:.2g}",
            "yes" if pair.settled else "no",
        ]
        for pair in comparison.pairs[:MOST_PAIRS]
    ]
    headings = ["probability that", "beats", "at the end", "95%", "by area under the curve", "p", "settled"]
    left = len(comparison.pairs) - len(rows)
    return table(headings, rows, stdout_width()) + (f"\n{left} more; use --json to list them" if left else "")


def _interval(estimate: Estimate, samples: int) -> str:
    return "-" if samples < 2 else f"{cell_text(estimate.low)} to {cell_text(estimate.high)}"


def _share_interval(estimate: Estimate) -> str:
    return f"{estimate.low:.0%} to {estimate.high:.0%}"


def _whole(number: float) -> float | int:
    return round(number) if abs(number) >= 100 else number


def _groups(
    runs: Sequence[RunView], chosen: Sequence[tuple[Path, str | None]], by: str | None, *, pool: bool
) -> list[Group]:
    from rlrun.report.configurations import Group, groups_by, groups_of

    groups: list[Group] = []
    for path, trial in chosen:
        run = next(run for run in runs if run.path == path)
        if trial is None and by is not None:
            groups += groups_by(run, by, several_runs=len(runs) > 1)
            continue
        if trial is None:
            groups += groups_of(run, several_runs=len(runs) > 1, pool=pool)
            continue
        view = next(view for view in run.trials if view.name == trial)
        label = trial if len(runs) == 1 else f"{run.name}/{trial}"
        groups.append(Group(label, run.name, view.params, (((view,),),)))
    return groups
