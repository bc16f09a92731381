"""How deterministic policies act: the actor's action with noise around it (NumPy)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.functional.schedules import value_at
from rlrun.policy.action_space import BoxScale
from rlrun.policy.actor_behavior import ActorBehavior, ActorForward
from rlrun.policy.critic_forward import CriticForward
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]

NoiseKind = Literal["gaussian", "ornstein_uhlenbeck"]


class DeterministicActions:
    """Actions between -1 and 1 in units of the bounds.

    Attributes:
        deviation: How wide the noise is, in those units.
    """

    action_dtype = np.float32

    def __init__(self, box: BoxScale) -> None:
        """Takes the bounds."""
        self.box = box
        self.action_shape = (box.size,)
        self.deviation = 0.0

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws standard normal numbers and, behind them, numbers from -1 to 1, [*shape, 2 * D]."""
        return normal_and_uniform(generator, (*shape, self.box.size))

    def sample(self, outputs: Floats, noise: Floats) -> Floats:
        """Shifts the actor's actions by normal noise."""
        return self.shifted(outputs, self.deviation * noise[..., : self.box.size])

    def shifted(self, outputs: Floats, by: Floats) -> Floats:
        """Shifts the actor's actions [B, D] and keeps them within the bounds."""
        shifted: Floats = np.tanh(outputs) + by
        return shifted.clip(-1, 1)

    def mode(self, outputs: Floats) -> Floats:
        """Returns the actor's actions."""
        return np.tanh(outputs)

    def uniform(self, noise: Floats) -> Floats:
        """Returns any actions within the bounds."""
        return noise[..., self.box.size :]

    def to_env(self, actions: Floats) -> NDArray[Any]:
        """Goes to the env's own bounds."""
        return self.box.to_env(actions)


def normal_and_uniform(generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draws standard normal numbers and numbers from -1 to 1 side by side, along the last axis of twice its length."""
    uniform = generator.random(shape, np.float32) * 2 - 1
    return np.concatenate([generator.standard_normal(shape, np.float32), uniform], -1)


class DeterministicBehavior(ActorBehavior):
    """Takes the actor's action and shifts it, by noise that is new at each step or by noise that wanders.

    Wandering noise (Ornstein-Uhlenbeck, arXiv:1509.02971, section 7) goes x' = (1 - theta) x + sigma n, from 0 at the
    beginning of each episode; its stationary deviation is sigma / sqrt(theta (2 - theta)).
    """

    model: DeterministicActions

    def __init__(
        self,
        net: ActorForward,
        model: DeterministicActions,
        leaves: Any,
        *,
        normalize_observations: bool,
        uniform_steps: int,
        kind: NoiseKind,
        theta: float,
        critic: CriticForward | None = None,
    ) -> None:
        """Takes what acts.

        Args:
            net: The actor.
            model: Its actions.
            leaves: The tree of `ObservationLeaf`.
            normalize_observations: Whether observations are shifted and scaled.
            uniform_steps: Env steps until which actions are drawn uniformly.
            kind: Whether noise is new at each step or wanders.
            theta: How much of wandering noise a step takes back.
            critic: Says what actions were worth, if fragments are to tell it; None if not.
        """
        super().__init__(net, model, leaves, normalize_observations=normalize_observations, uniform_steps=uniform_steps)
        self.kind = kind
        self.theta = theta
        self.critic = critic
        self._wandered: Floats | None = None

    def load(self, weights: Weights) -> None:
        """Takes over weights, filter statistics and how wide the noise is."""
        super().load(weights)
        if self.critic is not None:
            self.critic.load(weights.acting)
        self.model.deviation = value_at(weights.schedules["exploration_noise"], weights.env_steps)

    def explored(self, outputs: Floats, noise: Floats, starts: NDArray[np.bool_]) -> Floats:
        """Shifts the actor's actions by the kind of noise."""
        if self.kind == "gaussian":
            return self.model.sample(outputs, noise)
        steps = self.model.deviation * noise[:, : outputs.shape[1]]
        before = np.zeros_like(steps) if self._wandered is None else np.where(starts[:, None], 0, self._wandered)
        self._wandered = ((1 - self.theta) * before + steps).astype(np.float32)
        return self.model.shifted(outputs, self._wandered)

    def complete(self, batch: SampleBatch) -> None:
        """Adds, if that is asked for, what the actor's own actions are worth, and those that were taken.

        `values` is [T + 1, B], `taken_values` [T, B]: two passes over the whole fragment.
        """
        if self.critic is None:
            return
        taken = batch["actions"]
        length, columns = taken.shape[:2]
        cells = (length + 1) * columns
        rows = self._filtered(map_tree(lambda leaf: leaf.reshape(cells, *leaf.shape[2:]), batch["obs"]))
        own = self.model.mode(self.net.outputs(rows))
        batch["values"] = self.critic.values(rows, own).reshape(length + 1, columns)
        began = map_tree(lambda leaf: leaf[: length * columns], rows)
        batch["taken_values"] = self.critic.values(began, taken.reshape(length * columns, -1)).reshape(length, columns)

    def state(self) -> dict[str, Any]:
        """Returns where the noise has wandered to."""
        return {} if self._wandered is None else {"wandered": self._wandered.copy()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._wandered = state.get("wandered")
