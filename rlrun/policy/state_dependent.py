"""Exploration by noise that is a function of the observation: the acting side of `rlrun.nn.state_dependent` (NumPy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.nn.dense_net import VARIANCE_FLOOR, DenseNet
from rlrun.nn.observation_leaves import dense_inputs
from rlrun.policy.action_space import ActionModel
from rlrun.policy.actor_behavior import ActorActions
from rlrun.policy.behavior import ActorCriticBehavior
from rlrun.policy.soft_behavior import SoftBehavior

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class NoiseMatrix:
    """The matrix that noise is made by.

    Attributes:
        offset: Where the logarithms of its entries' deviations lie in the flat parameter vector.
        features: F, its rows.
        actions: D, its columns.
        every: Steps after which it is drawn anew; None for once in a block of noise.
    """

    offset: int
    features: int
    actions: int
    every: int | None

    @property
    def size(self) -> int:
        """Numbers in it."""
        return self.features * self.actions

    def draw(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws standard normal matrices for each step and column, [T, B, F * D], the same ones for some steps."""
        every = min(self.every or length, length)
        drawn = generator.standard_normal((-(-length // every), columns, self.size), np.float32)
        return np.repeat(drawn, every, axis=0)[:length]


class StateDependentActor:
    """An actor of dense layers, in NumPy, that remembers its last features and how they are explored."""

    def __init__(self, leaves: Any, trunk: DenseNet, head: DenseNet, matrix: NoiseMatrix) -> None:
        """Takes the observations' parts, the layers, and the noise matrix."""
        self.leaves = leaves
        self.trunk = trunk
        self.head = head
        self.matrix = matrix
        self._stds = np.zeros((matrix.features, matrix.actions), np.float32)
        self._features: Floats = np.zeros((0, matrix.features), np.float32)
        self._deviations: Floats = np.zeros((0, matrix.actions), np.float32)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.trunk.load(flat)
        self.head.load(flat)
        matrix = self.matrix
        self._stds = np.exp(flat[matrix.offset : matrix.offset + matrix.size]).reshape(matrix.features, matrix.actions)

    def outputs(self, observations: Any) -> Floats:
        """Returns means and log standard deviations side by side, [B, 2 * D]."""
        self._features = self.trunk(dense_inputs(self.leaves, observations))
        self._deviations = np.sqrt(np.square(self._features) @ np.square(self._stds) + np.float32(VARIANCE_FLOOR))
        return np.concatenate([self.head(self._features), np.log(self._deviations)], -1)

    def units(self, drawn: Floats) -> Floats:
        """Returns the noise of the last observations in units of their standard deviations, [B, D].

        Args:
            drawn: Standard normal matrices, [B, F * D].
        """
        matrices = drawn.reshape(-1, self.matrix.features, self.matrix.actions) * self._stds
        shifts = np.matmul(self._features[:, None], matrices)[:, 0]
        units: Floats = shifts / self._deviations
        return units


class StateDependentActorCritic:
    """Such an actor beside a value net."""

    def __init__(self, actor: StateDependentActor, value: DenseNet) -> None:
        """Takes both."""
        self.actor = actor
        self.value = value

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.actor.load(flat)
        self.value.load(flat)

    def outputs(self, observations: Any) -> tuple[Floats, Floats | None]:
        """Returns outputs [B, 2 * D] and no values."""
        return self.actor.outputs(observations), None

    def values(self, observations: Any) -> Floats:
        """Returns values [N]."""
        return self.value(dense_inputs(self.actor.leaves, observations))[:, 0]


class StateDependentBehavior(ActorCriticBehavior):
    """Draws actions from the distribution that an actor-critic puts out, by noise matrices that last for some steps."""

    def __init__(
        self, net: StateDependentActorCritic, model: ActionModel, leaves: Any, normalize_observations: bool
    ) -> None:
        """Takes the network, the family of distributions, and the observations' parts."""
        super().__init__(net, model, leaves, normalize_observations)
        self.actor = net.actor

    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws the noise matrices of a whole fragment, [T, B, F * D]."""
        return self.actor.matrix.draw(generator, length, columns)

    def sampled(self, outputs: Floats, noise: Floats) -> NDArray[Any]:
        """Draws the policy's own actions."""
        return self.model.sample(outputs, self.actor.units(noise))


class StateDependentSoftBehavior(SoftBehavior):
    """Draws a soft policy's actions by noise matrices that last for some steps."""

    def __init__(
        self,
        net: StateDependentActor,
        model: ActorActions,
        leaves: Any,
        *,
        normalize_observations: bool,
        uniform_steps: int,
    ) -> None:
        """Takes what `ActorBehavior` takes."""
        super().__init__(net, model, leaves, normalize_observations=normalize_observations, uniform_steps=uniform_steps)
        self.actor = net

    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws a fragment's noise matrices and, behind them, the actions' own noise, [T, B, F * D + ...]."""
        return np.concatenate(
            [self.actor.matrix.draw(generator, length, columns), super().noise(generator, length, columns)], -1
        )

    def act(self, observations: Any, noise: Floats, record: SampleBatch, t: int, starts: NDArray[np.bool_]) -> Any:
        """Acts once for all columns, and records actions."""
        size = self.actor.matrix.size
        self._drawn = noise[:, :size]
        return super().act(observations, noise[:, size:], record, t, starts)

    def explored(self, outputs: Floats, noise: Floats, starts: NDArray[np.bool_]) -> NDArray[Any]:
        """Draws the actions of a step."""
        return self.model.sample(outputs, self.actor.units(self._drawn))
