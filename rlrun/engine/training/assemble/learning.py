"""Dataflow of one policy: the algorithm's dataflow with operators for additional rewards and users' operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.engine.flow.flow import Flow
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.assemble.metric_table import check_operator_metrics
from rlrun.engine.training.assemble.plugin_results import require

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.flow.trainee import Trainee

PARTS = {
    "constraint": "rlrun.engine.flow.operators.reward_streams:with_constraint",
    "curiosity": "rlrun.engine.flow.operators.reward_streams:IntrinsicRewards",
    "custom operator": "rlrun.engine.training.assemble.custom_operators:custom_operator",
}
"""Import paths of functions that add optional operators to a dataflow."""


def learning_alone(algorithm: Algorithm[Any], trainee: Trainee) -> Flow[Any]:
    """Builds the complete dataflow of a single policy, from its own rollouts or data to updates."""
    collected = require(algorithm.collect(trainee), Flow, algorithm, "collect")
    return learning(algorithm, collected, trainee)


def learning(algorithm: Algorithm[Any], items: Flow[Any], trainee: Trainee) -> Flow[Any]:
    """Builds an algorithm's dataflow, extended by operators for additional rewards and by users' operators.

    Intrinsic rewards are added to the workers' fragments before the algorithm's own operators, so users' operators see
    them. The operator for a cost constraint follows `ConcatBatches`, since it updates its Lagrange multiplier once per
    batch.

    Args:
        algorithm: The algorithm.
        items: Stream of the experience to learn from.
        trainee: The policy in training.

    Raises:
        UsageError: A constraint is set, and the dataflow does not contain exactly one `ConcatBatches`.
    """
    streams = algorithm.config.reward_streams
    if streams.curiosity is not None:
        items = items.zip_with_worker().for_each(load_internal(PARTS["curiosity"])(trainee, streams.curiosity))
    for plugin in algorithm.config.before_learning:
        ((path, settings),) = plugin.items()
        items = items.for_each(load_internal(PARTS["custom operator"])(path, settings, trainee))
    learned: Flow[Any] = require(algorithm.learn(items, trainee), Flow, algorithm, "learn")
    check_operator_metrics(algorithm, learned.declared_metrics())
    if streams.constraint is not None:
        learned = load_internal(PARTS["constraint"])(learned, streams.constraint, algorithm.name())
    return learned
