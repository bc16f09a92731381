"""Unit of a training run's progress: env steps, or SGD steps in offline training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ENV_STEPS, SGD_STEPS = "env_steps", "sgd_steps"

STEP_NAMES = {ENV_STEPS: "env steps", SGD_STEPS: "SGD steps"}
"""Metrics that count steps, in words."""


def counted_metric(results: Iterable[Mapping[str, Any]]) -> str:
    """Metric that counts the steps of a training run, given its result rows: SGD steps if there are no env steps.

    Examples:
        >>> counted_metric([{"env_steps": 0, "sgd_steps": 30}])
        'sgd_steps'
        >>> counted_metric([{"env_steps": 64, "sgd_steps": 30}, {}])
        'env_steps'
    """
    results = list(results)
    steps_no_env = not any(result.get(ENV_STEPS) for result in results)
    return SGD_STEPS if steps_no_env and any(result.get(SGD_STEPS) for result in results) else ENV_STEPS


def common_axis(results: Iterable[Mapping[str, Any]]) -> str:
    """Selects the x axis for learning curves of several runs: SGD steps if a run takes no env steps, else env steps.

    Examples:
        >>> common_axis([{"env_steps": 64, "sgd_steps": 30}, {"env_steps": 0, "sgd_steps": 30}, {}])
        'sgd_steps'
    """
    counted = {counted_metric([result]) for result in results}
    return SGD_STEPS if SGD_STEPS in counted else ENV_STEPS
