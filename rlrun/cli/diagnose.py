"""``rlrun diagnose RUN``: why does it not learn?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_json
from rlrun.cli.options import json_option, runs_dir_option, trust_option
from rlrun.cli.tables import cell_text, counted
from rlrun.cli.terminal import echo

if TYPE_CHECKING:
    from rlrun.envs.env_findings import EnvFinding
    from rlrun.report.diagnosis import Evidence, Finding
    from rlrun.report.reading import RunView
    from rlrun.rollout.evaluation import EvaluationResult
    from rlrun.runs.trial_result import TrialResult

ENV_STEPS = 2_000
NOT_PLAYED = "its env was not tried, as it is not in your own runs folder: --trust imports and steps it"
NOT_PLAYED_AGAIN = "its env was not tried: a process of the run ended while it stepped it"


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
    number, the reason why it matters, and a setting to try. In a world of many
    agents each policy is looked at, and random policies play one another.
    """
    from rlrun.cli.targets import is_own, run_named
    from rlrun.errors import UsageError
    from rlrun.report.diagnosis import METRICS, column_of, failures, has_diverged
    from rlrun.report.reading import read_run
    from rlrun.runs.outcome import resume_command
    from rlrun.runs.run_directory import follow_import_paths
    from rlrun.trial.results import RETURN
    from rlrun.trial.trial_directory import TrialDirectory

    path = run_named(run, runs_dir)
    policies = _policies(read_run(path, ()).spec)
    view = read_run(path, [RETURN, *(column_of(metric, policy) for policy in policies for metric in METRICS)])
    trials = [trial for trial in view.trials if trial.last_result or trial.status == "ERROR" or trial.ended_in]
    if not trials:
        raise UsageError(f"{run} has no results yet: {_standing(view.trials)}")
    specs = {trial.name: TrialDirectory(trial.directory).read_spec() for trial in trials}
    is_tried = trust or is_own(path, runs_dir)
    random: EvaluationResult | None = None
    env: list[EnvFinding] = []
    crashed = any(trial.ended_in for trial in trials)
    played = [trial for trial in trials if trial.last_result and (trial.status != "ERROR" or has_diverged(trial))]
    if is_tried and played and not crashed:  # what raised in a trial, or ended its process, would do so here
        follow_import_paths(view.table.import_paths)
        ends = any(trial.last_result.get(RETURN) is not None for trial in played)
        random, env = _played(specs[played[0].name], episodes if ends else 0)
    evidence = {policy: _evidence(trials, specs, random, policy) for policy in policies}
    findings = [*failures(evidence[policies[0]]), *_found(evidence, env)]
    if as_json:
        compared = None if random is None else random.to_dict()
        stand = {trial.name: trial.status for trial in view.trials}
        told = [asdict(one) for one in findings]
        print_json({"run": str(path), "trials": stand, "random_policy": compared, "findings": told})
        return
    echo("\n".join([*_heading(view, evidence), "", *_lines(findings, len(view.trials))]))
    if any(trial.status in ("INTERRUPTED", "KILLED") for trial in view.trials):
        echo(f"Go on with it: {resume_command(view.path)}")
    if not is_tried:
        echo(NOT_PLAYED, err=True)
    elif crashed:
        echo(NOT_PLAYED_AGAIN, err=True)


