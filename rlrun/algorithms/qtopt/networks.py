"""Critics whose maximum over actions is searched for, as losses run them (torch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.algorithms.actor_q.networks import ActorQNetworks
from rlrun.algorithms.qtopt.cross_entropy_method import greedy_actions
from rlrun.data.tree import map_tree

NOISE = "action_noise"
"""Column of a minibatch with the noise of the samples, [S, 1, iterations, samples, D]."""


@dataclass(frozen=True)
class CriticsNetworks:
    """Critics, to be run on what a loss chooses.

    Attributes:
        networks: The networks behind.
        num_elites: How many samples give the next mean and standard deviation when an action is looked for.
    """

    networks: ActorQNetworks
    num_elites: int

    def values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the critics' values of actions [S, L, D] in observations [S, L, ...], [C, S, L]."""
        return self.networks.critic_outputs(observations, actions).squeeze(-1)

    def target_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the target critics' values, [C, S, L]."""
        return self.networks.target_critic_outputs(observations, actions).squeeze(-1)

    def target_greedy_actions(self, observations: Any, noise: Tensor) -> Tensor:
        """Returns the actions that the first target critic values most.

        Args:
            observations: A tree of [S, 1, ...].
            noise: Standard normal, [S, 1, iterations, samples, D].

        Returns:
            Actions between -1 and 1, [S, 1, D].
        """
        samples = noise.shape[3]
        repeated = map_tree(lambda leaf: leaf.expand(-1, samples, *leaf.shape[2:]), observations)

        def values_of(actions: Tensor) -> Tensor:
            return self.networks.first_target_critic_outputs(repeated, actions).squeeze(-1)

        with torch.no_grad():
            found: Tensor = greedy_actions(values_of, noise[:, 0], self.num_elites)
        return found[:, None]
