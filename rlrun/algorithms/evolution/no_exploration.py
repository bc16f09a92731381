"""Exploration strategy that adds no noise to actions (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork


class NoExploration(Exploration):
    """Exploration without action noise, for algorithms that explore in parameter space.

    Args:
        actions: Action space of the policy.
    """

    def __init__(self, actions: ActionSpace) -> None:
        self.actions = actions

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        return np.empty((length, slots, 0), np.float32)

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        return self.actions.mode(run()["outputs"])

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        return self.actions.mode(heads["outputs"])
