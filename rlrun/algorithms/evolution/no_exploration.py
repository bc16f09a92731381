"""The likeliest actions at all times (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.policy.action_masks import ActionMask
from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.policy.exploration.exploration import Exploration, Heads, RunNetwork


class NoExploration(Exploration):
    """Takes the likeliest action, for algorithms that vary parameters instead.

    Args:
        actions: The action space.
    """

    def __init__(self, actions: ActionSpace) -> None:
        self.actions = actions

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws nothing, [T, B, 0]."""
        return np.empty((length, slots, 0), np.float32)

    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Takes the likeliest action."""
        return self.actions.mode(run()["outputs"])

    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Takes the likeliest action."""
        return self.actions.mode(heads["outputs"])
