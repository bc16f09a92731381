"""What acts: a network, an action distribution and an observation filter, on the rollout side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.functional.moments import Moments
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.observation_leaves import dense_inputs
from rlrun.policy.action_space import ActionModel
from rlrun.policy.observation_filter import ObservationFilter
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]


class ActingNet(Protocol):
    """A network as any behavior policy uses it; each kind says in its own protocol what it puts out."""

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P], which nobody writes to; they may lie in the object store."""


class BehaviorPolicy(ABC):
    """Acts like a policy without its learning side; picklable, its weights arrive by broadcasts.

    Attributes:
        net: What it acts with.
        filter: Shifts and scales observations before the network sees them; None if they stay as they are.
        weights_version: Version of the weights it acts with, -1 before the first.
    """

    weights_version: int = -1

    def __init__(self, net: ActingNet, leaves: Any, normalize_observations: bool) -> None:
        """Takes the network, the tree of `ObservationLeaf`, and whether observations are filtered."""
        self.net = net
        self.filter = ObservationFilter(leaves) if normalize_observations else None

    def load(self, weights: Weights) -> None:
        """Takes over weights and filter statistics."""
        self.net.load(weights.acting)
        if self.filter is not None:
            self.filter.load(weights.filters)
        self.weights_version = weights.version

    @abstractmethod
    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws the noise of a whole fragment, [T, B, ...]: ten times cheaper than step by step."""

    @abstractmethod
    def new_columns(self, length: int, columns: int) -> SampleBatch:
        """Returns empty arrays for what `act` records, [T, B, ...]."""

    def take_place(self, first_column: int, num_columns: int) -> None:
        """Is told which columns it acts in: from `first_column` on, of the `num_columns` of all workers together."""
        return

    @abstractmethod
    def act(self, observations: Any, noise: Floats, record: SampleBatch, t: int, starts: NDArray[np.bool_]) -> Any:
        """Acts once for all columns.

        Args:
            observations: Raw observations, a tree of [B, ...].
            noise: This step's noise, [B, ...].
            record: The fragment's columns; row t is filled.
            t: The step within the fragment.
            starts: In which columns an episode begins with this observation, [B]; what is remembered there ends.

        Returns:
            Actions for the env, [B, ...].
        """

    def state(self) -> dict[str, Any]:
        """Returns what it remembers from step to step besides its weights; nothing by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        return

    @abstractmethod
    def complete(self, batch: SampleBatch) -> None:
        """Turns a recorded fragment into what the policy learns from, in place.

        Args:
            batch: What was recorded, with the raw observations `obs` [T + 1, B, ...].
        """

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Is told in which columns an episode begins with what `actions` is asked about next, [B].

        Only policies that remember what they saw need to know.
        """
        return

    @abstractmethod
    def actions(self, observations: Any, generator: np.random.Generator | None) -> Any:
        """Returns actions for the env, [B, ...]: drawn with a generator, the likeliest ones without."""

    @abstractmethod
    def env_actions(self, actions: Any) -> Any:
        """Turns recorded actions [N, ...] into what the env was given."""

    def observation_moments(self, observations: Any, filled: NDArray[np.bool_]) -> dict[str, Moments]:
        """Returns the statistics of raw observations that the filter wants, by its names.

        Args:
            observations: A tree of observations, [T, B, ...].
            filled: Whether a row holds an observation, a step's or an episode's final one, [T, B]; the others are
                garbage.
        """
        return {} if self.filter is None else self.filter.moments(observations, filled)

    def _filtered(self, observations: Any) -> Any:
        return observations if self.filter is None else self.filter(observations)


class ActorCriticForward(Protocol):
    """A network as an actor-critic behavior policy uses it."""

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""

    def outputs(self, observations: Any) -> tuple[Floats, Floats | None]:
        """Returns outputs [B, K], and values [B] if they cost nothing extra."""

    def values(self, observations: Any) -> Floats:
        """Returns values [N] of observations [N, ...]."""


class DenseActorCritic:
    """An actor-critic of dense layers, in NumPy.

    Only the policy's layers run at each step; the values of a whole fragment are one large product after it.
    """

    def __init__(self, leaves: Any, policy: DenseNet, value: DenseNet, log_stds: tuple[int, int] | None) -> None:
        """Takes the observations' parts, both nets, and where free log standard deviations lie (offset, number)."""
        self.leaves = leaves
        self.policy = policy
        self.value = value
        self.log_stds = log_stds
        self._free = np.zeros(0, np.float32)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.policy.load(flat)
        self.value.load(flat)
        if self.log_stds is not None:
            offset, number = self.log_stds
            self._free = flat[offset : offset + number]

    def outputs(self, observations: Any) -> tuple[Floats, Floats | None]:
        """Returns outputs [B, K] and no values."""
        outputs = self.policy(dense_inputs(self.leaves, observations))
        if self.log_stds is None:
            return outputs, None
        return np.concatenate([outputs, np.broadcast_to(self._free, (len(outputs), len(self._free)))], -1), None

    def values(self, observations: Any) -> Floats:
        """Returns values [N]."""
        return self.value(dense_inputs(self.leaves, observations))[:, 0]


