"""``rlrun show RUN``: summary of a run's spec, results of its configurations and trials, and its best checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.exits import require_complete
from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_runs, json_option, metric_options, runs_dir_option
from rlrun.cli.tables import (
    MOST_ROWS,
    cell_text,
    configurations_table,
    counterpart_words,
    echo,
    left_out,
    listed,
    metric_words,
)
from rlrun.cli.trial_progress import training_time
from rlrun.report.plain_json import fields_of
from rlrun.report.step_axis import STEP_NAMES, counted_metric

if TYPE_CHECKING:
    from rlrun.engine.settings.metric import Mode
    from rlrun.experiments.runs.trial_result import TrialResult
    from rlrun.report.reading import RunView
    from rlrun.report.summary import BestTrial, GroupSummary

LONGEST_ERROR = 300


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@metric_options
@click.option("--all", "whole", is_flag=True, help=f"Show all rows instead of only the best {MOST_ROWS}.")
@runs_dir_option
@json_option("the run")
def show(run: str, metric: str | None, mode: Mode | None, whole: bool, runs_dir: Path) -> None:
    """Show a run and its results.

    Seeds of the same configuration are summarized: the mean and the
    interquartile mean of their last values, and the best value of any seed. If
    some files of the run are damaged, the exit code is 5.
    """
    from rlrun.cli.targets import run_named
    from rlrun.experiments.runs.unreported_metrics import unreported_metrics
    from rlrun.report.configurations import groups_of
    from rlrun.report.reading import read_judged_runs
    from rlrun.report.summary import best_trial, summarise

    (view,), metric, mode = read_judged_runs([run_named(run, runs_dir)], metric, mode)
    for warning in unreported_metrics(view.spec, view.trials):
        echo(f"warning: {warning}", err=True)
    summaries = summarise(groups_of(view), metric, mode)
    best, damaged = best_trial(view, metric, mode)
    parts = [
        _heading(view),
        configurations_table(summaries, metric, whole=whole),
        _trials_table(view, metric, mode, whole=whole),
        _switch_table(view),
        _policies_table(view, best),
        _errors(view),
        _ended(view),
        _early_ends(view),
        _stops(view),
        _best(best, metric, view),
        _problems([*view.problems, *damaged]),
    ]
    print_result(_data(view, metric, mode, summaries, best, damaged), "\n\n".join(filter(None, parts)))
    require_complete(view.path, [*view.problems, *damaged])


def _heading(run: RunView) -> str:
    from rlrun.engine.envs.presets import preset_text
    from rlrun.experiments.spec.tuning import kind_of
    from rlrun.report.summary import shape_text, status_text, varied_text

    table = run.table
    lines = {
        "": f"{run.algorithm} on {run.env}, {shape_text(run)}",
        "tags": ", ".join(run.labels.tags),
        "note": run.labels.note,
        "status": status_text(run.trials) or "no trials yet",
        "stop": _stop_text(run.spec.get("stop") or {}),
        "preset": preset_text(run.spec.get("env"), run.spec.get("config") or {}),
        "scheduler": kind_of(run.spec.get("scheduler")),
        "searcher": kind_of(run.spec.get("searcher")),
        "populations": _populations(run),
        "started": f"{table.created.replace('T', ' ').removesuffix('+00:00')} UTC by {table.command}",
        "with": ", ".join(f"{name} {table.versions[name]}" for name in ("rlrun", "torch") if name in table.versions),
        "directory": str(run.path),
    }
    varied = [f"    {name}: {values}" for name, values in varied_text(run).items()]
    details = [f"  {label:<12}{text}" for label, text in lines.items() if label and text]
    details += ["  varies", *varied] if varied else []
    return "\n".join([f"{run.name}: {lines['']}", *details, *_network(run)])


def _stop_text(stop: Mapping[str, Any]) -> str:
    words = [f"{name} {value:,.10g}" for name, value in stop.items() if name != "plateau"]
    if plateau := stop.get("plateau"):
        words.append(f"a plateau of {plateau['metric']} over {plateau['patience']} evaluations")
    return ", ".join(words)


def _network(run: RunView) -> list[str]:
    """Lines on how observations are preprocessed for the network, of the first started trial."""
    known = [trial for trial in run.trials if trial.network]
    if not known:
        return []
    differ = len({trial.network for trial in known}) > 1
    return [f"  network{f' of {known[0].name}' if differ else ''}", *(f"    {line}" for line in known[0].network)]


def _trials_table(run: RunView, metric: str, mode: Mode, *, whole: bool) -> str:
    from rlrun.report.reading import DEFAULT_METRIC, counterpart

    other = counterpart(metric)
    ordered = sorted(run.trials, key=lambda trial: _rank(trial, metric, mode))
    shown = ordered if whole else ordered[:MOST_ROWS]
    differ = len({trial.stop_reason.split(" ")[0] for trial in run.trials if trial.stop_reason}) > 1
    counted = counted_metric(trial.last_result for trial in shown)
    words = counterpart_words(metric)
    columns: dict[str, Callable[[TrialResult], Any]] = {
        "trial": lambda trial: trial.name,
        "status": lambda trial: trial.shown_status,
        STEP_NAMES[counted]: lambda trial: trial.last_result.get(counted),
        "last": lambda trial: trial.final(metric),
        "best": lambda trial: trial.best(metric, mode),
        words: lambda trial: None if other is None else trial.final(other),
        "time": lambda trial: training_time(trial.last_result),
        "stopped by": lambda trial: trial.stop_reason if trial.stop_reason and differ else None,
    }
    rows = listed(shown, columns, ["stopped by", "time", words], drops_empty=True)
    heading = "" if metric == DEFAULT_METRIC else f"{metric}, last and best\n"
    return heading + rows + left_out(len(ordered) - len(shown))


def _switch_table(run: RunView) -> str:
    """Table of the return that each seed loses at the switch to this stage; "" without evaluations on both sides."""
    from rlrun.report.reading import axis_of
    from rlrun.report.switch import FIRST, Switch, switches

    found = switches(run)
    if not found:
        return ""
    columns: dict[str, Callable[[Switch], Any]] = {
        "switch": lambda one: one.trial,
        "before": lambda one: one.before,
        f"lowest of the first {FIRST}": lambda one: one.lowest,
        "drop": lambda one: one.drop,
        f"recovered at {STEP_NAMES[axis_of([run], None)]}": lambda one: one.regained_at and round(one.regained_at),
    }
    return f"evaluations after {run.table.after}\n" + listed(found, columns, [])


def _policies_table(run: RunView, best: BestTrial | None) -> str:
    """Table of a multi-agent run's policies in the best trial, or the first with results; "" for single-agent runs."""
    found = next((trial for trial in run.trials if best is not None and trial.name == best.trial), None)
    trial = found or next((trial for trial in run.trials if trial.last_result), None)
    last = {} if trial is None else trial.last_result
    policies = dict.fromkeys(name.split("/")[1] for name in last if name.startswith("policies/"))
    if trial is None or not policies:
        return ""
    columns: dict[str, Callable[[str], Any]] = {
        f"policy of {trial.name}" if len(run.trials) > 1 else "policy": lambda policy: policy,
        "return": lambda policy: last.get(f"policies/{policy}/episode_return_mean"),
        "evaluation": lambda policy: last.get(f"evaluation/policies/{policy}/episode_return_mean"),
        "agent steps": lambda policy: last.get(f"policies/{policy}/agent_steps"),
        "minibatches": lambda policy: last.get(f"policies/{policy}/sgd_steps"),
    }
    return listed(list(policies), columns, ["minibatches", "evaluation"], drops_empty=True)


