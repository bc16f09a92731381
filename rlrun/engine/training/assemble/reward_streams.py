"""Assembly of additional reward streams (intrinsic rewards and constraint costs): networks, objectives, operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.constraint import LagrangianAdvantages
from rlrun.engine.flow.operators.curiosity import IntrinsicRewards
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.assemble.custom_operators import custom_operator
from rlrun.engine.training.assemble.metric_table import check_operator_metrics
from rlrun.engine.training.assemble.plugin_results import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.algorithm_config import AlgorithmConfig
    from rlrun.engine.data.sample_batch import SampleBatch
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.learner.objective import Loss, Objective
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.reward_streams.curiosity import CuriousOutputs


def with_curiosity(policy: Policy, algorithm: Algorithm[Any], spaces: Spaces, seed: int) -> Policy:
    """Adds curiosity networks to an actor-critic policy; returns the policy unchanged if curiosity is disabled.

    Args:
        policy: The algorithm's policy.
        algorithm: The algorithm.
        spaces: Observation and action space.
        seed: Seed of the networks' initial parameters.

    Raises:
        UsageError: Additional reward streams are configured, but the policy lacks value heads for them.
    """
    heads, curiosity = algorithm.config.value_heads, algorithm.config.reward_streams.curiosity
    if not heads:
        return policy
    from rlrun.engine.policy.actor_critic import ActorCriticPolicy
    from rlrun.engine.reward_streams.curiosity import CuriousPolicy

    if not isinstance(policy, ActorCriticPolicy) or policy.streams != heads:
        raise UsageError(
            f"{algorithm.name()}: curiosity and constraint need a policy with value heads of their own, and a "
            f"{type(policy).__name__} has none: leave them out"
        )
    if curiosity is None:
        return policy
    return CuriousPolicy(policy, spaces.observation, spaces.action, curiosity, seed)


def objectives_of_curiosity(config: AlgorithmConfig) -> list[Objective]:
    """Training objective of the curiosity networks; empty for kinds of curiosity without trained networks.

    Args:
        config: The algorithm's settings.
    """
    curiosity = config.reward_streams.curiosity
    if curiosity is None:
        return []
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.reward_streams.curiosity import KINDS, LEARNED

    if not KINDS[curiosity.kind].learns:
        return []
    every, bound = curiosity.learn_every, config.max_grad_norm
    return [Objective("curiosity", novelty_loss, parameters=LEARNED, every=every, max_grad_norm=bound)]


def novelty_loss(outputs: CuriousOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
    """Masked mean of the curiosity networks' loss over sequences [S, L]."""
    from rlrun.engine.learner.objective import Loss

    loss = masked_mean(outputs.novelty_losses(), batch["valid"].float())
    return Loss(total=loss, statistics={"loss": loss})


def learning(algorithm: Algorithm[Any], items: Flow[Any], trainee: Trainee) -> Flow[Any]:
    """Builds an algorithm's learning dataflow, with operators for reward streams and those of `before_learning`.

    Intrinsic rewards are computed on the workers' fragments before `learn`, and so are visible to the user's operators.
    The Lagrangian follows `ConcatBatches`, since its multiplier is updated once per batch.

    Args:
        algorithm: The algorithm.
        items: Stream of the experience to learn from.
        trainee: The trainee.

    Raises:
        UsageError: A constraint is set, and the dataflow does not contain exactly one `ConcatBatches`.
    """
    streams = algorithm.config.reward_streams
    if streams.curiosity is not None:
        items = items.zip_with_worker().for_each(IntrinsicRewards(trainee, streams.curiosity))
    for plugin in algorithm.config.before_learning:
        ((path, settings),) = plugin.items()
        items = items.for_each(custom_operator(path, settings, trainee))
    learned: Flow[Any] = require(algorithm.learn(items, trainee), Flow, algorithm, "learn")
    check_operator_metrics(algorithm, learned.declared_metrics())
    if (bound := streams.constraint) is None:
        return learned
    placed = learned.with_step_after(
        ConcatBatches, LagrangianAdvantages(bound.column, bound.limit, bound.multiplier_lr)
    )
    if placed is None:
        raise UsageError(
            f"constraint: its multiplier follows ConcatBatches, which {algorithm.name()} does not have in one place: "
            "leave constraint out"
        )
    return placed
