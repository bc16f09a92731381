"""Policies that act greedily on Q values (in BCQ, among likely actions only), and the policy of CQL (torch)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.networks import CRITICS, drawn_critics
from rlrun.algorithms.actor_q.policy import ActorQPolicy
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.algorithms.offline.greedy_networks import BEHAVIOR, SAMPLES, UNIFORM, ConservativeNetworks, GreedyNetworks
from rlrun.algorithms.offline.likely_actions import LikelyActions
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions, discrete_actions
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.exploration.sampling import SampleActions

if TYPE_CHECKING:
    from rlrun.algorithms.offline.bcq import BCQConfig
    from rlrun.algorithms.offline.cql import CQLConfig


class GreedyPolicy(ActorQPolicy):
    """Policy that takes the first critic's highest-valued action, and explores with a softmax of the values.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.
        threshold: Minimum probability of an action under a behavior policy, as a fraction of the largest one; None for
            no behavior policy.

    Raises:
        UsageError: If actions are not Discrete.
    """

    config: BCQConfig | CQLConfig
    action_space: DiscreteActions

    def __init__(
        self, spaces: Spaces, config: BCQConfig | CQLConfig, seed: int, threshold: float | None = None
    ) -> None:
        model = config.model
        leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        actions = discrete_actions(spaces.action)
        critics = [critic_spec(leaves, model, actions.num_outputs)] * config.num_critics
        others = {} if threshold is None else {BEHAVIOR: actor_spec(leaves, model, actions.num_outputs)}
        super().__init__(
            config,
            leaves,
            actions,
            ActorQNets(critics, others, model, seed=seed),
            acting=f"{CRITICS}0." if threshold is None else "",
            networks=partial(GreedyNetworks, threshold=threshold or 0.0),
        )
        self.threshold = threshold

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        return drawn_critics(generator, self.config, rows, length)

    @override
    def built_in_exploration(self) -> Exploration:
        return SampleActions(self.action_space)

    @override
    def acting_network(self) -> ActingNetwork:
        values = self.acting_side(self.critics[0])
        if self.threshold is None:
            return values
        return LikelyActions(values, self.acting_side(self.others[BEHAVIOR]), self.threshold)


def batch_constrained_policy(spaces: Spaces, config: BCQConfig, seed: int) -> GreedyPolicy:
    """Creates the policy of BCQ, which also learns a behavior policy; see `GreedyPolicy`."""
    return GreedyPolicy(spaces, config, seed, threshold=config.threshold)


class ConservativePolicy(SoftPolicy):
    """Policy with a tanh-Gaussian actor for a bounded Box, and Q functions, for conservative Q-learning.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: If the action space is not a Box with finite bounds.
    """

    config: CQLConfig

    def __init__(self, spaces: Spaces, config: CQLConfig, seed: int) -> None:
        super().__init__(spaces, config, seed)
        self._soft = ConservativeNetworks

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the random inputs of the losses: SAC's noise, and uniform actions and noise for CQL's regularizer."""
        number = self.config.num_sampled_actions
        uniform = generator.uniform(-1.0, 1.0, (rows, length, number, self.num_normal)).astype(np.float32)
        noise = generator.standard_normal((rows, length, 2 * number, self.num_normal), np.float32)
        return super().draws(generator, rows, length) | {UNIFORM: uniform, SAMPLES: noise}


def conservative_policy(spaces: Spaces, config: CQLConfig, seed: int) -> ConservativePolicy | GreedyPolicy:
    """Creates a policy for conservative Q-learning, without an actor if actions are Discrete.

    Raises:
        UsageError: If actions are neither a Box with finite bounds nor Discrete, or calibration is set for Discrete
            actions.
    """
    if isinstance(spaces.action, gymnasium.spaces.Discrete):
        if config.calibrated:
            raise UsageError("config.calibrated needs continuous actions; set it to false for Discrete actions")
        return GreedyPolicy(spaces, config, seed)
    return ConservativePolicy(spaces, config, seed)
