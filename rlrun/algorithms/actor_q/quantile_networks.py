"""Critics for a tanh-Gaussian actor: quantile critics, and critics whose targets come from a joint pass (torch)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.soft_networks import Residuals, Soft, SquashedNetworks
from rlrun.algorithms.dqn.return_distributions import quantile_huber
from rlrun.algorithms.settings.critic_ensemble import ActorObjective
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.nn.batch_renorm import batch_statistics


@dataclass(frozen=True)
class QuantileNetworks(SquashedNetworks):
    """Tanh-Gaussian actor with critics that estimate quantiles of the return (TQC).

    Attributes:
        dropped: Number of quantiles per critic that targets omit.

    Source:
        Kuznetsov et al., "Controlling overestimation bias with truncated mixture of continuous distributional quantile
        critics", arXiv:2005.04269, section 3.
    """

    dropped: int = 0

    @override
    def mean_of(self, outputs: Tensor) -> Tensor:
        """Mean of a critic's quantiles: the expected value."""
        return outputs.mean(-1)

    @override
    def kept_values(self, values: Tensor, batch: SampleBatch) -> Tensor:
        """Smallest quantiles of all target critics' quantiles together, [M, S, L]."""
        return truncated_mixture(values, self.dropped)

    @override
    def residuals(self, values: Tensor, targets: Tensor) -> Residuals:
        """Quantile Huber losses between quantiles [C, S, L, K] and target samples [M, S, L] (eqs. 11 and 12)."""
        means = values.mean(-1)
        losses = quantile_huber(values, targets.movedim(0, -1)).sum(0)
        return Residuals(losses, means, means - targets.mean(0))


@dataclass(frozen=True)
class JointNetworks(SquashedNetworks):
    """Tanh-Gaussian actor with critics without target networks (CrossQ).

    Source:
        Bhatt et al., "CrossQ: batch normalization in deep reinforcement learning for greater sample efficiency and
        simplicity", arXiv:1902.05605, section 3.
    """

    @override
    def sample_and_evaluate(self, batch: SampleBatch, objective: ActorObjective = "minimum") -> Soft:
        """Evaluates the actor's actions.

        The actor is normalised by minibatch statistics, the critics by running ones.
        """
        with batch_statistics(self.networks.others["actor"]) as moved:
            evaluated = super().sample_and_evaluate(batch, objective)
        return evaluated._replace(moved=moved)

    @override
    def values_and_next(self, batch: SampleBatch) -> tuple[Tensor, Soft]:
        """Evaluates recorded and next actions in one pass, so that normalisation statistics cover both."""
        networks = self.networks
        present, following = networks.present(batch), networks.following(batch)
        with torch.no_grad():
            actions, log_probs = self.sample(following, batch["next_noise"])
        with batch_statistics(*networks.critics) as moved:
            values, ahead = networks.joint_values((present, batch["actions"]), (following, actions))
        return values, Soft(log_probs, self.kept_values(ahead.detach(), batch), moved=moved)


def truncated_mixture(quantiles: Tensor, dropped: int) -> Tensor:
    """Smallest quantiles among those of all C critics [C, S, L, K], in ascending order, [C * (K - dropped), S, L]."""
    number, size = quantiles.shape[0], quantiles.shape[-1]
    pooled = quantiles.movedim(0, -1).flatten(-2).sort(-1)[0]
    return pooled[..., : number * (size - dropped)].movedim(-1, 0)
