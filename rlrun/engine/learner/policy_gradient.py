"""Advantage actor-critic loss, for REINFORCE with a baseline and A2C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.learner.value_losses import summed_value_losses

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


def policy_gradient_loss(
    outputs: ActorCriticOutputs, batch: SampleBatch, *, vf_loss_coeff: float, entropy_coeff: Tensor
) -> Loss:
    """Advantage actor-critic loss: policy gradient, value loss and entropy bonus.

    Args:
        outputs: Network outputs on the batch: action distributions and values.
        batch: Columns [sequences, steps], including `advantages` and `value_targets`.
        vf_loss_coeff: Coefficient of the value loss.
        entropy_coeff: Coefficient of the entropy bonus, a scalar.

    Source:
        Williams 1992, eq. 4; Mnih et al., arXiv:1602.01783, section 4 and algorithm S3.
    """
    valid = batch["valid"].float()
    logp = outputs.distribution.log_prob(batch["actions"])
    policy_loss = -masked_mean(logp * batch["advantages"], valid)
    own_errors = (outputs.values - batch["value_targets"]).square()
    value_loss, value_losses = summed_value_losses(outputs, batch, own_errors, valid)
    entropy = masked_mean(outputs.distribution.entropy(), valid)
    return Loss(
        total=policy_loss + vf_loss_coeff * value_loss - entropy_coeff * entropy,
        statistics={"policy_loss": policy_loss, **value_losses, "entropy": entropy},
    )
