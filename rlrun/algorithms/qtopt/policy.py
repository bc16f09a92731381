"""Actor-free policies that maximize a Q function over continuous actions (torch)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, critic_spec
from rlrun.algorithms.actor_q.networks import CRITICS
from rlrun.algorithms.actor_q.policy import ActorQPolicy
from rlrun.algorithms.qtopt.cross_entropy_search import CrossEntropySearch
from rlrun.algorithms.qtopt.networks import NOISE, CriticsNetworks
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import DeterministicBoxActions, bounded_box
from rlrun.engine.policy.exploration.action_noise import ActionNoise

if TYPE_CHECKING:
    from rlrun.algorithms.qtopt.qtopt import QTOptConfig


NUM_CRITICS = 2


class CriticsPolicy(ActorQPolicy):
    """Policy with twin Q functions, which the cross-entropy method maximizes over continuous actions.

    Args:
        spaces: Observation and action space.
        config: Settings of QT-Opt.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: If the action space is not a Box with finite bounds.
    """

    config: QTOptConfig
    action_space: DeterministicBoxActions

    def __init__(self, spaces: Spaces, config: QTOptConfig, seed: int) -> None:
        model = config.model
        leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        actions = DeterministicBoxActions(bounded_box(spaces.action, "a policy with critics"), squashes=False)
        critics = [critic_spec(leaves, model, 1, actions.size)] * NUM_CRITICS
        super().__init__(
            config,
            leaves,
            actions,
            ActorQNets(critics, {}, model, seed=seed),
            acting=f"{CRITICS}0.",
            networks=partial(CriticsNetworks, num_elites=config.cem_elites),
        )

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the standard normal noise with which the cross-entropy method searches for next actions."""
        shape = (rows, length, self.config.cem_iterations, self.config.cem_samples, self.action_space.size)
        return {NOISE: generator.standard_normal(shape, np.float32)}

    @override
    def built_in_exploration(self) -> ActionNoise:
        return ActionNoise(self.action_space)

    @override
    def acting_network(self) -> CrossEntropySearch:
        """Creates the network for action selection, which searches for the highest value of the first critic."""
        return CrossEntropySearch(
            self.acting_side(self.critics[0]),
            self.action_space.size,
            iterations=self.config.cem_iterations,
            samples=self.config.cem_samples,
            elites=self.config.cem_elites,
        )
