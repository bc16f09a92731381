"""Losses of value heads: one for each stream of rewards, by advantages of a batch or by V-trace in the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlrun.data.sample_batch import SampleBatch
from rlrun.functional.masked import masked_mean
from rlrun.policy.reward_streams import RewardStream, weighted_advantages

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.policy.actor_critic_outputs import ActorCriticOutputs


def summed_value_losses(
    outputs: ActorCriticOutputs, batch: SampleBatch, own_errors: Tensor, valid: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns the sum of the value heads' mean errors, and each of them by name, the env's own first, all [].

    Args:
        outputs: The policy's pass over the rows.
        batch: Columns [S, L], among them `<stream>_value_targets` of each further stream of rewards.
        own_errors: Errors of the values of the env's own rewards, [S, L].
        valid: 1 where a step counts and 0 elsewhere, [S, L].
    """
    losses = {"value_loss": masked_mean(own_errors, valid)}
    for name, values in outputs.further_values.items():
        losses[f"{name}_value_loss"] = masked_mean((values - batch[f"{name}_value_targets"]).square(), valid)
    own, *further = losses.values()
    return sum(further, own), losses


@dataclass(frozen=True)
class CorrectedValues:
    """Advantages and value losses by V-trace.

    Attributes:
        advantages: The weighted sum over the streams of rewards, [S, T + 1].
        loss: The weighted sum of the value heads' mean squared errors, [].
        losses: Each of them by name, the env's own first, each [].
        targets: Targets of the values of the env's own rewards, [S, T + 1].
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
    """Returns advantages and value losses of each stream of rewards by V-trace.

    Returns of a stream that is not episodic include the value of the final observation, however an episode ends.

    Args:
        outputs: The policy's pass over the rows.
        batch: Columns [S, T + 1].
        log_ratios: By how much likelier the actions are than when they were taken, [S, T + 1].
        streams: The streams of rewards, the env's own first.
        clip_rho: Bound of the importance ratios of V-trace's temporal differences.
        clip_c: Bound of the importance ratios by which its corrections reach back.
        vf_loss_coeff: Weight of the value losses.

    Source:
        Espeholt et al., arXiv:1802.01561, section 4.1.
    """
    from rlrun.functional.vtrace import vtrace

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
