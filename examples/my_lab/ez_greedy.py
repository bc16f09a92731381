"""A custom exploration: epsilon-greedy with repeated actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.plugin import (
    ActionMask,
    Actions,
    DiscreteActions,
    Exploration,
    Floats,
    Heads,
    RunNetwork,
    Weights,
    uniform_choices,
    value_at,
)

EXPLORES, ACTION, DURATION = range(3)


class EZGreedy(Exploration):
    """Epsilon-greedy with repeated random actions (arXiv:2006.01782, algorithm 1).

    To explore, it draws an action uniformly and repeats it for n steps, with P(n)
    proportional to n^-mu. It stops early if an action mask forbids the action.

    Args:
        actions: The policy's actions, A of them.
        mu: How fast long repetitions become rare.
        max_duration: Maximum number of steps of a repetition.

    Attributes:
        epsilon: Probability that a repetition begins, a scheduled setting.
    """

    schedules = ("epsilon",)

    def __init__(
        self, actions: DiscreteActions, mu: float = 2.0, max_duration: int = 100
    ) -> None:
        self.num_actions = actions.num_outputs
        self.epsilon = 1.0
        cumulated = np.cumsum(np.arange(1, max_duration + 1) ** -mu)
        self._durations = cumulated / cumulated[-1]
        self._left = self._repeated = np.zeros(0, np.int64)

    def load(self, weights: Weights) -> None:
        """Loads the current epsilon."""
        self.epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws three numbers per step: whether, how and how long to explore."""
        return generator.random((length, slots, 3), np.float32)

    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Returns the repeated action during a repetition, otherwise the best, [B]."""
        if len(self._left) != len(noise):
            self._left = self._repeated = np.zeros(len(noise), np.int64)
        left = np.where(episode_starts | self._is_forbidden(mask), 0, self._left)
        begins = (left == 0) & (noise[:, EXPLORES] < self.epsilon)
        left = np.where(
            begins, 1 + np.searchsorted(self._durations, noise[:, DURATION]), left
        )
        repeated = np.where(begins, self._drawn(noise, mask), self._repeated)
        after = np.maximum(left - 1, 0)
        self._left = after if acts is None else np.where(acts, after, self._left)
        self._repeated = (
            repeated if acts is None else np.where(acts, repeated, self._repeated)
        )
        return np.where(left > 0, repeated, run()["outputs"].argmax(-1))

    def sample(
        self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None
    ) -> Actions:
        """Explores for one step at a time; only training remembers repetitions."""
        outputs = heads["outputs"]
        noise = self.noise(generator, 1, len(outputs))[0]
        return np.where(
            noise[:, EXPLORES] < self.epsilon,
            self._drawn(noise, mask),
            outputs.argmax(-1),
        )

    def state(self) -> dict[str, Any]:
        """Returns the current repetitions."""
        return {"left": self._left, "repeated": self._repeated}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the repetitions."""
        self._left, self._repeated = state["left"], state["repeated"]

    def _drawn(self, noise: Floats, mask: ActionMask | None) -> NDArray[np.int64]:
        return uniform_choices(noise[:, ACTION], self.num_actions, mask)

    def _is_forbidden(self, mask: ActionMask | None) -> NDArray[np.bool_] | bool:
        return (
            False
            if mask is None
            else np.take_along_axis(mask, self._repeated[:, None], -1)[:, 0] == 0
        )
