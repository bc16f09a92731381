"""How Q policies act: mostly the best action, now and then another one (NumPy)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.functional.schedules import value_at
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.observation_leaves import dense_inputs
from rlrun.policy.action_space import CategoricalActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.perturbation import Perturbation
from rlrun.policy.return_model import ReturnModel
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]

Exploration = Literal["epsilon_greedy", "soft_q", "parameter_noise"]

_EXPLORES, _CHOICE, _DRAW, _SOFT = 0, 1, 2, 3

EpsilonSpread = Callable[[float, NDArray[np.int64], int], Floats]
"""From the scheduled `epsilon`, the numbers of columns [B] and the number of all columns to each one's own [B]."""


class QForward(Protocol):
    """A network as a Q behavior policy uses it."""

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""

    def outputs(self, observations: Any) -> Floats:
        """Returns what describes the returns of all actions in observations [B, ...], [B, A * K]."""


class DenseQ:
    """A Q network of dense layers, in NumPy."""

    def __init__(self, leaves: Any, trunk: DenseNet, stream: DenseNet, value_stream: DenseNet | None) -> None:
        """Takes the observations' parts and the layers; the last ones are there in dueling networks."""
        self.leaves = leaves
        self.trunk = trunk
        self.stream = stream
        self.value_stream = value_stream

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.trunk.load(flat)
        self.stream.load(flat)
        if self.value_stream is not None:
            self.value_stream.load(flat)

    def outputs(self, observations: Any) -> Floats:
        """Returns outputs [B, A * K]."""
        features = self.trunk(dense_inputs(self.leaves, observations))
        outputs = self.stream(features)
        if self.value_stream is None:
            return outputs
        values = self.value_stream(features)[:, None]
        advantages = outputs.reshape(len(outputs), -1, values.shape[-1])
        dueling: Floats = (values + (advantages - advantages.mean(1, keepdims=True))).reshape(outputs.shape)
        return dueling


