"""Diagnosis checks that look at evaluations: greedy versus sampled actions, and evaluations in a different env."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlrun.engine.data.action_kind import other_kind
from rlrun.engine.rollout.evaluation import EvaluationResult
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.titles import WITHOUT_ENV_TITLE, env_title
from rlrun.report.action_kinds import differing_kinds
from rlrun.report.diagnosis.evidence import RETURNS, Evidence
from rlrun.report.diagnosis.finding import Finding, number_text

LENGTHS = tuple(f"evaluation/{kind}episode_len_mean" for kind in ("", "sampled/", "greedy/"))
"""Mean lengths of evaluation episodes: with the judged kind of actions, and with the other one."""
LOOPS = 1.5
"""Ratio of greedy to sampled episode lengths above which greedy actions are taken to loop."""
TRANSFERRED = 0.5
"""Fraction of the gain in training that a policy must also gain in evaluations."""


def kinds_differ(trials: Iterable[TrialResult]) -> list[Finding]:
    """Finding that greedy and sampled actions have different returns, unless greedy episodes loop (`greedy_loops`).

    The finding gives the numbers of the first affected trial.

    Args:
        trials: The trials, with the columns `KIND_METRICS`.
    """
    found = {
        trial.name: kinds
        for trial in trials
        if (kinds := differing_kinds(trial.final)) is not None and not _loops(trial)
    }
    if not found:
        return []
    first = next(iter(found.values()))
    better = first.judged if first.mean > first.other_mean else other_kind(first.judged)
    if better == "sampled":
        reason = "greedy actions can loop between states that look alike, or in which no action is preferred yet"
        more = "a recurrent policy (config.model.core: gru)"
    else:
        reason = "the policy still explores: it often samples actions that it does not prefer"
        more = "a longer run, or a smaller entropy bonus (config.entropy_coeff)"
    advice = more if better == first.judged else f"evaluation.actions: {better}, or {more}"
    return [Finding("greedy and sampled actions differ", first.text, reason, advice, tuple(found))]


def greedy_loops(trials: Iterable[TrialResult]) -> list[Finding]:
    """Finding that greedy episodes are longer than sampled ones and return less, as if stuck in a loop."""
    found = [trial for trial in trials if _loops(trial)]
    if not found:
        return []
    kinds = differing_kinds(found[0].final)
    greedy, sampled = _lengths(found[0], "greedy"), _lengths(found[0], "sampled")
    text = "" if kinds is None else f"{kinds.text}; "
    text += f"greedy episodes have {number_text(greedy)} steps, sampled ones {number_text(sampled)}"
    reason = "greedy actions go around in states that look alike, or in which no action is preferred yet"
    advice = (
        "a recurrent policy (config.model.core: gru), observations that tell the states apart, or "
        "evaluation.actions: sampled"
    )
    return [Finding("greedy loops", text, reason, advice, tuple(trial.name for trial in found))]


def _loops(trial: TrialResult) -> bool:
    kinds = differing_kinds(trial.final)
    if kinds is None:
        return False
    is_worse = (kinds.mean < kinds.other_mean) == (kinds.judged == "greedy")
    return is_worse and _lengths(trial, "greedy") > LOOPS * _lengths(trial, "sampled") > 0


def _lengths(trial: TrialResult, kind: str) -> float:
    """Mean length of evaluation episodes with one kind of actions, 0 if unknown."""
    own = trial.final(f"evaluation/{kind}/episode_len_mean")
    return float(own if own is not None else trial.final("evaluation/episode_len_mean") or 0.0)


def is_elsewhere(spec: Mapping[str, Any]) -> bool:
    """Whether a trial is evaluated in a different env from the one it is trained in."""
    env = (spec.get("evaluation") or {}).get("env")
    return env is not None and env_title(spec["env"]) != WITHOUT_ENV_TITLE and env != spec["env"]


def evaluated_elsewhere(
    evidence: Sequence[Evidence], specs: Mapping[str, Mapping[str, Any]], random: EvaluationResult | None
) -> list[Finding]:
    """Finding that a policy has learned, but gains little in its evaluations, which use a different env.

    Args:
        evidence: The policy in each trial.
        specs: Spec of each trial, by name.
        random: Evaluation of a random policy in the evaluation env; None if there is none.
    """
    found = []
    for one in evidence:
        gain = one.end(*RETURNS) - one.baseline
        there = one.end(RETURNS[1]) - (one.baseline if random is None else random.mean)
        if is_elsewhere(specs[one.trial.name]) and one.has_learned and there < TRANSFERRED * gain:
            found.append(one)
    if not found:
        return []
    first = found[0]
    spec = specs[first.trial.name]
    changed = [key for key, value in spec["evaluation"]["env"].items() if spec["env"].get(key) != value]
    text = f"evaluations return {number_text(first.end(RETURNS[1]))}, training {number_text(first.end(*RETURNS))}; "
    text += f"evaluation.env differs from env in {', '.join(changed)}"
    reason = "evaluations judge the policy in an env that it was not trained in"
    advice = "evaluation.env: null, or the same wrappers and kwargs as in env"
    return [Finding("evaluation in another env", text, reason, advice, tuple(one.trial.name for one in found))]
