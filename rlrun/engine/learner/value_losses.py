"""Value losses for the value heads of all reward streams, with targets from the batch or from V-trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.reward_streams.streams import RewardStream, weighted_advantages

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


def summed_value_losses(
    outputs: ActorCriticOutputs, batch: SampleBatch, own_errors: Tensor, valid: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns the sum of all value heads' losses, and each loss by its statistic's name, the env reward's first.

    Args:
        outputs: Network outputs on the batch.
        batch: Columns [sequences, steps], including `<stream>_value_targets` of each additional reward stream.
        own_errors: Squared (optionally clipped) value errors of the env reward, [sequences, steps].
        valid: Mask of the valid steps as 0 or 1, [sequences, steps].
    """
    losses = {"value_loss": masked_mean(own_errors, valid)}
    for name, values in outputs.further_values.items():
        losses[f"{name}_value_loss"] = masked_mean((values - batch[f"{name}_value_targets"]).square(), valid)
    own, *further = losses.values()
    return sum(further, own), losses


def clipped_value_errors(values: Tensor, batch: SampleBatch, bound: float | None) -> Tensor:
    """Returns PPO's squared value errors, [S, L]: the larger of the clipped and unclipped errors.

    Args:
        values: Values, [S, L].
        batch: Columns [S, L], including `value_targets` and, with a bound, the `values` at collection.
        bound: Bound on the change from the value at collection; None for no bound.
    """
    errors: Tensor = (values - batch["value_targets"]).square()
    if bound is None:
        return errors
    moved = (values - batch["values"]).clamp(-bound, bound)
    return errors.maximum((batch["values"] + moved - batch["value_targets"]).square())


@dataclass(frozen=True)
class CorrectedValues:
    """Advantages, value losses and value targets computed by V-trace, for S sequences of T steps.

    Attributes:
        advantages: Weighted sum of the reward streams' advantages, [S, T + 1].
        loss: Sum of the value heads' mean squared errors, times the coefficient, a scalar.
        losses: Mean squared error of each value head by name, the env reward's first, each a scalar.
        targets: V-trace value targets of the env reward, [S, T + 1].
    """

    advantages: Tensor
    loss: Tensor
    losses: dict[str, Tensor]
    targets: Tensor


def corrected_values(
    outputs: ActorCriticOutputs,
    batch: SampleBatch,
    log_ratios: Tensor,
    streams: Sequence[RewardStream],
    *,
    clip_rho: float,
    clip_c: float,
    vf_loss_coeff: float,
) -> CorrectedValues:
    """Computes advantages, value losses and value targets of all reward streams by V-trace.

    A non-episodic reward stream bootstraps from the final observation even after termination.

    Args:
        outputs: Network outputs on the batch.
        batch: Columns [S, T + 1] of S sequences, with T steps and the observation after them.
        log_ratios: Log importance ratios log pi(a|x) - log mu(a|x), [S, T + 1].
        streams: Reward streams, the env's first.
        clip_rho: Clip threshold rho-bar of the importance ratios in the TD errors.
        clip_c: Clip threshold c-bar of the trace coefficients.
        vf_loss_coeff: Coefficient of the value losses.

    Source:
        Espeholt et al., arXiv:1802.01561, section 4.1.
    """
    from rlrun.engine.functional.vtrace import vtrace

    valid = batch["valid"].float()
    targets, advantages, losses = {}, {}, {}
    for stream in streams:
        values = outputs.further_values[stream.name] if stream.name else outputs.values
        targets[stream.name], advantages[stream.column("advantages")] = vtrace(
            log_ratios,
            values.detach(),
            rewards=batch[stream.rewards],
            terminateds=batch["terminateds"] if stream.is_episodic else None,
            valid=batch["valid"],
            gamma=stream.gamma,
            lambda_=stream.gae_lambda,
            clip_rho=clip_rho,
            clip_c=clip_c,
        )
        losses[stream.column("value_loss")] = masked_mean((values - targets[stream.name]).square(), valid)
    own, *further = losses.values()
    loss = vf_loss_coeff * sum(further, own)
    return CorrectedValues(weighted_advantages(streams, advantages), loss, losses, targets[""])
