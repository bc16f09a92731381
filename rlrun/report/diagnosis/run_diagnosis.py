"""Diagnosis of a whole run, from its results, an evaluation of random policies, and a check of the env."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from rlrun.engine.envs.env_config import EnvConfig, names_world
from rlrun.engine.envs.env_findings import EnvFinding
from rlrun.engine.envs.probes.probe import Probe, probe_of
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.messages.silent_message import SEPARATE_OPERATIONS
from rlrun.engine.policy.random_behavior import RandomBehavior
from rlrun.engine.rollout.evaluation import EvaluationResult, evaluate
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.settings.registry import BUILT_IN
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.worlds.env_check import check_by_stepping
from rlrun.engine.worlds.make import spaces_of_policies
from rlrun.experiments.runs.run_directory import follow_import_paths
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.runs.trial_status import is_complete
from rlrun.experiments.spec.titles import WITHOUT_ENV_TITLE, env_title
from rlrun.experiments.trial.results import RETURN
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.report.action_kinds import KIND_METRICS
from rlrun.report.diagnosis.diagnose import diagnose, failures, has_diverged
from rlrun.report.diagnosis.evaluations import (
    LENGTHS,
    evaluated_elsewhere,
    greedy_loops,
    is_elsewhere,
    kinds_differ,
)
from rlrun.report.diagnosis.evidence import METRICS, RETURNS, Evidence, column_of, data_returns
from rlrun.report.diagnosis.finding import Finding
from rlrun.report.reading import RunView, read_run

ENV_STEPS = 2_000
"""Number of env steps of the env check."""


EnvCheck = Literal["done", "untrusted", "crashed", "none"]


@dataclass(frozen=True)
class RunDiagnosis:
    """Diagnosis of a run.

    Attributes:
        view: Data of the run.
        evidence: Metrics and settings in each trial, by policy; "" is the policy of a single-agent env.
        random: Evaluation of random policies in the env; None if there is none.
        findings: The findings, the most likely causes first.
        env_check: How the check of the env ended: "done" if the env was instantiated and stepped, "untrusted" if the
            env's code may not be imported, "crashed" if the env has crashed a process of the run, "none" if the run
            learns from data without an env.
    """

    view: RunView
    evidence: Mapping[str, Sequence[Evidence]]
    random: EvaluationResult | None
    findings: Sequence[Finding]
    env_check: EnvCheck


def diagnose_run(path: Path, episodes: int, *, is_trusted: bool) -> RunDiagnosis:
    """Diagnoses a run: checks its results, evaluates random policies in the env, and checks the env by stepping.

    Args:
        path: Directory of the run.
        episodes: Number of episodes to play with random policies.
        is_trusted: Whether the env's code may be imported.

    Raises:
        UsageError: If the run has no results yet.
    """
    policies = _policies(read_run(path).spec)
    view = read_run(
        path,
        [RETURN, *KIND_METRICS, *LENGTHS, *(column_of(metric, policy) for policy in policies for metric in METRICS)],
    )
    trials = [trial for trial in view.trials if trial.last_result or trial.status == "ERROR" or trial.ended_in]
    if not trials:
        raise UsageError(f"{view.name} has no results yet: {trials_text(view.trials)}")
    specs = {trial.name: TrialDirectory(trial.directory).read_spec() for trial in trials}
    check = _env_check(trials, specs[trials[0].name], is_trusted=is_trusted)
    played = _played(view, trials, specs, episodes) if check == "done" else PlayedEnv()
    evidence = {
        policy: [_evidence(trial, specs[trial.name], played, policy, reads=is_trusted) for trial in trials]
        for policy in policies
    }
    findings = [
        *failures(evidence[policies[0]]),
        *greedy_loops(trials),
        *evaluated_elsewhere(evidence[policies[0]], specs, played.elsewhere),
        *_diagnose_policies(evidence, played.findings, kinds_differ(trials)),
        *_slow_updates(evidence),
    ]
    return RunDiagnosis(view, evidence, played.random, findings, check)


def _slow_updates(evidence: Mapping[str, Sequence[Evidence]]) -> list[Finding]:
    """Reports trials with custom algorithms whose updates cannot be computed by kernels."""
    found: dict[str, list[str]] = {}
    for one in chain.from_iterable(evidence.values()):
        record = None if one.algorithm in BUILT_IN else TrialDirectory(one.trial.directory).read_record()
        for note in () if record is None else record.notes:
            if note.startswith(SEPARATE_OPERATIONS):
                found.setdefault(note, []).append(one.trial.name)
    reason = "updates of small networks then take up to 20 times as long"
    advice = "tensor methods, such as `torch.where` in place of `if`"
    return [Finding("slow updates", note, reason, advice, tuple(dict.fromkeys(who))) for note, who in found.items()]


def _env_check(trials: Sequence[TrialResult], spec: Mapping[str, Any], *, is_trusted: bool) -> EnvCheck:
    """Whether to instantiate and step the env (see `RunDiagnosis`); an env that crashed a trial would crash again."""
    if _env_to_play(spec) is None:
        return "none"
    if not is_trusted:
        return "untrusted"
    return "crashed" if any(trial.ended_in for trial in trials) else "done"


@dataclass(frozen=True)
class PlayedEnv:
    """Results of playing a run's env with random actions: returns, findings and probe.

    Attributes:
        random: Evaluation of random policies; None if there is none.
        elsewhere: Evaluation of random policies in the run's evaluation env, if that is a different env.
        findings: Findings of the env check and of the probe.
        probe: The probe; None in a multi-agent world, or if the env cannot be stepped.
    """

    random: EvaluationResult | None = None
    elsewhere: EvaluationResult | None = None
    findings: Sequence[EnvFinding] = ()
    probe: Probe | None = None


def _played(
    view: RunView, trials: Sequence[TrialResult], specs: Mapping[str, Mapping[str, Any]], episodes: int
) -> PlayedEnv:
    """Evaluates random policies in the env of the first trial with results, and checks and probes that env."""
    played = [trial for trial in trials if trial.last_result and (trial.status != "ERROR" or has_diverged(trial))]
    if not played:
        return PlayedEnv()
    follow_import_paths(view.table.import_paths)
    has_ends = any(trial.last_result.get(name) is not None for trial in played for name in RETURNS)
    return _play(specs[played[0].name], episodes if has_ends else 0)


def trials_text(trials: Sequence[TrialResult]) -> str:
    """Number of trials as text, with the statuses of incomplete trials: "3 trials (1 running)"."""
    counts = Counter(trial.status.lower() for trial in trials if not is_complete(trial.status))
    open_ones = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{len(trials):,} trial{'s' * (len(trials) != 1)}{f' ({open_ones})' if open_ones else ''}"


def _policies(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the policies of a multi-agent world that learn; ("",) in a single-agent env."""
    if not names_world(spec.get("env")):
        return ("",)
    return tuple(spec.get("train") or spec.get("policies") or (DEFAULT_POLICY,))


