"""Validation of metric names in a spec entry (stop, best, expect, scheduler, searcher)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rlrun.engine.envs.env_config import names_world
from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.messages.explain import Mistake, shown
from rlrun.engine.messages.foreign_names import other_metric
from rlrun.engine.settings.metric import Metric
from rlrun.engine.training.assemble.metric_table import metric_table
from rlrun.engine.training.assemble.policies import Policies
from rlrun.experiments.spec.experiment import (
    AGAINST_METRICS,
    EVALUATION_COLUMNS,
    EVALUATION_INFOS,
    EVALUATION_METRICS,
    GAME_ORACLE_METRICS,
    ORACLE_METRICS,
    OTHER_KIND_METRICS,
    ExpectConfig,
    policy_evaluation_metrics,
)
from rlrun.experiments.spec.named_metrics import as_section, metric_keys, metric_values
from rlrun.experiments.spec.stop_config import PLATEAU, StopConfig

_COUNTS = ("iteration", "env_steps", "agent_steps", "sgd_steps", "episodes")


def reported_metrics(
    learns: Policies, *, in_world: bool, hooks: Sequence[Mapping[str, Mapping[str, Any]]] = ()
) -> tuple[list[Metric], list[Metric]]:
    """Metrics that training reports, and metrics that evaluations report; starts neither processes nor envs.

    Args:
        learns: The policies.
        in_world: Whether the policies act in a multi-agent world.
        hooks: Settings of each hook, by import path.
    """
    measured = [*EVALUATION_METRICS, EVALUATION_COLUMNS, *OTHER_KIND_METRICS]
    if in_world:
        measured += [*policy_evaluation_metrics(learns.algorithms), *AGAINST_METRICS, *GAME_ORACLE_METRICS]
    else:
        measured += [EVALUATION_INFOS, *ORACLE_METRICS]
    return metric_table(learns, hooks, has_many_agents=in_world), measured


def check_metrics(
    data: Mapping[str, Any], learns: Policies, hooks: Sequence[Mapping[str, Mapping[str, Any]]] = ()
) -> list[Mistake]:
    """Validates that every metric named in a spec entry is reported by training.

    Args:
        data: The entry as written.
        learns: The policies, with default settings in place of invalid ones.
        hooks: Settings of each hook, by import path.

    Returns:
        Mistakes, with locations in the entry.
    """
    in_world = "policies" in data or names_world(data.get("env"))
    known, measured = reported_metrics(learns, in_world=in_world, hooks=hooks)
    known += _evaluated(data.get("evaluation"), measured)
    return [*_counts_without_step(data), *_plateau_without_mode(data, known), *_unknown_metrics(data, known, measured)]


def _evaluated(evaluation: Any, measured: Sequence[Metric]) -> list[Metric]:
    """Evaluation metrics that an entry requests, out of all that evaluations can measure."""
    if evaluation is None:
        return []
    asked = as_section(evaluation)
    left_out = OTHER_KIND_METRICS
    left_out += () if asked.get("against") is not None else AGAINST_METRICS
    left_out += () if asked.get("oracle") is True else (*ORACLE_METRICS, *GAME_ORACLE_METRICS)
    return [metric for metric in measured if metric not in left_out]


def _counts_without_step(data: Mapping[str, Any]) -> list[Mistake]:
    """Mistakes for stop criteria that a trial meets before its first step."""
    return [
        Mistake(("stop", metric), f"must be > 0, not {shown(value)}")
        for metric, value in as_section(data.get("stop")).items()
        if metric in _COUNTS and isinstance(value, int | float) and value <= 0
    ]


def _plateau_without_mode(data: Mapping[str, Any], known: Sequence[Metric]) -> list[Mistake]:
    """Mistakes for a plateau of a metric for which neither higher nor lower values are better in general."""
    plateau = as_section(as_section(data.get("stop")).get(PLATEAU))
    metric = plateau.get("metric")
    found = next((each for each in known if each.matches(metric)), None) if isinstance(metric, str) else None
    if found is None or found.mode is not None or plateau.get("mode") is not None:
        return []
    message = f"neither higher nor lower values of {metric} are always better: add mode: max or min"
    return [Mistake(("stop", PLATEAU), message)]


def _unknown_metrics(data: Mapping[str, Any], known: Sequence[Metric], measured: Sequence[Metric]) -> Iterator[Mistake]:
    """Yields a mistake for each metric that an entry names but that is not reported.

    Args:
        data: The entry as written.
        known: The metrics that are reported.
        measured: All metrics that evaluations can measure.
    """
    settings = {"stop": StopConfig.model_fields, "expect": ExpectConfig.model_fields}
    for location, metric in metric_keys(data):
        allowed = [*known, *(Metric(name, "", "") for name in settings[str(location[0])])]
        if message := _unknown_metric(metric, allowed, measured):
            yield Mistake(location, message, at_key=True)
    for location, metric in metric_values(data):
        if message := _unknown_metric(metric, known, measured):
            yield Mistake(location, message)


def check_metrics_of_any(data: Mapping[str, Any], candidates: Iterable[Policies]) -> list[Mistake]:
    """Validates that every metric named in a spec entry is reported by at least one of several candidate algorithms.

    Args:
        data: The entry as written.
        candidates: Possible policies of the entry, if its algorithm is ambiguous; at least one.

    Returns:
        Mistakes that all candidates have in common, with locations in the entry.
    """
    first, *others = [check_metrics(data, learns) for learns in candidates]
    wrong = [{mistake.location for mistake in other} for other in others]
    return [mistake for mistake in first if all(mistake.location in locations for locations in wrong)]


def _unknown_metric(metric: str, known: Sequence[Metric], measured: Sequence[Metric]) -> str:
    if any(each.matches(metric) for each in known):
        return ""
    if any(each.matches(metric) for each in OTHER_KIND_METRICS):
        _, kind, name = metric.split("/", 2)
        return f"'{metric}' cannot be a target: set evaluation.actions: {kind}, and use evaluation/{name}"
    if condition := _condition(metric, measured):
        return f"'{metric}' is reported only with {condition}"
    return f"unknown metric '{metric}'{_similar(metric, known)}"


def _condition(metric: str, measured: Sequence[Metric]) -> str:
    """The part of an evaluation that measures a metric; "" if none does."""
    exact = [each for each in measured if each in (*ORACLE_METRICS, *GAME_ORACLE_METRICS)]
    conditions: list[tuple[Sequence[Metric], str]] = [
        (AGAINST_METRICS, "an opponent: add against, such as random, to evaluation"),
        (exact, "exact values: add oracle: true to evaluation"),
        (measured, "an evaluation: add, for example, evaluation: {every: 10}"),
    ]
    return next((condition for metrics, condition in conditions if any(each.matches(metric) for each in metrics)), "")


def _similar(metric: str, known: Sequence[Metric]) -> str:
    """Hint at the reported metric that was most likely meant, or at all reported metrics."""
    names = [each.name for each in known if not each.is_pattern]
    alike = [name for name in names if name == f"{metric}_mean" or name.rpartition("/")[2] == metric]
    exact = other_metric(metric) or next(iter(alike), None)
    hint = f"; did you mean '{exact}'?" if exact else did_you_mean(metric, names)
    return hint or f"; must be one of: {', '.join(each.name for each in known)}"
