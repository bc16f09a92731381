"""Critics whose maximum over actions is searched for, as losses run them (torch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.algorithms.actor_q.networks import ActorQNetworks, run
from rlrun.algorithms.qtopt.cross_entropy_method import greedy_actions
from rlrun.data.tree import map_tree

NOISE = "action_noise"
"""Column of a minibatch with the noise of the samples, [S, 1, iterations, samples, D]."""


@dataclass(frozen=True)
class CriticsNetworks(ActorQNetworks):
    """Critics without an actor.

    Attributes:
        num_elites: How many samples give the next mean and standard deviation when an action is looked for.
    """

    num_elites: int = 1

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
            return run(self.critics[0], self.target_views, repeated, actions).squeeze(-1)

        with torch.no_grad():
            found: Tensor = greedy_actions(values_of, noise[:, 0], self.num_elites)
        return found[:, None]
