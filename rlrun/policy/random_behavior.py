"""What acts at random (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK
from rlrun.data.tree import leaves
from rlrun.envs.random_actions import RandomActions
from rlrun.envs.spaces import Spaces
from rlrun.functional.seeding import child_seed
from rlrun.nn.acting import Floats, Heads
from rlrun.nn.observation_leaves import ObservationTree
from rlrun.policy.action_masks import ActionMask
from rlrun.policy.action_spaces.action_space import Actions, ActionSpace
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.exploration import Exploration, RunNetwork
from rlrun.policy.exploration.exploration import Heads as AnyHeads
from rlrun.policy.weights import Weights


class RandomExploration(Exploration):
    """Takes actions each as likely as any other that is allowed, by seeds that are the noise of a fragment.

    Args:
        spaces: Observation and action space of the env.
        actions: The policy's own actions.
    """

    def __init__(self, spaces: Spaces, actions: ActionSpace) -> None:
        self.actions = actions
        self._random = RandomActions(spaces, 0)

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws a seed for each step, from 0 to 1, [T, B, 1], of which the first slot's counts."""
        return generator.random((length, slots, 1), np.float32)

    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Returns the actions of a step, [B, ...]."""
        self._random.reseed(int(noise[0, 0] * 2**24))
        seen = np.empty(len(noise)) if mask is None else {ACTION_MASK: mask}
        return self.actions.from_env(self._random.draw(seen))

    def sample(self, heads: AnyHeads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Returns actions outside of training, [B, ...]."""
        slots = len(heads["outputs"])
        return self.explore(dict, self.noise(generator, 1, slots)[0], np.zeros(slots, np.bool_), None, mask)


class NoNetwork:
    """Says nothing of what it observes, [B, K].

    Args:
        num_outputs: K.
    """

    state_size = 0

    def __init__(self, num_outputs: int) -> None:
        self.num_outputs = num_outputs

    def load(self, flat: Floats) -> None:
        """Takes no parameters."""

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Returns zeros."""
        slots = len(leaves(inputs["obs"])[0])
        return {"outputs": np.zeros((slots, self.num_outputs), np.float32)}, None


class RandomBehavior(BehaviorPolicy):
    """Acts at random wherever it is asked, where likeliest actions are asked for too.

    Args:
        spaces: Observation and action space of the env.
        actions: The policy's own actions.
        tree: The tree of `ObservationLeaf`.
    """

    def __init__(self, spaces: Spaces, actions: ActionSpace, tree: ObservationTree) -> None:
        exploration = RandomExploration(spaces, actions)
        super().__init__(NoNetwork(actions.num_outputs), actions, exploration, tree, normalize_observations=False)
        self._random = RandomActions(spaces, 0)

    def load(self, weights: Weights) -> None:
        """Begins to draw anew, by the version of the weights."""
        super().load(weights)
        self._random.reseed(child_seed(weights.version, "random actions") >> 32)

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Returns actions for the env, [B, ...]."""
        return self._random.draw(observations)
