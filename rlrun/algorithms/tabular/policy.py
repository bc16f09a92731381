"""Policies that look up Q values in a table (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Discrete
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.tabular.action_table import ActionTable
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.epsilon_greedy import EpsilonGreedy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy


class Table(nn.Module):
    """Module with a Q table as parameter, [num_states, num_actions]."""

    def __init__(self, states: int, actions: int, value: float) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.full((states, actions), value))


class TabularPolicy(Policy):
    """Greedy policy over a Q table, with epsilon-greedy exploration if epsilon is scheduled.

    Args:
        observation_space: Discrete space of the S states.
        action_space: Discrete space of the A actions.
        initial_value: Initial value of all table entries.
        schedule: Name of the scheduled setting that holds epsilon; None for no exploration.

    Attributes:
        shape: Shape of the table, (S, A).
        start: Smallest state of the observation space.

    Raises:
        UsageError: If the observation or action space is not Discrete.
    """

    estimates = "action_values"
    module: Table

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        initial_value: float,
        schedule: str | None,
    ) -> None:
        if not (isinstance(observation_space, Discrete) and isinstance(action_space, Discrete)):
            raise UsageError(
                "tabular algorithms need Discrete observation and action spaces, but this env has "
                f"{observation_space} and {action_space}"
            )
        self.shape = int(observation_space.n), int(action_space.n)
        self.start = int(observation_space.start)
        self.leaves = ObservationLeaf("vector", ())
        self.action_space = DiscreteActions(action_space)
        self.schedule = schedule
        self.module = Table(*self.shape, initial_value)
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Action values [rows, steps, num_actions] of a minibatch's states [rows, steps]."""
        return views["values"][batch["obs"] - self.start]

    @override
    def behavior(self) -> BehaviorPolicy:
        return BehaviorPolicy(
            ActionTable(*self.shape, self.start),
            self.action_space,
            EpsilonGreedy(self.shape[1], schedule=self.schedule),
            self.leaves,
            normalize_observations=False,
        )
