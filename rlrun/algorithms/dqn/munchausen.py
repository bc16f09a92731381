"""Munchausen Q-learning: soft targets, with the scaled log-policy added to the reward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Le

from rlrun.engine.settings.config import ConfigModel, Fraction, PositiveFloat

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.dqn.networks import QNetworks
    from rlrun.engine.data.sample_batch import SampleBatch


class MunchausenConfig(ConfigModel):
    """Settings of Munchausen targets (Vieillard et al., arXiv:2007.14430); the defaults are the paper's."""

    alpha: Fraction = 0.9
    """Weight of the log-policy of the taken action in the reward; 0 is soft DQN."""
    temperature: PositiveFloat = 0.03
    """Temperature of the policy, a softmax of the target network's Q values; it is in units of returns."""
    clip: Annotated[float, Le(0)] = -1.0
    """Lower bound of temperature * log-policy in the reward; the upper bound is 0."""


def munchausen_targets(
    settings: MunchausenConfig, outputs: QNetworks, batch: SampleBatch, target_outputs: Tensor
) -> tuple[Tensor, Tensor]:
    """Rewards [S, 1] with the clipped log-policy, and soft values [S, 1, K] of the next observations.

    reward + alpha [tau log pi(a | s)] from clip to 0, and sum over a' of pi(a' | s') (z(s', a') - tau log pi(a' | s')),
    with pi = softmax(q / tau) under action masks, and q and the returns z by the target network; q of an implicit
    quantile network is at fixed fractions, as for greedy choices.

    Args:
        settings: Settings of the targets.
        outputs: The networks.
        batch: Rows [S, 1].
        target_outputs: Returns z of the next observations by the target network, [S, 1, A, K].

    Source:
        Vieillard et al., arXiv:2007.14430, section 2 (M-DQN), and its appendix for quantiles (M-IQN).
    """
    tau = settings.temperature
    present = outputs.log_policy(outputs.target_values(batch["obs"]), batch["obs"], tau)
    taken = present.gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
    rewards = batch["rewards"] + settings.alpha * (tau * taken).clamp(settings.clip, 0.0)
    ahead = outputs.target_values(batch["next_obs"], target_outputs)
    following = outputs.log_policy(ahead, batch["next_obs"], tau).unsqueeze(-1)
    return rewards, (following.exp() * (target_outputs - tau * following)).sum(-2)
