"""Table of all metrics in a training run's results, collected from the declarations of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.metric import Metric, of_policy
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.training.assemble.policies import Policies

FURTHER = {
    "custom operator": "rlrun.engine.training.assemble.custom_operators:custom_operator_class",
    "hooks": "rlrun.engine.hook:hook_metrics",
    "league": "rlrun.engine.league.league:LEAGUE_METRICS",
}
"""Import paths of functions that declare the metrics of only some trainings."""

EPISODE_METRICS = (
    Metric("episodes", "episodes", "Episodes finished so far"),
    Metric(
        "episode_return_mean",
        "",
        "Mean raw return of the last 100 finished episodes; null before the first",
        mode="max",
    ),
    Metric("episode_return_min", "", "Lowest raw return of those episodes", mode="max"),
    Metric("episode_return_max", "", "Highest raw return of those episodes", mode="max"),
    Metric("episode_len_mean", "env steps", "Mean length of the last 100 finished episodes"),
    Metric("episode_columns/<name>_mean", "", "Mean sum of a column of `env.columns` over the last 100 episodes"),
    Metric("info/<name>", "", "Mean of a number in the info of an episode's last step, over the last 100 episodes"),
)
"""Metrics of finished episodes."""

TRAINING_METRICS = (
    Metric("iteration", "iterations", "Iterations so far"),
    Metric("env_steps", "env steps", "Env steps so far"),
    Metric("agent_steps", "agent steps", "Steps of the policy's agents so far; equals env_steps in single-agent envs"),
    Metric("sgd_steps", "minibatches", "Minibatches processed so far"),
    *EPISODE_METRICS,
    Metric("env_steps_per_s", "env steps/s", "Env steps per second in this iteration"),
    Metric("policy_lag_mean", "updates", "Mean age, in updates, of the weights that collected the training data"),
    Metric("policy_lag_max", "updates", "Maximum age of those weights"),
    Metric("time_this_iter_s", "s", "Seconds of this iteration, and of the evaluation and checkpoint before it"),
    Metric("time_total_s", "s", "Seconds of all iterations"),
    Metric("weights_version", "updates", "Version of the weights, as the number of updates so far"),
    Metric("worker_restarts", "workers", "Rollout workers that were restarted, and restarts of the inference server"),
    Metric("time/<operator>_s", "s", "Seconds spent in a dataflow operator in this iteration"),
    Metric("time/learner_wait_share", "", "Fraction of the iteration during which the learner waited for data"),
)
"""Metrics that every training in a single-agent env reports."""

LOST_STEPS = Metric("lost_steps", "steps", "Steps chosen by the inference server for fragments lost with their worker")
"""Metric of trainings with an inference server."""

_OWN_OF_A_POLICY = ("policy_lag_mean", "policy_lag_max", "weights_version")
"""Names of the metrics that are reported per policy instead of globally in multi-agent worlds."""

WORLD_METRICS = (
    *(metric for metric in TRAINING_METRICS if metric.name not in _OWN_OF_A_POLICY and metric.name != "agent_steps"),
    Metric("agent_steps", "agent steps", "Steps of all agents so far"),
    Metric("missing_final_observations", "agents", "Agents so far that were truncated without a final observation"),
    Metric(
        "dropped_rewards",
        "rewards",
        "Rewards so far that belong to no return, because their agent had ended or never appeared",
    ),
    Metric(
        "agents/<agent>/episode_return_mean", "", "Mean return per agent over 100 episodes, for up to 32 agents", "max"
    ),
)
"""Metrics of a training run in a multi-agent world as a whole; a world's return is the sum over all agents."""

POLICY_METRICS = (
    Metric("agent_steps", "agent steps", "Steps of the policy's agents so far"),
    Metric("sgd_steps", "minibatches", "Minibatches processed by the policy so far"),
    *EPISODE_METRICS,
    *(metric for metric in TRAINING_METRICS if metric.name in _OWN_OF_A_POLICY),
)
"""Metrics of each policy of a multi-agent world, below `policies/<name>/`; the episodes are its agents' episodes."""


