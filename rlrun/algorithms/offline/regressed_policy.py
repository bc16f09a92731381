"""Policies with a stochastic actor that imitates recorded actions, and Q functions (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.bounded_gaussian import BoundedGaussianActions
from rlrun.algorithms.actor_q.networks import drawn_critics
from rlrun.algorithms.actor_q.policy import ActorQPolicy
from rlrun.algorithms.offline.regressed_networks import (
    NEXT_NOISE,
    NOISE,
    RegressedBoxNetworks,
    RegressedChoiceNetworks,
    RegressedNetworks,
)
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_spec import LogStds, NetworkSpec
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import bounded_box
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.exploration.sampling import SampleActions

if TYPE_CHECKING:
    from rlrun.algorithms.offline.weighted_regression import WeightedRegressionConfig


class RegressedPolicy(ActorQPolicy):
    """Policy with a stochastic actor for a bounded Box or Discrete actions, and with Q functions.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: If actions are neither a Box with finite bounds nor Discrete.
    """

    config: WeightedRegressionConfig
    action_space: BoundedGaussianActions | DiscreteActions

    def __init__(self, spaces: Spaces, config: WeightedRegressionConfig, seed: int) -> None:
        model = config.model
        leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        actions: BoundedGaussianActions | DiscreteActions
        log_stds = None
        match spaces.action:
            case gymnasium.spaces.Discrete():
                actions = DiscreteActions(spaces.action)
                self._regressed: type[RegressedNetworks] = RegressedChoiceNetworks
                self.num_normal, num_values = 0, actions.num_outputs
            case gymnasium.spaces.Box():
                bounded_box(spaces.action, "a policy with Q functions")
                actions = BoundedGaussianActions(spaces.action)
                self._regressed, self.num_normal, num_values = RegressedBoxNetworks, actions.size, 1
                log_stds = LogStds(actions.size, model.log_std_init)
            case _:
                raise UsageError(
                    f"this algorithm needs a bounded Box or Discrete action space, but this env has {spaces.action}"
                )
        critics = [critic_spec(leaves, model, num_values, self.num_normal)] * config.num_critics
        others: dict[str, NetworkSpec] = {"actor": actor_spec(leaves, model, actions.num_outputs, log_stds)}
        if config.learns_values:
            others["value"] = critic_spec(leaves, model)
        super().__init__(config, leaves, actions, ActorQNets(critics, others, model, seed=seed))

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> RegressedNetworks:
        return self._regressed(super().outputs(views, batch, target_views))

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the random inputs of the losses: noise for Box actions, and a choice of target critics."""
        columns = {}
        if self.num_normal and (number := self.config.num_noises):
            noise = generator.standard_normal((rows, length, number + 1, self.num_normal), np.float32)
            columns = {NOISE: noise[:, :, :number], NEXT_NOISE: noise[:, :, number]}
        return columns | drawn_critics(generator, self.config, rows, length)

    @override
    def built_in_exploration(self) -> Exploration:
        return SampleActions(self.action_space)
