"""Windows of episodes for a Decision Transformer: recorded steps with returns-to-go, or the latest steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet, Indices
from rlrun.engine.datasets.transitions import Sequences, returns_to_go
from rlrun.engine.nn.observation_leaves import ObservationTree, dense_inputs

if TYPE_CHECKING:
    from rlrun.algorithms.decision_transformer.transformer import DecisionTransformer


RETURNS = "returns_to_go"
"""Column of the sum of rewards from a step to its episode's end, including the step's own reward, [S, K]."""

STEPS = "episode_steps"
"""Column of the number of each step in its episode, [S, K]."""

Floats = NDArray[np.float32]

COUNT, STEP, TO_GO = -3, -2, -1
"""Entries of a recurrent state: number of steps in the context, number of steps in the episode, and return-to-go."""


@dataclass(frozen=True)
class Context:
    """Layout of a recurrent state [B, state_size] that holds an episode's last K steps, oldest first.

    Three numbers follow the steps: the number of steps held, the number of steps so far, and the return-to-go.

    Attributes:
        length: K, steps in the context.
        features: Number of features of an observation, D.
        actions: Number of features of an action, A.
    """

    length: int
    features: int
    actions: int

    @property
    def state_size(self) -> int:
        """Size of the recurrent state that stores the context."""
        return self.length * (1 + self.features + self.actions) + 3

    def rows(self, state: Floats) -> Floats:
        """View of a state as its K steps, [B, K, 1 + D + A]: return-to-go, D observation and A action features."""
        return state[:, :-3].reshape(len(state), self.length, 1 + self.features + self.actions)

    def with_observation(self, state: Floats, features: Floats, target_return: float) -> Floats:
        """Returns the state extended by a step without an action yet; an empty state starts with the target return.

        Args:
            state: States before the step, [B, state_size].
            features: Features of the observations, [B, D].
            target_return: Desired return of the episode.
        """
        slots, steps, count = len(state), self.rows(state), state[:, COUNT]
        to_go = np.where(count == 0, np.float32(target_return), state[:, TO_GO])[:, None]
        moved = np.concatenate([steps[:, 1:], steps[:, -1:]], 1)
        steps = np.where((count == self.length)[:, None, None], moved, steps)
        newest = np.concatenate([to_go, features, np.zeros_like(features, shape=(slots, self.actions))], -1)
        count = np.minimum(count + 1, self.length)[:, None]
        steps = np.where(self._is_newest(count)[..., None], newest[:, None], steps)
        return np.concatenate([steps.reshape(slots, -1), count, state[:, STEP, None] + 1, to_go], -1)

    def with_actions(self, state: Floats, actions: Floats) -> Floats:
        """Writes the features of the action taken into the newest step of the context; returns the new state."""
        steps, before = self.rows(state), 1 + self.features
        is_newest = self._is_newest(state[:, COUNT, None])[..., None]
        told = np.where(is_newest, actions[:, None], steps[..., before:])
        steps = np.concatenate([steps[..., :before], told], -1)
        return np.concatenate([steps.reshape(len(state), -1), state[:, COUNT:]], -1)

    def _is_newest(self, count: Floats) -> NDArray[np.bool_]:
        """Whether a step of the context is the newest of `count` [B, 1] steps, [B, K]."""
        found: NDArray[np.bool_] = np.arange(self.length) == count - 1
        return found

    def numbers(self, state: Floats) -> NDArray[np.int64]:
        """Time step, counted from the start of the episode, of each step in the context, [envs, K]."""
        oldest = state[:, STEP] - state[:, COUNT]
        return (oldest[:, None] + np.arange(self.length)).astype(np.int64)


class ContextInputs:
    """Updates a context between observations: stores the actions taken, and subtracts rewards from the return-to-go.

    Args:
        context: Layout of the state.
        is_discrete: Whether actions are Discrete, and thus one-hot encoded.
    """

    knows_chosen = False

    def __init__(self, context: Context, *, is_discrete: bool) -> None:
        self.context = context
        self.is_discrete = is_discrete

    def after_actions(self, state: Floats, actions: NDArray[Any]) -> Floats:
        """Stores the policy's actions [envs, ...] in the newest step of the context."""
        features = actions
        if self.is_discrete:
            features = (actions[:, None] == np.arange(self.context.actions)).astype(np.float32)
        return self.context.with_actions(state, features)

    def after_rewards(self, state: Floats, rewards: NDArray[Any]) -> Floats:
        """Subtracts rewards [envs] from the context's returns-to-go, in envs that took a step."""
        taken = np.where(state[:, COUNT] > 0, rewards, 0.0).astype(np.float32)
        return np.concatenate([state[:, :TO_GO], (state[:, TO_GO] - taken)[:, None]], -1)


class ContextNetwork:
    """Network for action selection: adds an observation to the context, and runs the transformer on it.

    Args:
        transformer: Transformer to copy.
        context: Layout of the state.
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.
        return_scale: Divisor of returns-to-go.

    Attributes:
        target_return: Desired return of subsequent episodes.
    """

    def __init__(
        self,
        transformer: DecisionTransformer,
        context: Context,
        leaves: ObservationTree,
        *,
        return_scale: float,
        target_return: float,
    ) -> None:
        from rlrun.engine.nn.torch_network import TorchModule

        self.transformer = TorchModule(transformer)
        self.context = context
        self.leaves = leaves
        self.return_scale = return_scale
        self.target_return = target_return
        self.state_size = context.state_size

    def load(self, flat: Floats) -> None:
        """Loads the transformer's parameters from a flat vector."""
        import torch

        torch.nn.utils.vector_to_parameters(torch.from_numpy(flat.copy()), self.transformer.module.parameters())

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[dict[str, Floats], Floats | None]:
        """Forward pass of one env step; see `ActingNetwork`."""
        features = dense_inputs(self.leaves, inputs["obs"])
        before = np.zeros((len(features), self.state_size), np.float32) if state is None else state
        after = self.context.with_observation(before, features, self.target_return)
        returns, states, actions = np.split(self.context.rows(after), [1, 1 + self.context.features], -1)
        returns = returns[..., 0] / np.float32(self.return_scale)
        outputs = self.transformer(returns, states, actions, self.context.numbers(after))
        newest = after[:, COUNT].astype(np.int64) - 1
        return {"outputs": outputs[np.arange(len(after)), newest]}, after


class Windows(Sequences):
    """Windows of K consecutive steps of a data set, padded where the episode ends earlier.

    Each step begins a window. Columns are `obs`, `actions`, `returns_to_go`, `episode_steps` and `valid`, [S, K].
    Entries after the episode's end are zero and not valid.

    Args:
        data: The data set.
        length: K, number of steps in a window.
    """

    def __init__(self, data: DataSet, *, length: int) -> None:
        super().__init__(data, length=length, stride=1)

    @cached_property
    def _returns(self) -> NDArray[np.float64]:
        return returns_to_go(self.data, gamma=1.0)

    @override
    def gather(self, items: Indices) -> SampleBatch:
        """Reads windows, each given by the index of its first step in the data set, [rows]."""
        rows, steps, valid = self.located(items)
        batch = SampleBatch(self.read(rows, ("obs", "actions")), valid=valid, **{STEPS: steps})
        batch[RETURNS] = self._returns[rows].astype(np.float32)
        return batch.zero_invalid()
