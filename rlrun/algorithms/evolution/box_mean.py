"""Acting in evolution strategies: deterministic actions, scaled to the bounds of a Box, without noise (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.engine.policy.action_spaces.box import BoxScale
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork


class BoxMeanActions(ActionSpace):
    """Deterministic actions in a Box: the actor's outputs [..., D], clipped to the bounds when sent to the env.

    Args:
        scale: Affine map between the env's Box and [-1, 1].
    """

    action_dtype = np.float32
    is_deterministic = True

    def __init__(self, scale: BoxScale) -> None:
        self.scale = scale
        self.num_outputs = scale.size
        self.action_shape = (scale.size,)

    @override
    def mode(self, outputs: Floats) -> Actions:
        return outputs

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Converts policy actions to env actions: scales them from [-1, 1] to the bounds, and clips them."""
        return self.scale.to_env(actions)

    def overshoots(self, actions: Actions) -> NDArray[np.float64]:
        """Mean squared overshoot [N] of actions [N, D]: each coordinate's distance beyond its bounds, or 0.

        Distances are in units of half the coordinate's range.
        """
        scale = self.scale
        own = actions.astype(np.float64) * scale.half_range + scale.middle
        beyond = own - np.clip(own, scale.low, scale.high)
        units = np.divide(beyond, scale.half_range, out=np.zeros_like(own), where=scale.half_range > 0)
        mean: NDArray[np.float64] = np.square(units).mean(-1)
        return mean

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Converts env actions to policy actions: scales them from the bounds to [-1, 1]."""
        return self.scale.from_env(actions)


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