class ActorCriticBehavior(BehaviorPolicy):
    """Draws actions from the distribution that the network puts out."""

    net: ActorCriticForward

    def __init__(self, net: ActorCriticForward, model: ActionModel, leaves: Any, normalize_observations: bool) -> None:
        """Takes the network, the family of distributions, and the observations' parts."""
        super().__init__(net, leaves, normalize_observations)
        self.model = model

    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws the noise of a whole fragment, [T, B, num_noise]."""
        return self.model.noise(generator, (length, columns))

    def new_columns(self, length: int, columns: int) -> SampleBatch:
        """Returns empty `actions` [T, B, ...], `outputs` [T, B, K] and `values` [T + 1, B]."""
        return SampleBatch(
            actions=np.empty((length, columns, *self.model.action_shape), self.model.action_dtype),
            outputs=np.empty((length, columns, self.model.num_outputs), np.float32),
            values=np.full((length + 1, columns), np.nan, np.float32),
        )

    def act(self, observations: Any, noise: Floats, record: SampleBatch, t: int, starts: NDArray[np.bool_]) -> Any:
        """Acts once for all columns, and records outputs, actions and, if they came along, values."""
        outputs, values = self.net.outputs(self._filtered(observations))
        actions = self.sampled(outputs, noise)
        record["outputs"][t] = outputs
        record["actions"][t] = actions
        if values is not None:
            record["values"][t] = values
        return self.model.to_env(actions)

    def sampled(self, outputs: Floats, noise: Floats) -> Any:
        """Draws the policy's own actions [B, ...] from outputs [B, K] and this step's noise."""
        return self.model.sample(outputs, noise)

    def complete(self, batch: SampleBatch) -> None:
        """Filters the observations, and adds `logp` [T, B] and `values` [T + 1, B]."""
        batch["obs"] = self._filtered(batch["obs"])
        batch["logp"] = self.model.log_prob(batch.pop("outputs"), batch["actions"])
        values = batch["values"]
        missing = 0 if np.isnan(values[0, 0]) else len(values) - 1
        cells = values[missing:].size
        rows = map_tree(lambda leaf: leaf[missing:].reshape(cells, *leaf.shape[2:]), batch["obs"])
        values[missing:] = self.net.values(rows).reshape(-1, values.shape[1])

    def actions(self, observations: Any, generator: np.random.Generator | None) -> Any:
        """Returns actions for the env, [B, ...]."""
        outputs, _ = self.net.outputs(self._filtered(observations))
        if generator is None:
            return self.model.to_env(self.model.mode(outputs))
        return self.model.to_env(self.model.sample(outputs, self.model.noise(generator, (len(outputs),))))

    def env_actions(self, actions: Any) -> Any:
        """Turns recorded actions [N, ...] into what the env was given."""
        return self.model.to_env(actions)
