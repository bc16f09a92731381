"""How a policy acts that is nothing but a critic: the action that the critic values most (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.tree import leaves as leaves_of
from rlrun.data.tree import map_tree
from rlrun.functional.cross_entropy_method import best_actions
from rlrun.functional.seeding import generator
from rlrun.policy.critic_forward import CriticForward
from rlrun.policy.deterministic_behavior import DeterministicActions

Floats = NDArray[np.float32]


class BestActions:
    """Stands where an actor would: looks for the action that a critic values most by the cross-entropy method.

    The samples are the same at every step, so that an action is a function of the observation.
    """

    def __init__(self, critic: CriticForward, size: int, *, iterations: int, samples: int, elites: int) -> None:
        """Takes the critic, the numbers of an action, and how to look.

        Args:
            critic: The critic.
            size: D.
            iterations: Times that samples are drawn.
            samples: How many.
            elites: How many of them give the next mean and deviation.
        """
        self.critic = critic
        self.elites = elites
        self.noise = generator(0, "samples of actions").standard_normal((iterations, samples, size), np.float32)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.critic.load(flat)

    def outputs(self, observations: Any) -> Floats:
        """Returns actions between -1 and 1, [B, D]."""
        samples, size = self.noise.shape[1:]
        repeated = map_tree(lambda leaf: leaf.repeat(samples, axis=0), observations)
        columns = len(leaves_of(observations)[0])

        def values_of(actions: Floats) -> Floats:
            return self.critic.values(repeated, actions.reshape(-1, size)).reshape(columns, samples)

        found: Floats = best_actions(values_of, np.broadcast_to(self.noise, (columns, *self.noise.shape)), self.elites)
        return found


class ChosenActions(DeterministicActions):
    """Actions that lie between -1 and 1 as they are put out."""

    def shifted(self, outputs: Floats, by: Floats) -> Floats:
        """Shifts actions [B, D] and keeps them within the bounds."""
        shifted: Floats = (outputs + by).clip(-1, 1)
        return shifted

    def mode(self, outputs: Floats) -> Floats:
        """Returns the actions."""
        return outputs
