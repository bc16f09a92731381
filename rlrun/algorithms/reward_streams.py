"""What `curiosity` and `constraint` add to an algorithm: rewards of another kind, with a value of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlrun.flow.operators.advantages import ComputeAdvantages, WeightAdvantages
from rlrun.flow.operators.constraint import LagrangianAdvantages
from rlrun.flow.operators.curiosity import IntrinsicRewards
from rlrun.functional.masked import masked_mean
from rlrun.policy.reward_streams import INTRINSIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from rlrun.algorithms.settings_on_policy import OnPolicyConfig
    from rlrun.data.sample_batch import SampleBatch
    from rlrun.envs.spaces import Spaces
    from rlrun.flow.flow import Flow
    from rlrun.flow.trainee import Trainee
    from rlrun.learner.objective import Loss, Objective
    from rlrun.policy.curiosity import CuriousOutputs
    from rlrun.policy.policy import Policy


def policy_with_streams(config: OnPolicyConfig, spaces: Spaces, seed: int) -> Policy:
    """Returns an actor-critic with a value head for each stream of rewards, and curiosity's networks beside it.

    Args:
        config: The algorithm's settings.
        spaces: Observation and action space.
        seed: Seed of the first parameters.
    """
    from rlrun.policy.actor_critic import ActorCriticPolicy
    from rlrun.policy.curiosity import CuriousPolicy

    policy = ActorCriticPolicy(
        spaces.observation,
        spaces.action,
        config.model,
        normalize_observations=config.normalize_observations,
        seed=seed,
        streams=tuple(stream.name for stream in config.reward_streams),
    )
    if config.curiosity is None:
        return policy
    return CuriousPolicy(policy, spaces.observation, spaces.action, config.curiosity, seed)


def objectives_of_curiosity(config: OnPolicyConfig) -> list[Objective]:
    """Returns what moves the networks that learn what was seen; nothing where there are none."""
    from rlrun.learner.objective import Objective
    from rlrun.policy.curiosity import KINDS, LEARNED

    curiosity = config.curiosity
    if curiosity is None or not KINDS[curiosity.kind].learns:
        return []
    every, bound = curiosity.learn_every, config.max_grad_norm
    return [Objective("curiosity", novelty_loss, parameters=LEARNED, every=every, max_grad_norm=bound)]


def novelty_loss(outputs: CuriousOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
    """Returns the mean loss of the networks that learn what was seen, over rows [S, L]."""
    from rlrun.learner.objective import Loss

    loss = masked_mean(outputs.novelty_losses(), batch["valid"].float())
    return Loss(total=loss, statistics={"loss": loss})


def with_advantages(
    fragments: Flow[SampleBatch], config: OnPolicyConfig, trainee: Trainee, gae_lambda: float
) -> Flow[SampleBatch]:
    """Returns fragments with the advantages of each stream of rewards; `advantages` are those of env and curiosity.

    Args:
        fragments: As the workers delivered them.
        config: The algorithm's settings.
        trainee: What learns.
        gae_lambda: Weight between one-step and Monte Carlo advantages of the env's own rewards.
    """
    curiosity = config.curiosity
    if curiosity is not None:
        fragments = fragments.zip_with_worker().for_each(IntrinsicRewards(trainee, curiosity))
    fragments = fragments.for_each(ComputeAdvantages(config.gamma, gae_lambda))
    for stream in config.reward_streams:
        fragments = fragments.for_each(ComputeAdvantages.of(stream))
    if curiosity is not None:
        weights = {"advantages": curiosity.extrinsic_coeff, f"{INTRINSIC}_advantages": curiosity.intrinsic_coeff}
        fragments = fragments.for_each(WeightAdvantages(weights))
    return fragments


def constrained(batches: Flow[SampleBatch], config: OnPolicyConfig) -> Flow[SampleBatch]:
    """Returns batches with the advantages of the Lagrangian, where there is a constraint.

    Args:
        batches: With the advantages of rewards and costs.
        config: The algorithm's settings.
    """
    bound = config.constraint
    if bound is None:
        return batches
    return batches.for_each(LagrangianAdvantages(bound.column, bound.limit, bound.multiplier_lr))


def with_stream_losses(
    loss: Loss, config: OnPolicyConfig, outputs: Any, batch: SampleBatch, vf_loss_coeff: float
) -> Loss:
    """Returns a loss with the value errors of each stream of rewards.

    Args:
        loss: The algorithm's own.
        config: Its settings.
        outputs: The policy's pass over the rows.
        batch: Columns [S, L].
        vf_loss_coeff: Weight of a value loss.
    """
    if not config.reward_streams:
        return loss
    valid, total, statistics = batch["valid"].float(), loss.total, dict(loss.statistics)
    for stream in config.reward_streams:
        errors = (outputs.further_values[stream.name] - batch[stream.column("value_targets")]).square()
        statistics[f"{stream.name}_value_loss"] = masked_mean(errors, valid)
        total = total + vf_loss_coeff * statistics[f"{stream.name}_value_loss"]
    return replace(loss, total=total, statistics=statistics)
