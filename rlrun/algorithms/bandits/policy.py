"""Policy of a linear bandit: ridge regression of rewards, per arm (disjoint) or shared (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.bandits.linear_arms import LinearArms
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy


class Regressions(nn.Module):
    """Parameters of M ridge regressions: coefficients [M, D], and roots of inverse Gram matrices [M, D, D]."""

    def __init__(self, number: int, features: int, ridge: float) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(torch.zeros(number, features))
        self.roots = nn.Parameter(torch.eye(features).expand(number, -1, -1) / ridge**0.5)


class LinearBanditPolicy(Policy):
    """Linear contextual bandit that maximizes the expected reward plus an exploration bonus.

    With a shared context, [D] or Discrete, the model is disjoint: one regression per arm. With features of each arm,
    [A, D], all arms share one regression.

    Args:
        observation_space: Space of contexts or arm features.
        action_space: Discrete space of the A arms.
        ridge: Ridge penalty on the squared norm of the coefficients.
        exploration: Function that creates the exploration from the number of regressions, M, and of features, D.

    Attributes:
        arms: Network for action selection, whose feature encoding is used.

    Raises:
        UsageError: If actions are not Discrete, or observations are neither contexts nor arm features.
    """

    module: Regressions

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        ridge: float,
        exploration: Callable[[int, int], Exploration],
    ) -> None:
        if not isinstance(action_space, Discrete):
            raise UsageError(
                f"a bandit needs a Discrete action space (one action per arm), but this env has {action_space}"
            )
        self.arms = linear_arms(observation_space, int(action_space.n))
        self.leaves = ObservationLeaf("vector", observation_space.shape or ())
        self.action_space = DiscreteActions(action_space)
        self.exploration = exploration
        self.module = Regressions(self.arms.regressions, self.arms.features, ridge)
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Expected rewards [rows, steps, num_arms] of all arms for a minibatch's contexts [rows, steps, ...]."""
        seen = batch["obs"]
        rows = seen.reshape(-1, *seen.shape[2:]).cpu().numpy()
        contexts = torch.from_numpy(self.arms.contexts(rows)).to(seen.device)
        coefficients = views["coefficients"]
        means = contexts @ (coefficients[0] if contexts.ndim == 3 else coefficients.T)
        return means.view(*seen.shape[:2], -1)

    @override
    def behavior(self) -> BehaviorPolicy:
        arms = self.arms
        return BehaviorPolicy(
            LinearArms(arms.regressions, arms.features, is_one_hot=arms.is_one_hot, start=arms.start),
            self.action_space,
            self.exploration(arms.regressions, arms.features),
            self.leaves,
            normalize_observations=False,
        )


def linear_arms(observation_space: gymnasium.Space[Any], num_arms: int) -> LinearArms:
    """Creates the network for action selection in a linear bandit with a given observation space.

    Raises:
        UsageError: Observations are neither a shared context nor features of each arm.
    """
    match observation_space:
        case Discrete():
            return LinearArms(num_arms, int(observation_space.n), is_one_hot=True, start=int(observation_space.start))
        case Box() if len(observation_space.shape) == 1:
            return LinearArms(num_arms, observation_space.shape[0])
        case Box() if len(observation_space.shape) == 2 and observation_space.shape[0] == num_arms:
            return LinearArms(1, observation_space.shape[1])
    raise UsageError(
        "a linear bandit needs as observation a context (a one-dimensional Box, or Discrete) or features of "
        f"each of its {num_arms} arms (a Box [{num_arms}, features]), not {observation_space}"
    )
