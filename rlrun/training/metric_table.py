"""All metrics of a training: what each part declares, in one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rlrun.errors import UsageError
from rlrun.metric import Metric

if TYPE_CHECKING:
    from rlrun.algorithm import Algorithm
    from rlrun.flow.flow import Flow

EPISODE_METRICS = (
    Metric("episodes", "episodes", "Episodes finished so far"),
    Metric("episode_return_mean", "", "Mean raw return of the last 100 finished episodes; null before the first"),
    Metric("episode_return_min", "", "Lowest raw return among them"),
    Metric("episode_return_max", "", "Highest raw return among them"),
    Metric("episode_len_mean", "env steps", "Mean length of the last 100 finished episodes"),
    Metric("info/<name>", "", "Mean of a number in the info of an episode's last step, over the last 100 episodes"),
)
"""What is reported of finished episodes."""

TRAINING_METRICS = (
    Metric("iteration", "iterations", "Iterations so far"),
    Metric("env_steps", "env steps", "Steps of the envs so far"),
    Metric("agent_steps", "agent steps", "Steps of the policy's agents so far; with one agent in each env, env_steps"),
    Metric("sgd_steps", "minibatches", "Minibatches learned from so far"),
    *EPISODE_METRICS,
    Metric("env_steps_per_s", "env steps/s", "Env steps a second in this iteration"),
    Metric("policy_lag_mean", "updates", "Mean age of the weights that collected what was learned from"),
    Metric("policy_lag_max", "updates", "Greatest age of those weights"),
    Metric("time_this_iter_s", "s", "Seconds of this iteration, and of the evaluation and checkpoint before it"),
    Metric("time_total_s", "s", "Seconds of all iterations"),
    Metric("weights_version", "updates", "Version of the weights: updates so far"),
    Metric("worker_restarts", "workers", "Rollout workers that were made anew"),
    Metric("time/<operator>_s", "s", "Seconds of an operator of the dataflow in this iteration"),
    Metric("time/learner_wait_share", "", "Part of the iteration for which the learner waited for data"),
)
"""What every training reports."""


def metric_table(algorithm: Algorithm[Any], flow: Flow[Any]) -> list[Metric]:
    """Returns every metric that results of an algorithm hold, in the order of the results.

    Args:
        algorithm: The algorithm with its settings.
        flow: Its dataflow, whose operators declare metrics of their own; a plan will do.

    Raises:
        UsageError: Two parts declare a metric of one name.
    """
    fields = type(algorithm.config).model_fields
    scheduled = [
        Metric(name, "", f"Present value of the setting {name}. {fields[name].description or ''}".strip())
        for name in algorithm.config.scheduled_fields()
    ]
    table = [
        *TRAINING_METRICS,
        *(metric.below("learner/") for metric in (*algorithm.learner_metrics, *scheduled)),
        *flow.declared_metrics(),
    ]
    names: set[str] = set()
    for metric in table:
        if metric.name in names:
            raise UsageError(f"{algorithm.name()}: two parts of it report a metric {metric.name!r}; rename one")
        names.add(metric.name)
    return table


def refuse_undeclared(names: Iterable[str], algorithm: Algorithm[Any], flow: Flow[Any]) -> None:
    """Refuses names of results that nobody declares, which neither `stop` nor `best` nor a search could use.

    Args:
        names: The names.
        algorithm: The algorithm.
        flow: Its dataflow.

    Raises:
        UsageError: There are such; it says where to declare them.
    """
    table = metric_table(algorithm, flow)
    undeclared = sorted(name for name in names if not any(metric.matches(name) for metric in table))
    if undeclared:
        own = [name.removeprefix("learner/") for name in undeclared]
        raise UsageError(
            f"{algorithm.name()} reports {', '.join(undeclared)}, which nobody declares: add "
            f"Metric({own[0]!r}, unit, meaning) to "
            + ("its learner_metrics" if undeclared[0].startswith("learner/") else "the operator's declared_metrics")
        )