def _errors(run: RunView) -> str:
    """Errors of failed trials, abbreviated to the first and last line; error.txt has the full text."""
    failed = [trial for trial in run.trials if trial.error and not trial.is_damaged]
    lines = []
    for trial in failed[:MOST_ROWS]:
        text = trial.error.strip().splitlines()
        short = " ... ".join(dict.fromkeys([*text[:1], *text[-1:]]))
        lines.append(f"  {trial.name}: {short[:LONGEST_ERROR]}\n    {trial.directory / 'error.txt'}")
    return "\n".join([f"{len(failed)} failed", *lines]) if failed else ""


def _ended(run: RunView) -> str:
    """Env and episode of each trial whose process crashed without an exception."""
    return "\n".join([f"{trial.name}: {trial.ended_in}" for trial in run.trials if trial.ended_in][:MOST_ROWS])


def _early_ends(run: RunView) -> str:
    """Reasons why a hook or a plateau stopped trials."""
    return "\n".join([trial.early_end for trial in run.trials if trial.early_end][:MOST_ROWS])


def _stops(run: RunView) -> str:
    from rlrun.experiments.spec.tuning import kind_of

    if not run.stops:
        return ""
    scheduler = kind_of(run.spec.get("scheduler")) or "the scheduler"
    return f"{scheduler} stopped {len(run.stops)} of {len(run.trials)} trials"


def _best(best: BestTrial | None, metric: str, run: RunView) -> str:
    from rlrun.experiments.runs.outcome import shown_path
    from rlrun.report.reading import missing_returns

    if best is None:
        return f"no trial has a value of {metric} yet{missing_returns([run], metric)}"
    lines = [f"best trial: {best.trial} ({metric_words(metric)} {cell_text(best.value)})"]
    if best.checkpoint is not None:
        lines.append(f"  rlrun evaluate {shown_path(best.checkpoint)} --episodes 20")
    else:
        lines.append("  this trial has no checkpoint")
    return "\n".join(lines)


def _problems(problems: list[str]) -> str:
    return "\n".join(["damaged:", *(f"  {problem}" for problem in problems)]) if problems else ""


def _populations(run: RunView) -> str:
    if not run.generations:
        return ""
    copies = sum(member.parent is not None for line in run.generations for member in line.members)
    newest = max(line.generation for line in run.generations)
    return f"{newest} generation{'s' * (newest != 1)} so far, {copies} {'copy' if copies == 1 else 'copies'}"


def _rank(trial: TrialResult, metric: str, mode: Mode) -> float:
    best = trial.best(metric, mode)
    return float("inf") if best is None else -best if mode == "max" else best


def _data(
    run: RunView, metric: str, mode: Mode, summaries: list[GroupSummary], best: BestTrial | None, damaged: list[str]
) -> dict[str, Any]:
    from rlrun.report.switch import switches

    return {
        "directory": run.path,
        **fields_of(run, "name", "spec"),
        **asdict(run.labels),
        **fields_of(run.table, "experiment", "created", "command", "versions"),
        "metric": metric,
        "mode": mode,
        "configurations": [asdict(summary) for summary in summaries],
        "trials": [
            {
                **fields_of(trial, "name", "configuration", "population", "seed", "params", "status"),
                **fields_of(trial, "stop_reason", "error", "ended_in", "network"),
                "last_result": trial.last_result or None,
                "last": trial.final(metric),
                "best": trial.best(metric, mode),
            }
            for trial in run.trials
        ],
        "stops": [asdict(stop) for stop in run.stops],
        "switches": [{**asdict(one), "drop": one.drop} for one in switches(run)],
        "best": best and asdict(best),
        "problems": [*run.problems, *damaged],
    }