class QBehavior(BehaviorPolicy):
    """Takes the action with the largest value, or with probability `epsilon` any of them.

    Soft-Q exploration draws actions from the softmax of values over `temperature` instead of taking the best one; with
    noise on parameters that adapts to `epsilon`, no action is drawn.

    Attributes:
        epsilon: Probability of an action that is drawn from all alike.
        temperature: What soft-Q exploration divides values by.
    """

    net: QForward

    def __init__(
        self,
        net: QForward,
        model: CategoricalActions,
        leaves: Any,
        normalize_observations: bool,
        *,
        returns: ReturnModel,
        exploration: Exploration = "epsilon_greedy",
        perturbation: Perturbation | None = None,
        spread: EpsilonSpread | None = None,
        records_values: bool = False,
    ) -> None:
        """Takes the network, the actions, the observations' parts, and how it explores.

        Args:
            net: The network.
            model: The actions.
            leaves: The tree of `ObservationLeaf`.
            normalize_observations: Whether observations are filtered.
            returns: What the network's outputs mean.
            exploration: How to explore, besides taking any action with probability `epsilon`.
            perturbation: Noise on the parameters with which it explores; None for none.
            spread: Gives each column of a worker an `epsilon` of its own; None for the same everywhere.
            records_values: Whether fragments tell what every action was worth, `q_values` [T + 1, B, A].
        """
        super().__init__(net, leaves, normalize_observations)
        self.model = model
        self.returns = returns
        self.exploration = exploration
        self.perturbation = perturbation
        self.acting_net = net if perturbation is None else copy.deepcopy(net)
        self.spread = spread
        self.records_values = records_values
        self.epsilon = 0.0 if exploration == "parameter_noise" else 1.0
        self.temperature = 1.0
        self._place: tuple[int, int] | None = None
        self._own_epsilons: Floats | None = None

    def load(self, weights: Weights) -> None:
        """Takes over weights, filter statistics and how much to explore."""
        super().load(weights)
        if self.perturbation is not None:
            self.perturbation.load(weights)
        if self.exploration != "parameter_noise":
            self.epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)
        self._own_epsilons = None
        if self.exploration == "soft_q":
            self.temperature = value_at(weights.schedules["temperature"], weights.env_steps)

    def take_place(self, first_column: int, num_columns: int) -> None:
        """Is told which columns it acts in, from `first_column` on, of the `num_columns` of all workers together."""
        self._place = first_column, num_columns

    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws numbers from 0 to 1, [T, B, 3 (+ A)].

        They say whether to take any action, and which one then; what noise on parameters there is; and what is added to
        each action's value in soft-Q exploration.
        """
        number = _SOFT + (self.model.num_outputs if self.exploration == "soft_q" else 0)
        return generator.random((length, columns, number), np.float32)

    def new_columns(self, length: int, columns: int) -> SampleBatch:
        """Returns empty `actions` [T, B], and `q_values` [T + 1, B, A] if they are to be recorded."""
        record = SampleBatch(actions=np.empty((length, columns), np.int64))
        if self.records_values:
            record["q_values"] = np.empty((length + 1, columns, self.model.num_outputs), np.float32)
        return record

    def act(self, observations: Any, noise: Floats, record: SampleBatch, t: int, starts: NDArray[np.bool_]) -> Any:
        """Acts once for all columns, and records actions."""
        if self.perturbation is not None:
            self.perturbation.renew(float(noise[0, _DRAW]), t, starts)
            if t == 0 or starts[0]:
                self.acting_net.load(self.perturbation.parameters())
        explores = noise[:, _EXPLORES] < self._epsilons(len(noise))
        if np.count_nonzero(explores) == len(explores) and not self.records_values:
            actions = self._any(noise)
        else:
            values = self.returns.means(self.acting_net.outputs(self._filtered(observations)))
            actions = self._chosen(values, explores, noise)
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

    def _chosen(self, values: Floats, explores: NDArray[np.bool_], noise: Floats) -> NDArray[np.int64]:
        """Returns any action where it explores, elsewhere the best or one drawn by how good it is, [B]."""
        if self.exploration == "soft_q":
            # arg max (logits + Gumbel noise) is a draw from softmax(logits).
            gumbel = -np.log(-np.log(noise[:, _SOFT:].clip(np.finfo(np.float32).tiny)))
            values = values / np.float32(self.temperature) + gumbel
        actions = values.argmax(-1)
        return np.where(explores, self._any(noise), actions) if np.count_nonzero(explores) else actions

    def _any(self, noise: Floats) -> NDArray[np.int64]:
        return (noise[:, _CHOICE] * self.model.num_outputs).astype(np.int64)

    def values(self, observations: Any) -> Floats:
        """Returns the values [B, A] of all actions in raw observations [B, ...], without noise on parameters."""
        return self.returns.means(self.net.outputs(self._filtered(observations)))

    def complete(self, batch: SampleBatch) -> None:
        """Adds what the closing observation is worth, if that is recorded; noise on parameters adapts to the fragment.

        Observations stay as they are, since a replay keeps raw ones.
        """
        if self.records_values:
            closing = self._filtered(map_tree(lambda leaf: leaf[-1], batch["obs"]))
            batch["q_values"][-1] = self.returns.means(self.acting_net.outputs(closing))
        if self.exploration == "parameter_noise" and self.perturbation is not None:
            rows = self._filtered(map_tree(lambda leaf: leaf[:-1].reshape(-1, *leaf.shape[2:]), batch["obs"]))
            outputs, varied = self.net.outputs(rows), self.acting_net.outputs(rows)
            self.perturbation.adapt(self.returns.means(outputs), self.returns.means(varied))

    def state(self) -> dict[str, Any]:
        """Returns the noise on parameters."""
        return {} if self.perturbation is None else self.perturbation.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        if self.perturbation is not None:
            self.perturbation.load_state(state)

    def actions(self, observations: Any, generator: np.random.Generator | None) -> Any:
        """Returns actions for the env, [B, ...]: the best ones; explored with a generator, if not by noisy parameters.

        Noise on parameters belongs to a worker's fragments and episodes.
        """
        values = self.values(observations)
        if generator is None:
            return self.model.to_env(values.argmax(-1))
        noise = self.noise(generator, 1, len(values))[0]
        return self.model.to_env(self._chosen(values, noise[:, _EXPLORES] < self.epsilon, noise))

    def env_actions(self, actions: Any) -> Any:
        """Turns recorded actions [N] into what the env was given."""
        return self.model.to_env(actions)
