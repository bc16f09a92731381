"""Maximum-entropy policies of SAC's presets: other layers, quantile critics, or no target networks (torch)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import actor_spec, critic_spec
from rlrun.algorithms.actor_q.networks import drawn_units
from rlrun.algorithms.actor_q.soft_networks import Residuals, Soft, SquashedNetworks
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.algorithms.settings.off_policy import ActorObjective
from rlrun.algorithms.td_loss import quantile_huber
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.batch_renorm import batch_statistics
from rlrun.engine.nn.extended_network_module import ExtendedNetworkModule
from rlrun.engine.nn.network_spec import LogStds, NetworkSpec

if TYPE_CHECKING:
    from rlrun.algorithms.actor_q.extended_sac import ExtendedModelConfig, ExtendedSACConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.nn.model_config import CriticsModelConfig
    from rlrun.engine.nn.observation_leaves import ObservationTree


class ExtendedSoftPolicy(SoftPolicy):
    """Policy of a stochastic actor whose critics may estimate quantiles, use dropout, or have no target networks.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed of the initial parameters.

    Raises:
        UsageError: The settings require continuous actions, but actions are Discrete; see `SoftPolicy`.
    """

    config: ExtendedSACConfig

    def __init__(self, spaces: Spaces, config: ExtendedSACConfig, seed: int) -> None:
        critic, actor = partial(extended_critic, config), partial(extended_actor, config.model)
        super().__init__(spaces, config, seed, critic, actor=actor, network=ExtendedNetworkModule)
        if self.num_normal:
            self.default_target_entropy = config.target_entropy_per_action * self.num_normal
            if config.joint_targets:
                self._soft = JointNetworks
            if config.num_quantiles is not None:
                self._soft = partial(QuantileNetworks, dropped=config.dropped_per_critic)
        elif config.num_quantiles is not None or config.joint_targets:
            raise UsageError(
                f"num_quantiles and joint_targets need a bounded Box action space, but this env has {spaces.action}; "
                "set num_quantiles: null and joint_targets: false, or use sac"
            )

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the same noise as SAC, and the dropout masks of the critics."""
        columns = super().draws(generator, rows, length)
        return columns | drawn_units(generator, self.critics, self.config.critic_dropout, rows, length)


def extended_critic(
    config: ExtendedSACConfig, leaves: ObservationTree, model: CriticsModelConfig, num_values: int, action_size: int
) -> NetworkSpec:
    """Creates the spec of a critic with the preset's layers; see `critic_spec`."""
    own = config.model
    if own.critic_hiddens is not None:
        model = model.model_copy(update={"hiddens": own.critic_hiddens})
    return with_layers(critic_spec(leaves, model, num_values * (config.num_quantiles or 1), action_size), own)


def extended_actor(
    own: ExtendedModelConfig,
    leaves: ObservationTree,
    model: CriticsModelConfig,
    num_outputs: int,
    log_stds: LogStds | None,
) -> NetworkSpec:
    """Creates the spec of an actor with the preset's layers; see `actor_spec`."""
    return with_layers(actor_spec(leaves, model, num_outputs, log_stds), own)


def with_layers(spec: NetworkSpec, model: ExtendedModelConfig) -> NetworkSpec:
    """Copies a network spec, with batch renormalization and residual layers if the settings enable them."""
    return replace(spec, renormalizes=model.batch_renorm, residual=model.residual)


@dataclass(frozen=True)
class QuantileNetworks(SquashedNetworks):
    """Tanh-Gaussian actor with critics that estimate quantiles of the return (TQC).

    Attributes:
        dropped: Number of quantiles per critic that targets omit, namely the largest ones after pooling.

    Source:
        Kuznetsov et al., "Controlling overestimation bias with truncated mixture of continuous distributional quantile
        critics", arXiv:2005.04269, section 3.
    """

    dropped: int = 0

    @override
    def mean_of(self, outputs: Tensor) -> Tensor:
        """Expected return [rows, steps]: the mean over a critic's quantiles [rows, steps, num_quantiles]."""
        return outputs.mean(-1)

    @override
    def kept_values(self, values: Tensor, batch: SampleBatch) -> Tensor:
        """Target samples [M, rows, steps]: the M smallest quantiles after pooling those of all target critics."""
        return truncated_mixture(values, self.dropped)

    @override
    def residuals(self, values: Tensor, targets: Tensor) -> Residuals:
        """Quantile Huber losses of the critics' quantiles [critics, rows, steps, K] for targets [M, rows, steps]."""
        means = values.mean(-1)
        losses = quantile_huber(values, targets.movedim(0, -1)).sum(0)
        return Residuals(losses, means, means - targets.mean(0))


@dataclass(frozen=True)
class JointNetworks(SquashedNetworks):
    """Tanh-Gaussian actor, and critics that need no target networks (CrossQ).

    Source:
        Bhatt et al., "CrossQ: batch normalization in deep reinforcement learning for greater sample efficiency and
        simplicity", arXiv:1902.05605, section 3.
    """

    @override
    def sample_and_evaluate(self, batch: SampleBatch, objective: ActorObjective = "minimum") -> Soft:
        """Samples the actor's actions; returns them with their log-probabilities and Q values.

        Batch normalization uses minibatch statistics in the actor, and running statistics in the critics.
        """
        with batch_statistics(self.networks.others["actor"]) as moved:
            evaluated = super().sample_and_evaluate(batch, objective)
        return evaluated._replace(moved=moved)

    @override
    def values_and_next(self, batch: SampleBatch) -> tuple[Tensor, Soft]:
        """Q values of recorded and of next actions, from one critic pass whose normalization statistics cover both."""
        networks = self.networks
        present, following = networks.present(batch), networks.following(batch)
        with torch.no_grad():
            actions, log_probs = self.sample(following, batch["next_noise"])
        with batch_statistics(*networks.critics) as moved:
            values, ahead = networks.joint_values((present, batch["actions"]), (following, actions))
        return values, Soft(log_probs, self.kept_values(ahead.detach(), batch), moved=moved)


def truncated_mixture(quantiles: Tensor, dropped: int) -> Tensor:
    """Pools the quantiles of C critics, [C, rows, steps, K], and keeps the C * (K - dropped) smallest, ascending."""
    number, size = quantiles.shape[0], quantiles.shape[-1]
    pooled = quantiles.movedim(0, -1).flatten(-2).sort(-1)[0]
    return pooled[..., : number * (size - dropped)].movedim(-1, 0)
