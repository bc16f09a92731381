"""Maximum-entropy policies for SAC's presets, such as those with distributional critics or without targets (torch)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import actor_spec, critic_spec
from rlrun.algorithms.actor_q.extended_sac import projections
from rlrun.algorithms.actor_q.networks import ActorQNetworks, drawn_units
from rlrun.algorithms.actor_q.soft_networks import (
    EXPECTED_RETURN,
    ExpectedReturn,
    Residuals,
    Soft,
    SquashedNetworks,
)
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.algorithms.settings.off_policy import ActorObjective
from rlrun.algorithms.td_loss import cross_entropy, projected, quantile_huber
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.learner.projection import project
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.batch_norm import batch_statistics
from rlrun.engine.nn.extended_network_module import ExtendedNetworkModule
from rlrun.engine.nn.network_spec import LogStds, NetworkSpec
from rlrun.engine.policy.action_spaces.squashed_box import SquashedBoxActions

if TYPE_CHECKING:
    from rlrun.algorithms.actor_q.extended_sac import ExtendedModelConfig, ExtendedSACConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.nn.model_config import CriticsModelConfig
    from rlrun.engine.nn.observation_leaves import ObservationTree


class ExtendedSoftPolicy(SoftPolicy):
    """Policy with a stochastic actor, and critics that may be distributional, use dropout, or have no target networks.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: If the settings require continuous actions but the actions are Discrete; see also `SoftPolicy`.
    """

    config: ExtendedSACConfig

    def __init__(self, spaces: Spaces, config: ExtendedSACConfig, seed: int) -> None:
        critic, actor = partial(extended_critic, config), partial(extended_actor, config.model)
        squashed = partial(SquashedBoxActions, smooth_log_stds=config.model.smooth_log_stds)
        super().__init__(spaces, config, seed, critic, actor=actor, network=ExtendedNetworkModule, squashed=squashed)
        if config.weight_projection is not None:
            flat = self.parameters.gather(self.module)
            project(self.parameters, projections(self.parameters, "", config.weight_projection), flat)
            nn.utils.vector_to_parameters(flat, self.module.parameters())
        if isinstance(self.action_space, SquashedBoxActions):
            self.default_target_entropy = config.target_entropy_per_action * self.num_normal
            made: Callable[..., SquashedNetworks] = SquashedNetworks
            if config.is_joint:
                made = partial(JointNetworks, has_targets=not config.joint_targets, joint_actor=config.joint_actor)
            self._soft = partial(made, returns=returns_of(config), distribution=self.action_space.distribution)
        elif wrong := needs_continuous_actions(config):
            raise UsageError(
                f"{wrong} needs a bounded Box action space, but this env has {spaces.action}; leave it out, or use sac"
            )

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the same noise as SAC, and the dropout masks of the critics."""
        columns = super().draws(generator, rows, length)
        return columns | drawn_units(generator, self.critics, self.config.critic_dropout, rows, length)


def needs_continuous_actions(config: ExtendedSACConfig) -> str:
    """Name of an enabled setting that Discrete actions do not support; "" if there is none."""
    asked = {
        "num_quantiles": config.num_quantiles is not None,
        "num_bins": config.num_bins is not None,
        "model.batch_norm": config.model.batch_norm,
        "joint_targets": config.joint_targets,
    }
    return next((name for name, is_asked in asked.items() if is_asked), "")


def returns_of(config: ExtendedSACConfig) -> ExpectedReturn:
    """Creates the object that interprets critics' outputs as expectations, quantiles or categorical distributions."""
    if config.num_bins is not None:
        return Categories(config.num_bins, *config.support)
    return EXPECTED_RETURN if config.num_quantiles is None else Quantiles(config.dropped_per_critic)


def extended_critic(
    config: ExtendedSACConfig, leaves: ObservationTree, model: CriticsModelConfig, num_values: int, action_size: int
) -> NetworkSpec:
    """Creates the spec of a critic with the preset's layers; see `critic_spec`."""
    own = config.model
    if own.critic_hiddens is not None:
        model = model.model_copy(update={"hiddens": own.critic_hiddens})
    return with_layers(
        critic_spec(leaves, model, num_values * (config.num_quantiles or config.num_bins or 1), action_size), own
    )


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
    """Copies a network spec, adding batch (re)normalization and residual layers if the settings enable them."""
    return replace(spec, renormalizes=model.batch_renorm, batch_norm=model.batch_norm, residual=model.residual)