def _policies(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the policies of a world that learn; one without a name where an env has one agent."""
    from rlrun.envs.env_config import names_world
    from rlrun.rollout.rollout import DEFAULT_POLICY

    if not names_world(spec.get("env")):
        return ("",)
    return tuple(spec.get("train") or spec.get("policies") or (DEFAULT_POLICY,))


def _evidence(
    trials: Sequence[TrialResult], specs: Mapping[str, Any], random: EvaluationResult | None, policy: str
) -> list[Evidence]:
    """Returns what is known of a policy in each trial."""
    from rlrun.report.diagnosis import Evidence

    found = []
    for trial in trials:
        spec = specs[trial.name]
        own = spec["policies"][policy] if spec.get("policies") else spec
        config = {**own["config"], **spec["config"]}  # how a world's policies collect is said once for all of them
        compared = random.policies.get(policy) if random is not None and policy else random
        found.append(Evidence(trial, config, compared, policy, own["algorithm"]))
    return found


def _found(evidence: Mapping[str, list[Evidence]], env: list[EnvFinding]) -> list[Finding]:
    """Returns what is found of each policy and of its agents' world, and then of the world as a whole."""
    from rlrun.report.diagnosis import diagnose as found_in

    if len(evidence) == 1:
        return found_in(next(iter(evidence.values())), env)
    findings = []
    rest = env
    for policy, own in evidence.items():
        mine = f"{policy}: "
        of_world = [replace(one, topic=one.topic.removeprefix(mine)) for one in env if one.topic.startswith(mine)]
        findings += [replace(one, name=f"{mine}{one.name}") for one in found_in(own, of_world)]
        rest = [one for one in rest if not one.topic.startswith(mine)]
    return [*findings, *found_in([], rest)]


def _played(spec: Mapping[str, Any], episodes: int) -> tuple[EvaluationResult | None, list[EnvFinding]]:
    """Returns what random policies reach in an env, unless none of its episodes ends, and what stepping it shows."""
    from rlrun.envs.env_config import EnvConfig
    from rlrun.policy.random_behavior import RandomBehavior
    from rlrun.rollout.evaluation import evaluate
    from rlrun.training.policies import Policies
    from rlrun.worlds.env_check import check_by_stepping
    from rlrun.worlds.make import spaces_of_policies

    env = EnvConfig.parse(spec["env"])
    policies = Policies.from_data(spec)
    mapping, slots = policies.agent_mapping(), policies.slots
    behaviors = {name: RandomBehavior(spaces) for name, spaces in spaces_of_policies(env, mapping).items()}
    random = evaluate(behaviors, env, episodes, seed=0, mapping=mapping, slots=slots) if episodes else None
    return random, check_by_stepping(env, mapping, slots, steps=ENV_STEPS)


def _heading(view: RunView, evidence: Mapping[str, list[Evidence]]) -> list[str]:
    """Returns in lines what was looked at, and how well each policy did."""
    told = [f"{view.name}: {view.algorithm} on {view.env}, {_standing(view.trials)}"]
    return told + [f"{f'{policy}: ' if len(evidence) > 1 else ''}{_reached(own)}" for policy, own in evidence.items()]


def _standing(trials: Sequence[TrialResult]) -> str:
    """Says how many trials there are, and how those stand that are not complete."""
    from rlrun.runs.trial_status import is_complete

    stands = Counter(trial.status.lower() for trial in trials if not is_complete(trial.status))
    told = ", ".join(f"{count} {status}" for status, count in stands.items())
    return counted(len(trials), "trial") + (f" ({told})" if told else "")


def _reached(evidence: list[Evidence]) -> str:
    """Says what returns of a policy end at, and what a random one reaches."""
    from rlrun.report.diagnosis import column_of
    from rlrun.trial.results import RETURN

    ends = [end for one in evidence if (end := one.trial.final(column_of(RETURN, one.policy))) is not None]
    if not any(one.trial.last_result for one in evidence):
        return "no results"
    told = "no episode ended" if not ends else f"returns end at {', '.join(cell_text(end) for end in ends[:5])}"
    if len(ends) > 5:
        told += ", ..."
    random = evidence[0].random
    if random is not None:
        told += f"; a random policy reaches {cell_text(random.mean)} (standard deviation {cell_text(random.std)})"
    return told


def _lines(findings: list[Finding], trials: int) -> list[str]:
    if not findings:
        return ["Nothing is out of its usual range. If it does not learn all the same, give it a longer run."]
    lines = []
    for number, one in enumerate(findings, 1):
        who = f" ({len(one.trials)} of {trials} trials)" if one.trials and trials > 1 else ""
        lines.append(f"{number}. {one.name}: {' '.join(one.found.split())}{who}")
        lines += [f"   {label}: {text}" for label, text in (("why", one.reason), ("try", one.advice)) if text]
    return lines
