"""Periodic evaluation of a trial on a fixed set of episodes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.league.ratings import total
from rlrun.engine.rollout.evaluation import EvaluationResult, column_metric, interval_gap
from rlrun.engine.settings.metric import Metric, of_policy
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.act.played_episodes import episodes_as_text
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.experiment import (
    AGAINST_METRICS,
    EVALUATION_KEYS,
    GAME_ORACLE_METRICS,
    ORACLE_METRICS,
    OTHER_KIND_GAP,
    EvaluationConfig,
    TrialSpec,
)
from rlrun.experiments.trial.results import RETURN
from rlrun.experiments.trial.trial_directory import TrialDirectory

LEARNED_VALUES, EXPLOITABILITY = "rlrun.exact.oracle:learned_values", "rlrun.exact.exploitability:exploitability"
"""Import paths of exact solutions: of finite MDPs, and of games of two players."""

EVALUATION = "evaluation/"
"""Prefix of the names of evaluation metrics."""


def evaluate_and_record(
    training: Training, trial: TrialSpec, files: TrialDirectory, *, is_last: bool
) -> dict[str, Any]:
    """Evaluates the policies if an evaluation is due, then calls the hooks and writes pictures and episodes.

    Args:
        training: The training.
        trial: The trial with its evaluation settings.
        files: The trial's directory.
        is_last: Whether this iteration is the trial's last.

    Returns:
        Metrics for the iteration's result, including metrics from hooks.
    """
    result = evaluated(training, trial, is_last=is_last)
    if result.get(f"{EVALUATION}{RETURN}") is None:
        return result
    hooks = training.running.hooks
    if hooks is not None:
        found = {name: value for name, value in result.items() if name.startswith(EVALUATION)}
        result |= hooks.on_evaluation(training.iteration, found)
    for policy, picture in pictures(training).items():
        files.write_picture(policy, picture)
    if texts := shown_episodes(training, trial):
        files.write_episodes(texts)
    return result


def evaluated(training: Training, trial: TrialSpec, *, is_last: bool) -> dict[str, Any]:
    """Evaluates the policies if an evaluation is due after this iteration, or if this iteration is the last.

    Args:
        training: The training.
        trial: The trial with its evaluation settings.
        is_last: Whether this iteration is the trial's last.

    Returns:
        Metrics for the iteration's result; {} for a trial without evaluations. If no evaluation is due, all metrics are
        None, except that metrics from infos are left out, since their names are known only from episodes.
    """
    evaluation = trial.evaluation
    if evaluation is None:
        return {}
    other = training.acting.other_kind(env=evaluation.env)
    policies = training.description.policies.reported_policies(evaluation.env or training.description.env)
    if training.iteration % evaluation.every and not is_last:
        keys = _names(policies, (evaluation.env or training.description.env).columns)
        names = [f"{EVALUATION}{name}" for name in keys]
        if other is not None:
            names += [f"{EVALUATION}{other}/{name}" for name in (*keys, OTHER_KIND_GAP)]
        if evaluation.against is not None:
            names += [metric.name for metric in AGAINST_METRICS]
        if evaluation.oracle:
            names += [metric.name for metric in _oracle_metrics(training)]
        return {**dict.fromkeys(names), "time/evaluation_s": 0.0}
    began = time.perf_counter()
    seed = child_seed(trial.seed, "evaluation")
    found = training.evaluate(evaluation.episodes, seed=seed, env=evaluation.env)
    measured = _measured(found, policies)
    of_other = training.acting.evaluate_other_kind(evaluation.episodes, seed=seed, env=evaluation.env)
    if of_other is not None:
        compared = {**_measured(of_other, policies), OTHER_KIND_GAP: interval_gap(found, of_other)}
        measured |= {f"{other}/{name}": value for name, value in compared.items()}
    return {
        **{f"{EVALUATION}{name}": value for name, value in measured.items()},
        **_against(training, trial, evaluation),
        **(_oracle(training) if evaluation.oracle else {}),
        "time/evaluation_s": time.perf_counter() - began,
    }


def _names(policies: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Names of an evaluation's metrics, without prefix, in the order of `_measured`; without those of infos."""
    keys = [*EVALUATION_KEYS, *map(column_metric, columns)]
    for policy in policies:
        keys += [of_policy(policy, RETURN), *(of_policy(policy, column_metric(name)) for name in columns)]
    return keys


def _measured(found: EvaluationResult, policies: Iterable[str]) -> dict[str, float | None]:
    """Metrics of an evaluation, without prefix; None for a policy none of whose agents appeared."""
    values: tuple[float | None, ...] = (found.mean, found.std, found.min, found.max, found.len_mean)
    measured: dict[str, float | None] = dict(zip(EVALUATION_KEYS, values, strict=True))
    measured |= found.column_means | found.info_means
    for policy in policies:
        own = found.policies[policy]
        measured[of_policy(policy, RETURN)] = own.mean if own.returns else None
        for name, sums in own.columns.items():
            measured[of_policy(policy, column_metric(name))] = float(np.mean(sums)) if sums else None
        measured |= {of_policy(policy, name): value for name, value in own.info_means.items()}
    return measured


def pictures(training: Training) -> dict[str, str]:
    """Renders the learned policies as SVG images, by policy name, for algorithms that support this."""
    algorithms = training.description.policies.algorithms
    drawn = {trainee.name: algorithms[trainee.name].picture(trainee) for trainee in training.running.trainees}
    return {name: picture for name, picture in drawn.items() if picture is not None}


def shown_episodes(training: Training, trial: TrialSpec) -> list[str]:
    """Sample episodes as text: the first `evaluation.show` episodes of each evaluation."""
    evaluation = trial.evaluation
    if evaluation is None or not evaluation.show:
        return []
    world = evaluation.env or training.description.env.in_evaluation()
    seed = child_seed(trial.seed, "evaluation")
    return episodes_as_text(training.acting.policy(), world, evaluation.show, seed)


def _against(training: Training, trial: TrialSpec, evaluation: EvaluationConfig) -> dict[str, float | None]:
    """Win, draw and loss rates against the opponent of `evaluation.against`; {} without one."""
    if evaluation.against is None:
        return {}
    seed = child_seed(trial.seed, "evaluation")
    sides = training.games.play(evaluation.against, evaluation.episodes, seed=seed)
    values: dict[str, float | None] = dict.fromkeys(metric.name for metric in AGAINST_METRICS)
    for prefix, own in {"": total(sides.values()), **{f"{side}/": own for side, own in sides.items()}}.items():
        rates = {
            "win_rate": own.wins,
            "draw_rate": own.draws,
            "loss_rate": own.losses,
            "unbeaten_rate": own.wins + own.draws,
        }
        values |= {f"{EVALUATION}against/{prefix}{rate}": number / own.games for rate, number in rates.items()}
    return values


def _oracle_metrics(training: Training) -> tuple[Metric, ...]:
    return GAME_ORACLE_METRICS if training.description.env.has_many_agents else ORACLE_METRICS


def _oracle(training: Training) -> dict[str, float]:
    """Errors of the learned values and policies against exact values, or exploitability (`evaluation.oracle`)."""
    values: tuple[float, float]
    if training.description.env.has_many_agents:
        gain = load_internal(EXPLOITABILITY)(training)
        values = gain, -gain
    else:
        learned = load_internal(LEARNED_VALUES)(training)
        values = learned.value_gap, learned.policy_gap
    return dict(zip((metric.name for metric in _oracle_metrics(training)), values, strict=True))