@dataclass(frozen=True)
class JointNetworks(SquashedNetworks):
    """Tanh-Gaussian actor, and critics with batch normalization, which see recorded and next actions in one pass.

    Attributes:
        has_targets: Whether target values come from target networks, evaluated in a separate joint pass, instead of
            from the critics themselves (CrossQ). The pass normalizes by the minibatch's statistics, and does not update
            the running ones.
        joint_actor: Whether the actor's loss normalizes by the statistics of recorded and next observations
            (FlashSAC, arXiv:2604.04539), instead of recorded observations alone.

    Source:
        Bhatt et al., "CrossQ: batch normalization in deep reinforcement learning for greater sample efficiency and
        simplicity", arXiv:1902.05605, section 3; with target networks, XQC, arXiv:2509.25174.
    """

    has_targets: bool = False
    joint_actor: bool = False

    @override
    def actor_outputs(self, present: Any, batch: SampleBatch) -> Tensor:
        """Actor outputs [rows, steps, num_outputs], with next observations in the same pass if `joint_actor` is set."""
        if not self.joint_actor:
            return super().actor_outputs(present, batch)
        both = map_tree(lambda *halves: torch.cat(halves), present, self.networks.following(batch))
        return self.networks.actor_outputs(both).chunk(2)[0]

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
        """Q values of recorded and of next actions, from critic passes whose normalization statistics cover both."""
        networks = self.networks
        present, following = networks.present(batch), networks.following(batch)
        with torch.no_grad():
            actions, log_probs = self.sample(following, batch["next_noise"])
        both = (present, batch["actions"]), (following, actions)
        with batch_statistics(*networks.critics) as moved:
            values, ahead = networks.joint_values(networks.views, *both)
        if self.has_targets:
            with torch.no_grad(), batch_statistics(*networks.critics):
                _, ahead = networks.joint_values(networks.target_views, *both)
        kept, probabilities = self.kept(ahead.detach(), batch)
        return values, Soft(log_probs, kept, probabilities=probabilities, moved=moved)


@dataclass(frozen=True)
class Quantiles(ExpectedReturn):
    """Interpretation of the critics' outputs: each critic estimates quantiles of the return (TQC).

    Attributes:
        dropped: Number of quantiles per critic left out of the targets: the largest ones after pooling.

    Source:
        Kuznetsov et al., "Controlling overestimation bias with truncated mixture of continuous distributional quantile
        critics", arXiv:2005.04269, section 3.
    """

    dropped: int = 0

    @override
    def mean_of(self, outputs: Tensor) -> Tensor:
        """Expected returns [...]: the means over the quantiles [..., K]."""
        return outputs.mean(-1)

    @override
    def kept(self, networks: ActorQNetworks, values: Tensor, batch: SampleBatch) -> tuple[Tensor, Tensor | None]:
        """Target samples [M, S, L]: the M smallest quantiles after pooling the quantiles of all target critics."""
        return truncated_mixture(values, self.dropped), None

    @override
    def residuals(self, values: Tensor, targets: Tensor, probabilities: Tensor | None) -> Residuals:
        """Quantile Huber losses of the critics' quantiles [critics, rows, steps, K] for targets [M, rows, steps]."""
        means = values.mean(-1)
        losses = quantile_huber(values, targets.movedim(0, -1)).sum(0)
        return Residuals(losses, means, means - targets.mean(0))


@dataclass(frozen=True)
class Categories(ExpectedReturn):
    """Interpretation of the critics' outputs: logits of K evenly spaced returns (C51's categorical distributions).

    Attributes:
        number: Number of returns, K.
        low: Smallest return of the support.
        high: Largest return of the support.

    Source:
        Bellemare et al., "A distributional perspective on reinforcement learning", arXiv:1707.06887, section 4.
    """

    number: int
    low: float
    high: float

    def support(self, like: Tensor) -> Tensor:
        """The K returns, ascending, with the dtype and device of another tensor."""
        return torch.linspace(self.low, self.high, self.number, dtype=like.dtype, device=like.device)

    @override
    def mean_of(self, outputs: Tensor) -> Tensor:
        """Expected returns [...] from logits [..., K]."""
        return (outputs.softmax(-1) * self.support(outputs)).sum(-1)

    @override
    def kept(self, networks: ActorQNetworks, values: Tensor, batch: SampleBatch) -> tuple[Tensor, Tensor | None]:
        """The K returns, [K, S, L], with their probabilities according to the critic with the smallest expectation.

        The critic is chosen for each row and step.
        """
        lowest = networks.drawn(self.mean_of(values), batch).min(0, keepdim=True)[1]
        logits = values.gather(0, lowest.unsqueeze(-1).expand(-1, -1, -1, self.number)).squeeze(0)
        probabilities = logits.softmax(-1).movedim(-1, 0)
        return self.support(logits).view(-1, 1, 1).expand_as(probabilities), probabilities

    @override
    def residuals(self, values: Tensor, targets: Tensor, probabilities: Tensor | None) -> Residuals:
        """Cross-entropies of the critics' distributions [critics, rows, steps, K] with the projected target."""
        assert probabilities is not None
        support, means = self.support(values), self.mean_of(values)
        target = projected(probabilities.movedim(0, -1), targets.movedim(0, -1), support)
        return Residuals(cross_entropy(values, target).sum(0), means, means - (target * support).sum(-1))


def truncated_mixture(quantiles: Tensor, dropped: int) -> Tensor:
    """Pools the quantiles of C critics, [C, rows, steps, K], and keeps the C * (K - dropped) smallest, ascending."""
    number, size = quantiles.shape[0], quantiles.shape[-1]
    pooled = quantiles.movedim(0, -1).flatten(-2).sort(-1)[0]
    return pooled[..., : number * (size - dropped)].movedim(-1, 0)
