"""Critics of QT-Opt as used in its loss, with greedy actions found by the cross-entropy method (torch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.algorithms.actor_q.networks import ActorQNetworks, run
from rlrun.algorithms.qtopt.cross_entropy_search import greedy_actions
from rlrun.engine.data.tree import map_tree

NOISE = "action_noise"
"""Minibatch column of the cross-entropy method's noise, [S, 1, iterations, samples, D]."""


@dataclass(frozen=True)
class CriticsNetworks(ActorQNetworks):
    """Critics and target critics, maximized by the cross-entropy method, since there is no actor.

    Attributes:
        num_elites: Number of elites to which the cross-entropy method fits its next normal distribution.
    """

    num_elites: int = 1

    def target_greedy_actions(self, observations: Any, noise: Tensor) -> Tensor:
        """Approximate argmax of the first target critic over actions, by the cross-entropy method, without gradients.

        Args:
            observations: Tree of observations, [S, 1, ...].
            noise: Standard normal noise of the samples, [S, 1, iterations, samples, D].

        Returns:
            Actions in [-1, 1], [S, 1, D].
        """
        samples = noise.shape[3]
        repeated = map_tree(lambda leaf: leaf.expand(-1, samples, *leaf.shape[2:]), observations)

        def values_of(actions: Tensor) -> Tensor:
            return run(self.critics[0], self.target_views, repeated, actions).squeeze(-1)

        with torch.no_grad():
            found: Tensor = greedy_actions(values_of, noise[:, 0], self.num_elites)
        return found[:, None]
