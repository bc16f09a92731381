"""An actor-critic with critics of one's own: truncated quantile critics (TQC)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.actor_q.sac import SAC, SACConfig
from rlrun.algorithms.dqn.return_distributions import quantile_huber
from rlrun.algorithms.loss_metrics import td_statistics
from rlrun.config import NonNegativeInt, PositiveInt
from rlrun.data.sample_batch import SampleBatch
from rlrun.functional.masked import masked_mean
from rlrun.functional.sequence_rows import row_priorities
from rlrun.learner.objective import Loss
from rlrun.policy.action_spaces.box_scale import bounded_box

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.envs.spaces import Spaces
    from rlrun.nn.model_config import CriticsModelConfig
    from rlrun.nn.network_spec import NetworkSpec
    from rlrun.nn.observation_leaves import ObservationTree
    from rlrun.policy.policy import Policy


class TQCConfig(SACConfig):
    """Settings of TQC (Kuznetsov et al., arXiv:2005.04269)."""

    num_quantiles: PositiveInt = 25
    """Quantiles that each critic estimates."""
    dropped_per_critic: NonNegativeInt = 2
    """Largest quantiles of the target that are left out, for each critic."""


class TQC(SAC):
    """Soft Actor-Critic whose critics estimate quantiles; targets leave out the largest ones (arXiv:2005.04269)."""

    Config = TQCConfig
    config: TQCConfig

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """SAC's policy of actions in a Box, whose critics have an output for each quantile."""
        from rlrun.algorithms.actor_q.soft_policy import SoftPolicy

        bounded_box(spaces.action, "tqc")
        return SoftPolicy(spaces, self.config, seed, critic=self.critic)

    def critic(
        self, leaves: ObservationTree, model: CriticsModelConfig, num_values: int, action_size: int
    ) -> NetworkSpec:
        """Spec of each critic."""
        from rlrun.algorithms.actor_q.actor_q_nets import critic_spec

        return critic_spec(leaves, model, num_values * self.config.num_quantiles, action_size)

    @override
    def critics_loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Quantile Huber loss to the smallest quantiles of all target critics (section 3), over rows [S, L]."""
        valid, networks, config = batch["valid"].float(), outputs.networks, self.config
        following = networks.following(batch)
        actions, log_probs = outputs.sample(following, batch["next_noise"])
        pooled = networks.target_values(following, actions).movedim(0, -1).flatten(-2).sort(-1)[0]
        kept = pooled[..., : config.num_critics * (config.num_quantiles - config.dropped_per_critic)]
        soft_values = kept - (outputs.log_alpha.exp() * log_probs).unsqueeze(-1)
        targets = (batch["rewards"].unsqueeze(-1) + batch["discounts"].unsqueeze(-1) * soft_values).detach()
        quantiles = outputs.values_of(batch)  # [C, S, L, K]
        loss = masked_mean(quantile_huber(quantiles, targets).sum(0) * batch["weights"], valid)
        values = quantiles.detach().mean(-1)
        distance = (values - targets.mean(-1)).abs().mean(0)
        return Loss(loss, td_statistics(loss, values[0], distance, valid), priorities=row_priorities(distance, valid))

    @override
    def actor_loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """SAC's actor loss, with the mean of all quantiles as the value (section 3)."""
        valid, networks = batch["valid"].float(), outputs.networks
        present = networks.present(batch)
        actions, log_probs = outputs.sample(present, batch["noise"])
        values = networks.values(present, actions).mean((0, -1))
        loss = masked_mean(outputs.log_alpha.detach().exp() * log_probs - values, valid)
        statistics = {"loss": loss, "entropy": -masked_mean(log_probs.detach(), valid)}
        return Loss(loss, statistics, carry={"log_probs": log_probs})
