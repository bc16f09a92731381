"""Additive action noise for deterministic policies: Gaussian or Ornstein-Uhlenbeck (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats
from rlrun.engine.policy.action_spaces.box import DeterministicBoxActions
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.settings.schedules import value_at

REPEATED_NOISE = "rlrun.engine.policy.exploration.repeated_noise:RepeatedNoise"
"""Import path of the exploration strategy with repeated noise."""


def action_noise(actions: DeterministicBoxActions, kind: str, theta: float) -> Exploration:
    """Creates the exploration strategy of a deterministic policy, given the kind of noise."""
    if kind == "repeated_gaussian":
        made: Exploration = load_internal(REPEATED_NOISE)(ActionNoise(actions))
        return made
    return ActionNoise(actions, kind, theta)


class ActionNoise(Exploration):
    """Additive Gaussian action noise, either independent per step or an Ornstein-Uhlenbeck process.

    The Ornstein-Uhlenbeck process is x' = (1 - theta) x + sigma n, from x = 0 at each episode start. The stationary
    standard deviation is sigma / sqrt(theta (2 - theta)). With theta = 1, noise is independent at each step.

    Args:
        actions: The policy's action space.
        kind: `gaussian` or `ornstein_uhlenbeck`.
        theta: Mean reversion rate of Ornstein-Uhlenbeck noise.

    Attributes:
        std: The noise's sigma in units of half the action range: the scheduled setting `exploration_noise`.

    Source:
        Uhlenbeck and Ornstein 1930, as in Lillicrap et al., arXiv:1509.02971, section 7.
    """

    schedules = ("exploration_noise",)

    def __init__(self, actions: DeterministicBoxActions, kind: str = "gaussian", theta: float = 0.0) -> None:
        self.actions = actions
        self.kind = kind
        self.theta = theta
        self.std = 0.0
        self._correlated: Floats | None = None

    @override
    def load(self, weights: Weights) -> None:
        """Updates the noise's standard deviation from the scheduled setting `exploration_noise`."""
        self.std = value_at(weights.schedules["exploration_noise"], weights.env_steps)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        return self.actions.noise(generator, (length, slots))

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Returns deterministic actions plus noise, clipped to [-1, 1]; the noise may be correlated over steps."""
        outputs = run()["outputs"]
        steps = self.std * noise
        if self.kind == "gaussian":
            return self.actions.shifted(outputs, steps)
        last = np.zeros_like(steps) if self._correlated is None else self._correlated
        before = np.where(episode_starts[:, None], 0, last)
        after = ((1 - self.theta) * before + steps).astype(np.float32)
        self._correlated = after if acts is None else np.where(acts[:, None], after, last)
        return self.actions.shifted(outputs, after)

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Returns deterministic actions plus Gaussian noise that is independent at each call, clipped to [-1, 1]."""
        outputs = heads["outputs"]
        noise = self.actions.noise(generator, (len(outputs),))
        return self.actions.shifted(outputs, self.std * noise)

    @override
    def state(self) -> dict[str, Any]:
        """Returns the current value of the Ornstein-Uhlenbeck process in each env slot, for a checkpoint."""
        return {} if self._correlated is None else {"action_noise": self._correlated.copy()}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._correlated = state.get("action_noise")
