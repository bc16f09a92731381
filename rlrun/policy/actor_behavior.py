"""How actors under critics act: what the actor says, explored, and at first anything (NumPy)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.observation_leaves import dense_inputs
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]
Actions = NDArray[Any]


class ActorForward(Protocol):
    """An actor as a behavior policy uses it."""

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P], those of the critics included."""

    def outputs(self, observations: Any) -> Floats:
        """Returns what the actor puts out for observations [B, ...], [B, K]."""


class DenseActor:
    """An actor of dense layers, in NumPy."""

    def __init__(self, leaves: Any, net: DenseNet) -> None:
        """Takes the observations' parts and the layers."""
        self.leaves = leaves
        self.net = net

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        self.net.load(flat)

    def outputs(self, observations: Any) -> Floats:
        """Returns outputs [B, K]."""
        return self.net(dense_inputs(self.leaves, observations))


class ActorActions(Protocol):
    """The actions that an actor's outputs describe, and what is tried out around them."""

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one of the policy's own actions."""

    @property
    def action_dtype(self) -> type[np.generic]:
        """Their type."""

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws noise for a block of actions, [*shape, ...]."""

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Returns explored actions for outputs [B, K]."""

    def mode(self, outputs: Floats) -> Actions:
        """Returns actions that are not explored."""

    def uniform(self, noise: Floats) -> Actions:
        """Returns actions each as likely as any other."""

    def to_env(self, actions: Actions) -> Actions:
        """Turns the policy's own actions into elements of the env's action space."""


class ActorBehavior(BehaviorPolicy):
    """Acts by an actor alone; a replay keeps raw observations and the policy's own actions.

    Attributes:
        acts_uniformly: Whether it takes actions each as likely as any other, as long as nothing is learned.
    """

    net: ActorForward

    def __init__(
        self, net: ActorForward, model: ActorActions, leaves: Any, *, normalize_observations: bool, uniform_steps: int
    ) -> None:
        """Takes what acts.

        Args:
            net: The actor.
            model: The actions that its outputs describe.
            leaves: The tree of `ObservationLeaf`.
            normalize_observations: Whether observations are shifted and scaled.
            uniform_steps: Env steps of all workers together until which actions are drawn uniformly.
        """
        super().__init__(net, leaves, normalize_observations)
        self.model = model
        self.uniform_steps = uniform_steps
        self.acts_uniformly = uniform_steps > 0

    def load(self, weights: Weights) -> None:
        """Takes over weights, filter statistics and whether anything is learned by now."""
        super().load(weights)
        self.acts_uniformly = weights.env_steps < self.uniform_steps

    def noise(self, generator: np.random.Generator, length: int, columns: int) -> Floats:
        """Draws the noise of a whole fragment, [T, B, ...]."""
        return self.model.noise(generator, (length, columns))

    def new_columns(self, length: int, columns: int) -> SampleBatch:
        """Returns empty `actions` [T, B, ...]."""
        return SampleBatch(actions=np.empty((length, columns, *self.model.action_shape), self.model.action_dtype))

    def act(self, observations: Any, noise: Floats, record: SampleBatch, t: int, starts: NDArray[np.bool_]) -> Any:
        """Acts once for all columns, and records actions."""
        if self.acts_uniformly:
            actions = self.model.uniform(noise)
        else:
            actions = self.explored(self.net.outputs(self._filtered(observations)), noise, starts)
        record["actions"][t] = actions
        return self.model.to_env(actions)

    @abstractmethod
    def explored(self, outputs: Floats, noise: Floats, starts: NDArray[np.bool_]) -> Actions:
        """Returns the actions of a step.

        Args:
            outputs: What the actor puts out, [B, K].
            noise: The step's noise, [B, ...].
            starts: In which columns an episode begins, [B].
        """

    def complete(self, batch: SampleBatch) -> None:
        """Leaves the fragment as it is: a replay keeps raw observations."""

    def actions(self, observations: Any, generator: np.random.Generator | None) -> Any:
        """Returns actions for the env, [B, ...]: those of the actor, explored with a generator."""
        outputs = self.net.outputs(self._filtered(observations))
        if generator is None:
            return self.model.to_env(self.model.mode(outputs))
        return self.model.to_env(self.model.sample(outputs, self.model.noise(generator, (len(outputs),))))

    def env_actions(self, actions: Any) -> Any:
        """Turns recorded actions [N, ...] into what the env was given."""
        return self.model.to_env(actions)
