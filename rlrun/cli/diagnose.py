"""``rlrun diagnose RUN``: why a run fails to learn, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.json_document import print_result, wants_json
from rlrun.cli.options import complete_runs, json_option, runs_dir_option, trust_option
from rlrun.cli.tables import cell_text, echo
from rlrun.report.step_axis import STEP_NAMES, counted_metric

if TYPE_CHECKING:
    from rlrun.report.diagnosis.evidence import Evidence
    from rlrun.report.diagnosis.run_diagnosis import RunDiagnosis

MOST_RETURNS = 5

NO_ENV_CHECK = {
    "untrusted": (
        "the env was not run for comparison, because the run is not in your runs folder; pass --trust to run it"
    ),
    "crashed": "the env was not run for comparison, because it crashed a process of this run",
}


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--episodes",
    type=click.IntRange(min=2),
    default=50,
    show_default=True,
    help="Number of episodes to play with the random policy.",
)
@runs_dir_option
@trust_option
@json_option("the findings")
def diagnose(run: str, episodes: int, runs_dir: Path, trust: bool) -> None:
    """Find out why a run does not learn, and what to try.

    Reads the metrics of the trials, evaluates a random policy in the env for
    comparison, and lists metrics outside their usual range: for each finding,
    the value, why it matters, and a setting to try. In a multi-agent
    world, each policy is diagnosed, and random policies play each other.
    """
    from rlrun.cli.targets import is_own, run_named
    from rlrun.experiments.runs.outcome import resume_command
    from rlrun.report.diagnosis.run_diagnosis import diagnose_run

    path = run_named(run, runs_dir)
    found = diagnose_run(path, episodes, is_trusted=trust or is_own(path, runs_dir))
    trials = {trial.name: trial.status for trial in found.view.trials}
    random = None if found.random is None else found.random.to_dict()
    findings = [asdict(one) for one in found.findings]
    lines = [*_heading(found), "", *_lines(found, len(trials))]
    if {"INTERRUPTED", "KILLED"} & set(trials.values()):
        lines.append(f"Resume it: {resume_command(found.view.path)}")
    data = {"run": str(path), "trials": trials, "random_policy": random, "findings": findings}
    print_result(data, "\n".join(lines))
    if found.env_check in NO_ENV_CHECK and not wants_json():
        echo(NO_ENV_CHECK[found.env_check], err=True)


def _heading(found: RunDiagnosis) -> list[str]:
    """Header of a diagnosis: one line about the run, and one line about each policy's returns."""
    from rlrun.report.diagnosis.run_diagnosis import trials_text

    run = f"{found.view.name}: {found.view.algorithm} on {found.view.env}, {trials_text(found.view.trials)}"
    several = len(found.evidence) > 1
    return [run, *(f"{policy}: " * several + _returns_text(own) for policy, own in found.evidence.items())]


def _returns_text(evidence: Sequence[Evidence]) -> str:
    """Sentence on a policy's last returns compared with those of a random policy."""
    from rlrun.report.diagnosis.evidence import RETURNS, column_of

    if not any(one.trial.last_result for one in evidence):
        return "no results"
    metric = RETURNS[all(one.is_of_data for one in evidence)]
    ends = [end for one in evidence if (end := one.trial.final(column_of(metric, one.policy))) is not None]
    listed = ", ".join([*map(cell_text, ends[:MOST_RETURNS]), *(["..."] * (len(ends) > MOST_RETURNS))])
    whose, none = ("final returns", "no episode ended") if metric == RETURNS[0] else ("evaluations", "not evaluated")
    text = f"{whose}: {listed}" if ends else none
    random = evidence[0].random
    if random is not None:
        text += f"; a random policy reaches {cell_text(random.mean)} (standard deviation {cell_text(random.std)})"
    return text


def _lines(found: RunDiagnosis, trials: int) -> list[str]:
    if not found.findings:
        more = STEP_NAMES[counted_metric(trial.last_result for trial in found.view.trials)]
        return [f"No metric is outside its usual range. If the run still does not learn, train for more {more}."]
    lines = []
    for number, one in enumerate(found.findings, 1):
        who = f" ({len(one.trials)} of {trials} trials)" if one.trials and trials > 1 else ""
        lines.append(f"{number}. {one.name}: {' '.join(one.found.split())}{who}")
        lines += [f"   {label}: {text}" for label, text in (("why", one.reason), ("try", one.advice)) if text]
    return lines
