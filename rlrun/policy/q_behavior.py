"""How Q policies act: mostly the best action, now and then another one (NumPy)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
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

    def __init__(self, net: QForward, model: CategoricalActions, leaves: Any, normalize_observations: bool) -> None:
        """Takes the network, the actions, and the observations' parts."""
        self.net = net
        self.model = model
        self.filter = ObservationFilter(leaves) if normalize_observations else None
        self.epsilon = 1.0

    def load(self, weights: Weights) -> None:
        """Takes over weights, filter statistics and how much to explore."""
        self.net.load(weights.flat.copy())
        if self.filter is not None:
            self.filter.load(weights.filters)
        self.epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)
        self.weights_version = weights.version

    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws whether to explore, and which action then, from 0 to 1 each, [T, B, 2]."""
        return generator.random((length, columns, 2), np.float32)

    def new_columns(self, length: int, columns: int) -> SampleBatch:
        """Returns empty `actions` [T, B]."""
        return SampleBatch(actions=np.empty((length, columns), np.int64))

    def act(self, observations: Any, noise: Floats, record: SampleBatch, t: int, starts: NDArray[np.bool_]) -> Any:
        """Acts once for all columns, and records actions."""
        explores = noise[:, _EXPLORES] < self.epsilon
        if explores.all():
            actions = self._any(noise)
        else:
            actions = self.net.values(self._filtered(observations)).argmax(-1)
            if explores.any():
                actions = np.where(explores, self._any(noise), actions)
        record["actions"][t] = actions
        return self.model.to_env(actions)

    def _any(self, noise: Floats) -> NDArray[np.int64]:
        return (noise[:, _CHOICE] * self.model.num_outputs).astype(np.int64)

    def complete(self, batch: SampleBatch) -> None:
        """Leaves the fragment as it is: a replay keeps raw observations."""

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
