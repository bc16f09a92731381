"""Negative control of a regression test: the same experiment with frozen policies, which must miss the targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.rollout.evaluation import EvaluationResult
from rlrun.engine.settings.metric import of_policy
from rlrun.experiments.spec.expansion import filled
from rlrun.experiments.spec.experiment import AGAINST_METRICS, Experiment
from rlrun.experiments.spec.loggers import LoggersConfig
from rlrun.experiments.spec.search_space import find_spaces

CONTROL_ITERATIONS = 3
"""Iterations of a control whose targets are evaluation metrics: enough for the observation filter's moments, while a
frozen policy does not change."""


def frozen(experiment: Experiment) -> Experiment:
    """Copy of an experiment whose policies keep their initial parameters.

    All learning rates are 0, even searched ones; there is no scheduler and no logger. If all targets are evaluation
    metrics, the copy runs for `CONTROL_ITERATIONS` iterations. Otherwise it runs as long as the experiment, so that
    training metrics have values.

    Args:
        experiment: The experiment, with `expect`.
    """
    still = {place: _still(config) for place, config in experiment.settings.items()}
    template = filled(
        experiment.template,
        {(*place, name): value for place, own in still.items() for name, value in own.items()},
    )
    draws = any(not space.is_grid for space in find_spaces(template)[0].values())
    stop = experiment.stop.bounds
    evaluated = evaluated_metrics(experiment.learns.reported_policies(experiment.env)) | {
        metric.name for metric in AGAINST_METRICS
    }
    if experiment.expect is not None and experiment.expect.metrics.keys() <= evaluated:
        stop["iteration"] = min(stop.get("iteration", CONTROL_ITERATIONS), CONTROL_ITERATIONS)
    return as_control(experiment).replace(
        template=template,
        config=experiment.config.replace(**still.get(("config",), {})),
        policies={
            name: policy.replace(config=policy.config.replace(**still["policies", name, "config"]))
            for name, policy in experiment.policies.items()
        },
        stop=experiment.stop.replace(**stop),
        num_samples=experiment.num_samples if draws else 1,
        scheduler=None,
    )


def as_control(experiment: Experiment) -> Experiment:
    """Copy of an experiment as a part of a control, named as one, after the control of the stage before; no loggers.

    Args:
        experiment: The experiment.
    """
    begins = experiment.begins
    return experiment.replace(
        name=control_name(experiment.name),
        begins=begins and begins.replace(after=control_name(begins.after)),
        loggers=LoggersConfig(),
    )


def control_name(name: str) -> str:
    """Name of an experiment in a control."""
    return f"{name}-control"


def _still(config: AlgorithmConfig) -> dict[str, Any]:
    """Settings of an algorithm that freeze all parameters."""
    rates = [name for name in type(config).model_fields if name == "lr" or name.endswith("_lr")]
    return {**dict.fromkeys(rates, 0.0), "compile": False}  # not worth it for a few updates


def metrics_of(result: EvaluationResult) -> dict[str, float]:
    """Metrics of an evaluation, each under its name in training and with the prefix ``evaluation/``."""
    values = {
        "episode_return_mean": result.mean,
        "episode_return_std": result.std,
        "episode_return_min": result.min,
        "episode_return_max": result.max,
        "episode_len_mean": result.len_mean,
        **result.column_means,
    }
    for policy, own in result.policies.items():
        if own.returns:
            values[of_policy(policy, "episode_return_mean")] = own.mean
    return values | {f"evaluation/{name}": value for name, value in values.items()}


def evaluated_metrics(policies: Iterable[str] = ()) -> set[str]:
    """Names of an evaluation's metrics, including those of each policy of a multi-agent world."""
    one = EvaluationResult([0.0], [1])
    return set(metrics_of(EvaluationResult([0.0], [1], dict.fromkeys(policies, one))))
