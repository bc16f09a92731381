"""``rlrun diagnose RUN``: why does it not learn?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.json_document import print_json
from rlrun.cli.options import json_option, runs_dir_option, trust_option
from rlrun.cli.tables import cell_text, counted
from rlrun.cli.terminal import echo

if TYPE_CHECKING:
    from rlrun.envs.env_check import EnvFinding
    from rlrun.envs.env_config import EnvConfig
    from rlrun.report.diagnosis import Evidence, Finding
    from rlrun.report.reading import RunView
    from rlrun.rollout.evaluation import EvaluationResult

ENV_STEPS = 2_000
NOT_PLAYED = "its env was not tried, as it is not in your own runs folder: --trust imports and steps it"


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--episodes",
    type=click.IntRange(min=2),
    default=50,
    show_default=True,
    help="Episodes of a random policy to compare with.",
)
@runs_dir_option
@trust_option
@json_option("the findings")
def diagnose(run: str, episodes: int, runs_dir: Path, trust: bool, as_json: bool) -> None:
    """Say why a run does not learn, and what to try.

    Looks at what its trials report, plays a random policy in its env for
    comparison, and lists what is out of its usual range: each finding with its
    number, the reason why it matters, and a setting to try.
    """
    from rlrun.cli.targets import is_own, run_named
    from rlrun.errors import UsageError
    from rlrun.report.diagnosis import METRICS, Evidence
    from rlrun.report.diagnosis import diagnose as found_in
    from rlrun.report.reading import read_run
    from rlrun.runs.run_directory import follow_import_paths
    from rlrun.trial.results import RETURN
    from rlrun.trial.trial_directory import TrialDirectory
    from rlrun.worlds.any_env import env_model
    from rlrun.worlds.world_config import WorldConfig

    path = run_named(run, runs_dir)
    view = read_run(path, METRICS)
    trials = [trial for trial in view.trials if trial.last_result]
    if not trials:
        raise UsageError(f"{run} has no results yet")
    if env_model(view.spec.get("env")) is WorldConfig:
        raise UsageError(
            f"diagnose looks at runs of one agent, and {view.env} is a world of many: `rlrun plot` draws what its "
            "policies report"
        )
    specs = {trial.name: TrialDirectory(trial.directory).read_spec() for trial in trials}
    is_tried = trust or is_own(path, runs_dir)
    random: EvaluationResult | None = None
    env: list[EnvFinding] = []
    if is_tried:
        from rlrun.envs.env_config import EnvConfig

        follow_import_paths(view.table.import_paths)
        ends = any(trial.last_result.get(RETURN) is not None for trial in trials)
        random, env = _played(EnvConfig.parse(specs[trials[0].name]["env"]), episodes if ends else 0)
    evidence = [Evidence(trial, specs[trial.name]["config"], random) for trial in trials]
    findings = found_in(evidence, env)
    if as_json:
        compared = None if random is None else random.to_dict()
        print_json({"run": str(path), "random_policy": compared, "findings": [asdict(one) for one in findings]})
        return
    echo("\n".join([_heading(view, evidence, random), "", *_lines(findings, len(trials))]))
    if not is_tried:
        echo(NOT_PLAYED, err=True)


def _played(env: EnvConfig, episodes: int) -> tuple[EvaluationResult | None, list[EnvFinding]]:
    """Returns what a random policy reaches in an env, unless none of its episodes ends, and what stepping it shows."""
    from rlrun.envs.env_check import check_by_stepping
    from rlrun.envs.make import spaces_of
    from rlrun.rollout.evaluation import evaluate
    from rlrun.rollout.random_policy import RandomPolicy

    random = evaluate(RandomPolicy(spaces_of(env)), env, episodes, seed=0) if episodes else None
    return random, check_by_stepping(env, steps=ENV_STEPS)


def _heading(view: RunView, evidence: list[Evidence], random: EvaluationResult | None) -> str:
    from rlrun.trial.results import RETURN

    ends = [end for one in evidence if (end := one.trial.final(RETURN)) is not None]
    told = "no episode ended" if not ends else f"returns end at {', '.join(cell_text(end) for end in ends[:5])}"
    if len(ends) > 5:
        told += ", ..."
    if random is not None:
        told += f"; a random policy reaches {cell_text(random.mean)} (standard deviation {cell_text(random.std)})"
    return f"{view.name}: {view.algorithm} on {view.env}, {counted(len(evidence), 'trial')}\n{told}"


def _lines(findings: list[Finding], trials: int) -> list[str]:
    if not findings:
        return ["Nothing is out of its usual range. If it does not learn all the same, give it more env steps."]
    lines = []
    for number, one in enumerate(findings, 1):
        who = f" ({len(one.trials)} of {trials} trials)" if one.trials and trials > 1 else ""
        lines.append(f"{number}. {one.name}: {' '.join(one.found.split())}{who}")
        lines += [f"   {label}: {text}" for label, text in (("why", one.reason), ("try", one.advice)) if text]
    return lines
