"""Policy that acts uniformly at random (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.tree import leaves
from rlrun.engine.data.uniform_sampler import UniformSampler
from rlrun.engine.envs.random_actions import RandomActions
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.nn.acting import Floats, Heads
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.action_masks import ActionMask, policy_leaves
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.exploration import Exploration, RunNetwork
from rlrun.engine.policy.exploration.exploration import Heads as AnyHeads
from rlrun.engine.policy.weights import Weights


class RandomExploration(Exploration):
    """Exploration by uniformly random allowed actions, without a network.

    Args:
        space: The env's action space.
        actions: The policy's action space.
    """

    def __init__(self, space: gymnasium.Space[Any], actions: ActionSpace) -> None:
        self.actions = actions
        self._sampler = UniformSampler(space)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        return generator.random((length, slots, self._sampler.num_draws), np.float32)

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        return self.actions.from_env(self._sampler(noise, mask))

    @override
    def sample(self, heads: AnyHeads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        return self.actions.from_env(self._sampler(self.noise(generator, 1, len(heads["outputs"]))[0], mask))


class ZeroNetwork:
    """Placeholder network that outputs zeros for all observations.

    Args:
        num_outputs: K, number of outputs.
    """

    state_size = 0

    def __init__(self, num_outputs: int) -> None:
        self.num_outputs = num_outputs

    def load(self, flat: Floats) -> None:
        """Ignores the given parameters, since this placeholder network has none."""

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Returns zero outputs [B, K], without recurrent state."""
        slots = len(leaves(inputs["obs"])[0])
        return {"outputs": np.zeros((slots, self.num_outputs), np.float32)}, None


class RandomBehavior(BehaviorPolicy):
    """Acting policy that takes uniformly random actions, in evaluation as well as while collecting.

    Args:
        spaces: Observation and action space of the env.

    Raises:
        UsageError: If the kind of a space is not supported.
    """

    def __init__(self, spaces: Spaces) -> None:
        actions = make_action_space(spaces.action)
        leaves = policy_leaves(*spaces, ModelConfig(), normalize_observations=False)
        exploration = RandomExploration(spaces.action, actions)
        super().__init__(ZeroNetwork(actions.num_outputs), actions, exploration, leaves, normalize_observations=False)
        self._spaces = spaces
        self._random = RandomActions(spaces, 0)

    @override
    def load(self, weights: Weights) -> None:
        super().load(weights)
        # The generator is seeded by the weights' version, so that each evaluation draws different actions.
        self._random = RandomActions(self._spaces, child_seed(weights.version, "random actions") >> 32)

    @override
    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        return self._random.draw(observations)
