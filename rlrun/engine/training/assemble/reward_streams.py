"""Networks and losses for intrinsic rewards (curiosity), and value heads for additional rewards (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.reward_streams.curiosity import KINDS, LEARNED, CuriousOutputs, CuriousPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.algorithm_config import AlgorithmConfig
    from rlrun.engine.data.sample_batch import SampleBatch
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy


def with_curiosity(policy: Policy, algorithm: Algorithm[Any], spaces: Spaces, seed: int) -> Policy:
    """Adds networks for intrinsic rewards to an actor-critic policy, if settings enable these rewards.

    Args:
        policy: The algorithm's policy.
        algorithm: The algorithm.
        spaces: Observation and action space.
        seed: Seed of the networks' initial parameters.

    Raises:
        UsageError: Additional reward streams are configured, but the policy lacks value heads for them.
    """
    heads, curiosity = algorithm.config.value_heads, algorithm.config.reward_streams.curiosity
    if not isinstance(policy, ActorCriticPolicy) or policy.streams != heads:
        raise UsageError(
            f"{algorithm.name()}: curiosity and constraint need a policy with separate value heads, which "
            f"{type(policy).__name__} does not have: leave them out"
        )
    if curiosity is None:
        return policy
    return CuriousPolicy(policy, spaces.observation, spaces.action, curiosity, seed)


def objectives_of_curiosity(config: AlgorithmConfig) -> list[Objective]:
    """Returns the losses that train the networks for intrinsic rewards; none for kinds that have nothing to train.

    Args:
        config: The algorithm's settings.
    """
    curiosity = config.reward_streams.curiosity
    if curiosity is None:
        return []
    if not KINDS[curiosity.kind].learns:
        return []
    every, bound = curiosity.learn_every, config.max_grad_norm
    return [Objective("curiosity", novelty_loss, parameters=LEARNED, every=every, max_grad_norm=bound)]


def novelty_loss(outputs: CuriousOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
    """Returns the mean loss of the networks for intrinsic rewards, over the valid steps of a batch of sequences."""
    loss = masked_mean(outputs.novelty_losses(), batch["valid"].float())
    return Loss(total=loss, statistics={"loss": loss})
