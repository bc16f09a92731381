"""Maximum-entropy policies with the critics and layers of SAC's presets (torch)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import actor_spec, critic_spec
from rlrun.algorithms.actor_q.networks import drawn_units
from rlrun.algorithms.actor_q.quantile_networks import JointNetworks, QuantileNetworks
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.engine.messages.errors import UsageError
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
                f"critics with num_quantiles or joint_targets value actions of a bounded Box, not of {spaces.action}; "
                "leave these settings null and false, or take sac"
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
    """Copy of a network spec with the kinds of layers that the settings choose."""
    return replace(spec, renormalizes=model.batch_renorm, residual=model.residual)
