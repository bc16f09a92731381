"""Diagnosis of a run: the findings of all checks on its trials, env and seeds.

A finding is a suspicion, not a proof. Metrics at the beginning or end of a run are means over a tenth of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlrun.engine.envs.env_findings import EnvFinding
from rlrun.engine.envs.probes.hidden_state import HIDDEN, HIDDEN_CLOCK, LATE
from rlrun.experiments.runs.outcome import resume_command
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.trial.divergence import DIVERGED
from rlrun.report.configurations import configurations
from rlrun.report.diagnosis.causes import CERTAIN_CAUSES, LIKELY_CAUSES
from rlrun.report.diagnosis.evidence import LOST, RETURNS, Evidence
from rlrun.report.diagnosis.finding import (
    CLIPPED_GRADIENTS,
    LARGER_BATCH,
    SCALED_OBSERVATIONS,
    SCALED_REWARDS,
    SMALLER_LR,
    Finding,
    Remedy,
    advised,
    number_text,
)
from rlrun.report.diagnosis.symptoms import SYMPTOMS

EXPLAINING = (
    *("does not learn", "no episode ends", "learning has not started", "zero learning rate", "workers restarted"),
    *("few updates", "no gradient", "all returns equal"),
)
"""Causes that explain all unusual metrics of a trial."""

REMEMBERED = (HIDDEN, HIDDEN_CLOCK, LATE)
"""Topics of the env check for which a recurrent policy compensates."""


def diagnose(evidence: Sequence[Evidence], env: Sequence[EnvFinding], kinds: Sequence[Finding] = ()) -> list[Finding]:
    """Runs all checks of a diagnosis on one policy; returns the findings, the most likely causes first.

    Args:
        evidence: Metrics and settings of the policy in each trial; failed trials are skipped, since `failures` reports
            them.
        env: Findings from stepping the env.
        kinds: Findings on greedy versus sampled actions, which are listed before the symptoms.
    """
    configs = [one.config for one in evidence]
    is_recurrent = any(one.is_recurrent for one in evidence)
    evidence = [one for one in evidence if one.trial.status != "ERROR"]
    certain, likely = _found(CERTAIN_CAUSES, evidence), _found(LIKELY_CAUSES, evidence)
    explained = {name for cause in (*certain, *likely) if cause.name in EXPLAINING for name in cause.trials}
    symptoms = _found(SYMPTOMS, [one for one in evidence if one.trial.name not in explained])
    severe = [one for one in env if one.verdict == "wrong" or one.is_severe]
    severe = [one for one in severe if not (is_recurrent and one.topic in REMEMBERED)]
    if evidence and not any(one.descends_gradients for one in evidence):
        severe = [one for one in severe if one.topic != "rewards"]  # only gradients suffer from large rewards
    mild = [one for one in env if one.verdict == "note" and not one.is_severe]
    healthy = bool(evidence) and all(one.is_healthy for one in evidence)
    of_env = _of_env(configs, severe), [] if healthy else _of_env(configs, mild)
    return [*certain, *of_env[0], *likely, *kinds, *of_env[1], *symptoms, *_seeds_disagree(evidence)]


def failures(evidence: Sequence[Evidence]) -> list[Finding]:
    """Reports failed trials as findings: one for each error, and one for each process that ended without an exception.

    All trials that diverged (NaN or infinity) share one finding.
    """
    groups: dict[str, list[Evidence]] = {}
    for one in evidence:
        if one.trial.status == "ERROR":
            groups.setdefault(DIVERGED if has_diverged(one.trial) else one.trial.short_error, []).append(one)
    failed = [replace(_failed(group[0]), trials=tuple(one.trial.name for one in group)) for group in groups.values()]
    return failed + [_ended(one.trial) for one in evidence if one.trial.ended_in]


def has_diverged(trial: TrialResult) -> bool:
    """Whether a trial failed because of NaN or infinity in training."""
    return trial.status == "ERROR" and trial.error.startswith(DIVERGED)


def _failed(one: Evidence) -> Finding:
    reason = "training ended at this error; metrics from before it were not analyzed"
    if has_diverged(one.trial):
        smaller = [Remedy(rate, "{} divided by ten") for rate in ("lr", "critic_lr")]
        advice = advised(one.config, *smaller, CLIPPED_GRADIENTS, *SCALED_REWARDS, *SCALED_OBSERVATIONS)
    else:
        command = resume_command(one.trial.directory.parent, retry_failed=True)
        advice = f"fixing the cause (`rlrun show` prints the full error), then running: {command}"
    return Finding("failed", one.trial.short_error, reason, advice)


def _ended(trial: TrialResult) -> Finding:
    reason = (
        "no exception was raised: native code crashed, or the process was killed, for example because memory ran out"
    )
    advice = f"`rlrun env check`, to test the env alone, then: {resume_command(trial.directory.parent)}"
    return Finding("process ended", trial.ended_in, reason, advice, (trial.name,))


def _found(checks: Iterable[Callable[[Evidence], Finding | None]], evidence: Sequence[Evidence]) -> list[Finding]:
    """Runs checks over all trials; a finding has the numbers of the first trial, and the names of all."""
    found = []
    for check in checks:
        hits = [(hit, one.trial.name) for one in evidence if (hit := check(one)) is not None]
        if hits:
            found.append(replace(hits[0][0], trials=tuple(name for _, name in hits)))
    return found


def _of_env(configs: Sequence[Mapping[str, Any]], env: Iterable[EnvFinding]) -> list[Finding]:
    """Findings of the env check, without those that settings such as normalization already handle."""
    handled = {
        "rewards": all(map(_changes_rewards, configs)),
        "observations": all(config.get("normalize_observations") for config in configs),
    }
    scaled = {"rewards": SCALED_REWARDS, "observations": SCALED_OBSERVATIONS}
    found = []
    for one in env:
        if one.verdict == "wrong" or (one.verdict == "note" and not handled.get(one.topic, False)):
            names_setting = "config." in one.advice  # perhaps another algorithm's, since the env is checked for all
            advice = advised(configs[0], *scaled[one.topic]) if names_setting else one.advice
            found.append(Finding(f"env: {one.topic}", one.found, one.reason, advice))
    return found


def _changes_rewards(config: Mapping[str, Any]) -> bool:
    return bool(config.get("normalize_rewards") or config.get("clip_rewards") or config.get("reward_scale", 1.0) != 1)


def _seeds_disagree(evidence: Sequence[Evidence]) -> list[Finding]:
    """Findings on trials that differ only by their seed and reach very different returns."""
    numbered = {one.trial.name: one for one in evidence if one.values(*RETURNS).size}
    found = []
    for group in configurations((one.trial, one.trial.configuration) for one in numbered.values()):
        seeds = [numbered[trial.name] for trial in group]
        ends = [one.end(*RETURNS) for one in seeds]
        gain = max(ends, default=0.0) - seeds[0].baseline
        if len(seeds) > 1 and seeds[int(np.argmax(ends))].has_learned and max(ends) - min(ends) > LOST * gain:
            numbers = (
                f"final returns of {len(seeds)} seeds range from {number_text(min(ends))} to {number_text(max(ends))}"
            )
            reason = "the result of a single seed is a matter of luck: the settings work only for some initializations"
            advice = advised(
                seeds[0].config, SMALLER_LR, LARGER_BATCH, "more exploration", "ten seeds for a reliable result"
            )
            found.append(Finding("seeds disagree", numbers, reason, advice, tuple(one.trial.name for one in seeds)))
    return found