def metric_table(
    policies: Policies,
    hooks: Sequence[Mapping[str, Mapping[str, Any]]] = (),
    *,
    has_many_agents: bool,
) -> list[Metric]:
    """Returns all metrics that a training run's results may have, without creating the training.

    Args:
        policies: The policies, whose algorithms declare metrics.
        hooks: Settings of each hook by its import path; hooks declare metrics too.
        has_many_agents: Whether the policies learn in a multi-agent world, with metrics per policy.

    Raises:
        UsageError: Two parts of an algorithm declare metrics with equal names.
    """
    table = [*WORLD_METRICS] if has_many_agents else []
    for policy, algorithm in policies.sampling_together().items():
        common = POLICY_METRICS if has_many_agents else TRAINING_METRICS
        own = _without_duplicates([*common, *_learned(algorithm)], algorithm)
        table += [metric.below(of_policy(policy)) for metric in own] if has_many_agents else own
    if policies.sampling.is_served:
        table.append(LOST_STEPS)
    if policies.seats:
        table += load_internal(FURTHER["league"])
    return [*table, *load_internal(FURTHER["hooks"])(hooks)] if hooks else table


def _learned(algorithm: Algorithm[Any]) -> list[Metric]:
    """Returns the metrics of an algorithm's losses, schedules and operators."""
    fields = type(algorithm.config).model_fields
    scheduled = [
        Metric(name, "", f"Current value of the setting {name}. {fields[name].description or ''}".strip())
        for name in algorithm.config.scheduled_fields()
    ]
    return [
        *(metric.below("learner/") for metric in (*algorithm.learner_metrics, *scheduled)),
        *operator_metrics(algorithm),
    ]


def operator_metrics(algorithm: Algorithm[Any]) -> list[Metric]:
    """Returns the metrics of an algorithm's operators, including users' operators that its settings insert."""
    config, streams = algorithm.config, algorithm.config.reward_streams
    own: list[Metric] = [] if streams.curiosity is streams.constraint is None else [*streams.metrics]
    for plugin in config.before_learning:
        ((path, settings),) = plugin.items()
        own += load_internal(FURTHER["custom operator"])(path, settings).declared_metrics
    return [*own, *algorithm.operator_metrics]


def check_operator_metrics(algorithm: Algorithm[Any], declared: Sequence[Metric]) -> None:
    """Validates that an algorithm declares all metrics that the operators of its dataflow report.

    Args:
        algorithm: The algorithm.
        declared: Metrics that the operators declare.

    Raises:
        UsageError: Some metrics are not declared.
    """
    named = operator_metrics(algorithm)
    if missing := [metric.name for metric in declared if metric not in named]:
        raise UsageError(
            f"{algorithm.name()}: dataflow operators report {', '.join(missing)}; operator_metrics must "
            "include their declared_metrics"
        )


def _without_duplicates(table: list[Metric], algorithm: Algorithm[Any]) -> list[Metric]:
    names: set[str] = set()
    for metric in table:
        if metric.name in names:
            raise UsageError(f"{algorithm.name()}: two parts report a metric {metric.name!r}; rename one")
        names.add(metric.name)
    return table


def refuse_undeclared(names: Iterable[str], table: Sequence[Metric], policies: Policies) -> None:
    """Validates that all metrics in a result are declared.

    Stop conditions, the choice of the best checkpoint and hyperparameter searches rely on declarations.

    Args:
        names: Names of the metrics in results.
        table: Declared metrics.
        policies: The policies of the training.

    Raises:
        UsageError: Some metrics are undeclared; the message says where to declare them.
    """
    undeclared = sorted(name for name in names if not any(metric.matches(name) for metric in table))
    if not undeclared:
        return
    whose = next((policy for policy in policies.algorithms if undeclared[0].startswith(of_policy(policy))), None)
    algorithm = policies.first if whose is None else policies.algorithms[whose]
    first = undeclared[0].removeprefix(of_policy(whose or ""))
    raise UsageError(
        (
            f"{algorithm.name()} reports {', '.join(undeclared)}, which is not declared: "
            f"add Metric({first.removeprefix('learner/')!r}, unit, meaning) to "
        )
        + ("its learner_metrics" if first.startswith("learner/") else "the operator's declared_metrics")
    )
