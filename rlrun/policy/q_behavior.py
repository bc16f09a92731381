"""How Q policies act: mostly the best action, now and then another one (NumPy)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.functional.moments import Moments
from rlrun.functional.schedules import value_at
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.observation_leaves import dense_inputs
from rlrun.policy.action_space import CategoricalActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.observation_filter import ObservationFilter
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]

_EXPLORES, _CHOICE = 0, 1

EpsilonSpread = Callable[[float, NDArray[np.int64], int], Floats]
"""From the scheduled `epsilon`, the numbers of columns [B] and the number of all columns to each one's own [B]."""


class QForward(Protocol):
    """A network as a Q behavior policy uses it."""

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""

    def values(self, observations: Any) -> Floats:
        """Returns the values of all actions in observations [B, ...], [B, A]."""


class DenseQ:
    """A Q network of dense layers, in NumPy."""

    def __init__(self, leaves: Any, net: DenseNet) -> None:
        """Takes the observations' parts and the layers."""
        self.leaves = leaves
        self.net = net

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.net.load(flat)

    def values(self, observations: Any) -> Floats:
        """Returns values [B, A]."""
        return self.net(dense_inputs(self.leaves, observations))


class QBehavior(BehaviorPolicy):
    """Takes the action with the largest value, or with probability `epsilon` any of them."""

    def __init__(
        self,
        net: QForward,
        model: CategoricalActions,
        leaves: Any,
        normalize_observations: bool,
        *,
        spread: EpsilonSpread | None = None,
        records_values: bool = False,
    ) -> None:
        """Takes the network, the actions, and the observations' parts.

        Args:
            net: The network.
            model: The actions.
            leaves: The observations' parts.
            normalize_observations: Whether the network sees them shifted and scaled.
            spread: Gives each column of a worker an `epsilon` of its own; None for the same everywhere.
            records_values: Whether fragments tell what every action was worth, `q_values` [T + 1, B, A].
        """
        self.net = net
        self.model = model
        self.filter = ObservationFilter(leaves) if normalize_observations else None
        self.spread = spread
        self.records_values = records_values
        self.epsilon = 1.0
        self._place: tuple[int, int] | None = None
        self._own_epsilons: Floats | None = None

    def load(self, weights: Weights) -> None:
        """Takes over weights, filter statistics and how much to explore."""
        self.net.load(weights.flat.copy())
        if self.filter is not None:
            self.filter.load(weights.filters)
        self.epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)
        self._own_epsilons = None
        self.weights_version = weights.version

    def take_place(self, first_column: int, num_columns: int) -> None:
        """Is told which columns it acts in, from `first_column` on, of the `num_columns` of all workers together."""
        self._place = first_column, num_columns

    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws whether to explore, and which action then, from 0 to 1 each, [T, B, 2]."""
        return generator.random((length, columns, 2), np.float32)

    def new_columns(self, length: int, columns: int) -> SampleBatch:
        """Returns empty `actions` [T, B], and `q_values` [T + 1, B, A] if they are to be recorded."""
        record = SampleBatch(actions=np.empty((length, columns), np.int64))
        if self.records_values:
            record["q_values"] = np.empty((length + 1, columns, self.model.num_outputs), np.float32)
        return record

    def act(self, observations: Any, noise: Floats, record: SampleBatch, t: int, starts: NDArray[np.bool_]) -> Any:
        """Acts once for all columns, and records actions."""
        explores = noise[:, _EXPLORES] < self._epsilons(len(noise))
        if explores.all() and not self.records_values:
            actions = self._any(noise)
        else:
            values = self.net.values(self._filtered(observations))
            actions = values.argmax(-1)
            if explores.any():
                actions = np.where(explores, self._any(noise), actions)
            if self.records_values:
                record["q_values"][t] = values
        record["actions"][t] = actions
        return self.model.to_env(actions)

    def _epsilons(self, columns: int) -> float | Floats:
        """Returns each column's probability to explore, [B] or one for all."""
        if self.spread is None or self._place is None:
            return self.epsilon
        if self._own_epsilons is None:
            first, of_all = self._place
            self._own_epsilons = self.spread(self.epsilon, np.arange(first, first + columns), of_all)
        return self._own_epsilons

    def _any(self, noise: Floats) -> NDArray[np.int64]:
        return (noise[:, _CHOICE] * self.model.num_outputs).astype(np.int64)

    def complete(self, batch: SampleBatch) -> None:
        """Adds what the closing observation is worth, if that is recorded; a replay keeps raw observations."""
        if self.records_values:
            last = map_tree(lambda leaf: leaf[-1], batch["obs"])
            batch["q_values"][-1] = self.net.values(self._filtered(last))

    def actions(self, observations: Any, generator: np.random.Generator | None) -> Any:
        """Returns actions for the env, [B, ...]: the best ones, explored with a generator."""
        actions = self.net.values(self._filtered(observations)).argmax(-1)
        if generator is not None:
            noise = self.noise(generator, 1, len(actions))[0]
            actions = np.where(noise[:, _EXPLORES] < self.epsilon, self._any(noise), actions)
        return self.model.to_env(actions)

    def env_actions(self, actions: Any) -> Any:
        """Turns recorded actions [N] into what the env was given."""
        return self.model.to_env(actions)

    def observation_moments(self, observations: Any) -> dict[str, Moments]:
        """Returns the statistics of raw observations [T, B, ...] by the filter's names."""
        return {} if self.filter is None else self.filter.moments(observations)

    def _filtered(self, observations: Any) -> Any:
        return observations if self.filter is None else self.filter(observations)