def _evidence(trial: TrialResult, spec: Mapping[str, Any], played: PlayedEnv, policy: str, *, reads: bool) -> Evidence:
    random = played.random
    own = spec["policies"][policy] if spec.get("policies") else spec
    config = {**own["config"], **spec["config"]}  # a world's `config` holds the collection settings of all its policies
    compared = random.policies.get(policy) if random is not None and policy else random
    recorded = data_returns(config) if reads else None
    return Evidence(trial, config, compared, policy, own["algorithm"], recorded, played.probe)


def _env_to_play(spec: Mapping[str, Any]) -> Any:
    """Env of a trial as written in its spec; for a trial without one, the env of its evaluations, or None."""
    is_there = env_title(spec["env"]) != WITHOUT_ENV_TITLE
    return spec["env"] if is_there else (spec.get("evaluation") or {}).get("env")


def _diagnose_policies(
    evidence: Mapping[str, list[Evidence]], env: Sequence[EnvFinding], kinds: Sequence[Finding]
) -> list[Finding]:
    """Findings of each policy, with env findings on its agents, followed by the findings on the world."""
    if len(evidence) == 1:
        return diagnose(next(iter(evidence.values())), env, kinds)
    findings = [*kinds]
    for policy, own in evidence.items():
        prefix = f"{policy}: "
        of_policy = [replace(one, topic=one.topic.removeprefix(prefix)) for one in env if one.topic.startswith(prefix)]
        findings += [replace(one, name=f"{prefix}{one.name}") for one in diagnose(own, of_policy)]
        env = [one for one in env if not one.topic.startswith(prefix)]
    return [*findings, *diagnose([], env)]


def _play(spec: Mapping[str, Any], episodes: int) -> PlayedEnv:
    """Evaluates random policies in an env (unless `episodes` is 0), and checks and probes the env."""
    policies = Policies.from_data(spec)
    env = EnvConfig.parse(_env_to_play(spec))
    findings = check_by_stepping(env, policies.agent_mapping(), policies.slots, steps=ENV_STEPS)
    found = probe_of(env, findings, steps=ENV_STEPS)
    return PlayedEnv(
        _random_policy(env, policies, episodes),
        _random_policy(EnvConfig.parse(spec["evaluation"]["env"]), policies, episodes) if is_elsewhere(spec) else None,
        [*findings, *([] if found is None else found.findings)],
        found,
    )


def _random_policy(env: EnvConfig, policies: Policies, episodes: int) -> EvaluationResult | None:
    """Evaluation of random policies in an env; None without episodes."""
    mapping = policies.agent_mapping()
    behaviors = {name: RandomBehavior(spaces) for name, spaces in spaces_of_policies(env, mapping).items()}
    return evaluate(behaviors, env, episodes, seed=0, mapping=mapping, slots=policies.slots) if episodes else None
