"""Validation of metric names in a spec entry (stop, best, expect, scheduler, searcher)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlrun.engine.envs.env_config import EnvConfig, names_world
from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.messages.explain import Location, Mistake, shown
from rlrun.engine.messages.foreign_names import other_metric
from rlrun.engine.settings.metric import Metric
from rlrun.engine.training.assemble.description import Description
from rlrun.engine.training.assemble.policies import Policies
from rlrun.experiments.spec.experiment import (
    AGAINST_METRICS,
    EVALUATION_COLUMNS,
    EVALUATION_METRICS,
    GAME_ORACLE_METRICS,
    ORACLE_METRICS,
    OTHER_KIND_METRICS,
    ExpectConfig,
    policy_evaluation_metrics,
)
from rlrun.experiments.spec.stop_config import PLATEAU, StopConfig

ANY_ENV = EnvConfig(id="CartPole-v1")
"""Placeholder env for metric names: an algorithm reports equal metrics in any env."""
ANY_WORLD = EnvConfig(world="any")
"""Placeholder multi-agent world for metric names."""
_COUNTS = ("iteration", "env_steps", "agent_steps", "sgd_steps", "episodes")


def reported_metrics(
    learns: Policies, *, in_world: bool, hooks: Sequence[Mapping[str, Mapping[str, Any]]] = ()
) -> tuple[list[Metric], list[Metric]]:
    """Names of the metrics that trainings and their evaluations report; no process or env is started.

    Args:
        learns: The policies.
        in_world: Whether the policies act in a multi-agent world.
        hooks: Settings of each hook by its import path.
    """
    measured = [*EVALUATION_METRICS, EVALUATION_COLUMNS, *OTHER_KIND_METRICS]
    if in_world:
        measured += [*policy_evaluation_metrics(learns.algorithms), *AGAINST_METRICS, *GAME_ORACLE_METRICS]
    else:
        measured += ORACLE_METRICS
    return Description(ANY_WORLD if in_world else ANY_ENV, learns, hooks=hooks).metrics(), measured


def check_metrics(
    data: Mapping[str, Any], learns: Policies, hooks: Sequence[Mapping[str, Mapping[str, Any]]] = ()
) -> list[Mistake]:
    """Validates that every metric named in a spec entry is reported.

    Args:
        data: The entry as written.
        learns: The policies, with default settings in place of wrong ones.
        hooks: Settings of each hook by its import path.

    Returns:
        Mistakes, with locations in the entry.
    """
    in_world = "policies" in data or names_world(data.get("env"))
    known, measured = reported_metrics(learns, in_world=in_world, hooks=hooks)
    evaluation = data.get("evaluation")
    if evaluation is not None:
        asked = evaluation if isinstance(evaluation, Mapping) else {}
        left_out = OTHER_KIND_METRICS
        left_out += () if asked.get("against") is not None else AGAINST_METRICS
        left_out += () if asked.get("oracle") is True else (*ORACLE_METRICS, *GAME_ORACLE_METRICS)
        known += [metric for metric in measured if metric not in left_out]
    sections = {key: data[key] for key in ("stop", "expect") if isinstance(data.get(key), Mapping)}
    used: list[tuple[Location, str]] = [
        ((key, metric), metric) for key, section in sections.items() for metric in section if metric != PLATEAU
    ]
    directionless: list[Mistake] = []
    plateau = sections.get("stop", {}).get(PLATEAU)
    if isinstance(plateau, Mapping) and isinstance(plateau.get("metric"), str):
        used.append((("stop", PLATEAU, "metric"), plateau["metric"]))
        found = next((each for each in known if each.matches(plateau["metric"])), None)
        if found is not None and found.mode is None and plateau.get("mode") is None:
            message = (
                f"higher values of {plateau['metric']} are not always better, nor lower ones: add mode: max or min"
            )
            directionless = [Mistake(("stop", PLATEAU), message)]
    checkpoint = data.get("checkpoint")
    if isinstance(checkpoint, Mapping) and isinstance(checkpoint.get("best"), str):
        used.append((("checkpoint", "best"), checkpoint["best"]))
    for key in ("scheduler", "searcher"):
        chosen = data.get(key)
        for kind, settings in chosen.items() if isinstance(chosen, Mapping) else ():
            if isinstance(settings, Mapping) and isinstance(settings.get("metric"), str):
                used.append(((key, kind, "metric"), settings["metric"]))
    zeros = [
        Mistake(("stop", metric), f"must be > 0, not {shown(value)}")
        for metric, value in sections.get("stop", {}).items()
        if metric in _COUNTS and isinstance(value, int | float) and value <= 0
    ]
    further = {"expect": ExpectConfig.model_fields, "stop": StopConfig.model_fields}
    allowed = {key: [*known, *(Metric(name, "", "") for name in names)] for key, names in further.items()}
    return (
        zeros
        + directionless
        + [
            Mistake(location, message, at_key=location[0] in sections and len(location) == 2)
            for location, metric in used
            if (message := _unknown_metric(metric, allowed.get(str(location[0]), known), measured))
        ]
    )


def check_metrics_of_any(data: Mapping[str, Any], candidates: Iterable[Policies]) -> list[Mistake]:
    """Validates that every metric named in a spec entry is reported by at least one of several candidates.

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
        return f"'{metric}' judges nothing: set evaluation.actions: {kind}, and name evaluation/{name}"
    if any(each.name == metric for each in AGAINST_METRICS):
        return f"'{metric}' is reported only with an opponent: add against, such as random, to evaluation"
    if any(each.name == metric for each in measured if each in (*ORACLE_METRICS, *GAME_ORACLE_METRICS)):
        return f"'{metric}' is reported only with exact values: add oracle: true to evaluation"
    if any(each.matches(metric) for each in measured):
        return f"'{metric}' is reported only with an evaluation: add for instance evaluation: {{every: 10}}"
    names = [each.name for each in known if not each.is_pattern]
    alike = [name for name in names if name == f"{metric}_mean" or name.rpartition("/")[2] == metric]
    exact = other_metric(metric) or next(iter(alike), None)
    hint = f"; did you mean '{exact}'?" if exact else did_you_mean(metric, names)
    return (
        f"no metric '{metric}' is reported{hint}"
        if hint
        else f"no metric '{metric}' is reported; there are: {', '.join(each.name for each in known)}"
    )
