"""How Q policies with memory act: mostly the best action given all that was seen in the episode (NumPy)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves
from rlrun.functional.schedules import value_at
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.observation_leaves import dense_inputs
from rlrun.nn.recurrent import Lstm
from rlrun.policy.action_space import CategoricalActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]

_EXPLORES, _CHOICE = 0, 1


class RecurrentQForward(Protocol):
    """A network with memory as a behavior policy uses it."""

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""

    def step(self, observations: Any, memory: Floats) -> tuple[Floats, Floats]:
        """Returns the values of all actions [B, A], and what is remembered after observations [B, ...], [B, 2 H]."""


class DenseRecurrentQ:
    """Dense layers, an LSTM and a head, in NumPy."""

    def __init__(self, parts: Any, trunk: DenseNet, lstm: Lstm, head: DenseNet, *, dueling: bool) -> None:
        """Takes the observations' parts and the layers.

        Args:
            parts: The tree of `ObservationLeaf`.
            trunk: The layers before the LSTM.
            lstm: The LSTM.
            head: The layer behind it.
            dueling: Whether its first output is an observation's own value.
        """
        self.parts = parts
        self.trunk = trunk
        self.lstm = lstm
        self.head = head
        self.dueling = dueling

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.trunk.load(flat)
        self.lstm.load(flat)
        self.head.load(flat)

    def step(self, observations: Any, memory: Floats) -> tuple[Floats, Floats]:
        """Returns values [B, A] and what is remembered [B, 2 H]."""
        after = self.lstm(self.trunk(dense_inputs(self.parts, observations)), memory)
        values = self.head(after[:, : after.shape[1] // 2])
        if self.dueling:
            advantages = values[:, 1:]
            values = values[:, :1] + advantages - advantages.mean(-1, keepdims=True)
        return values, after


class RecurrentQBehavior(BehaviorPolicy):
    """Takes the action with the largest value, or with probability `epsilon` any of them, and remembers each episode.

    Attributes:
        epsilon: Probability of an action that is drawn from all alike.
    """

    net: RecurrentQForward

    def __init__(
        self, net: RecurrentQForward, width: int, model: CategoricalActions, parts: Any, normalize_observations: bool
    ) -> None:
        """Takes the network, its LSTM's width H, the actions, and the observations' parts."""
        super().__init__(net, parts, normalize_observations)
        self.width = width
        self.model = model
        self.epsilon = 1.0
        self._memory: Floats = np.zeros((0, 2 * width), np.float32)

    def load(self, weights: Weights) -> None:
        """Takes over weights, filter statistics and how much to explore; what is remembered stays."""
        super().load(weights)
        self.epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)

    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws whether to explore, and which action then, from 0 to 1 each, [T, B, 2]."""
        return generator.random((length, columns, 2), np.float32)

    def new_columns(self, length: int, columns: int) -> SampleBatch:
        """Returns empty `actions` [T, B], `starts` [T, B] and `memory` [T, B, 2 H]."""
        return SampleBatch(
            actions=np.empty((length, columns), np.int64),
            starts=np.empty((length, columns), np.bool_),
            memory=np.empty((length, columns, 2 * self.width), np.float32),
        )

    def act(self, observations: Any, noise: Floats, record: SampleBatch, t: int, starts: NDArray[np.bool_]) -> Any:
        """Acts once for all columns; records actions, where episodes begin, and what is remembered before each step."""
        self._forget(starts)
        record["starts"][t] = starts
        record["memory"][t] = self._memory
        values, self._memory = self.net.step(self._filtered(observations), self._memory)
        actions = self._explored(values.argmax(-1), noise)
        record["actions"][t] = actions
        return self.model.to_env(actions)

    def state(self) -> dict[str, Any]:
        """Returns what it remembers of each column's episode."""
        return {"memory": self._memory.copy()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._memory = np.array(state["memory"], np.float32)

    def complete(self, batch: SampleBatch) -> None:
        """Leaves the fragment as it is: a replay keeps raw observations."""

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Forgets what was seen in columns where an episode begins, [B]."""
        self._forget(starts)

    def actions(self, observations: Any, generator: np.random.Generator | None) -> Any:
        """Returns actions for the env, [B, ...]: the best ones, explored with a generator."""
        columns = len(leaves(observations)[0])
        if len(self._memory) != columns:
            self._forget(np.ones(columns, np.bool_))
        values, self._memory = self.net.step(self._filtered(observations), self._memory)
        best = values.argmax(-1)
        return self.model.to_env(
            best if generator is None else self._explored(best, self.noise(generator, 1, columns)[0])
        )

    def env_actions(self, actions: Any) -> Any:
        """Turns recorded actions [N] into what the env was given."""
        return self.model.to_env(actions)

    def _forget(self, starts: NDArray[np.bool_]) -> None:
        if len(self._memory) != len(starts):
            self._memory = np.zeros((len(starts), 2 * self.width), np.float32)
        elif starts.any():
            self._memory[starts] = 0.0

    def _explored(self, best: NDArray[np.int64], noise: Floats) -> NDArray[np.int64]:
        explores = noise[:, _EXPLORES] < self.epsilon
        if not explores.any():
            return best
        return np.where(explores, (noise[:, _CHOICE] * self.model.num_outputs).astype(np.int64), best)
