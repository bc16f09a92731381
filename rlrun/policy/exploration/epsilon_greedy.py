"""Exploration of a finite number of actions by their values (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.data.uniform_sampler import uniform_choices
from rlrun.functional.schedules import value_at
from rlrun.policy.action_masks import ActionMask
from rlrun.policy.action_spaces.action_space import Actions, Floats
from rlrun.policy.exploration.epsilons import EpsilonSpread
from rlrun.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.policy.weights import Weights

_EXPLORES, _CHOICE = 0, 1

NUM_DRAWS = 3
"""Numbers of noise that a step of a Q policy takes, before those of soft-Q exploration; the last is `PARAMETER_DRAW`,
that of noise on parameters."""


class EpsilonGreedy(Exploration):
    """Takes the action with the largest value, or with probability `epsilon` any allowed one.

    Args:
        num_actions: A.
        schedule: The scheduled setting that is the probability; None for 0.
        spread: Gives each env slot an `epsilon` of its own; None for the same everywhere.
        num_draws: Numbers of noise that a step takes, of which it uses the first two.

    Attributes:
        epsilon: The probability.
    """

    def __init__(
        self,
        num_actions: int,
        *,
        schedule: str | None = "epsilon",
        spread: EpsilonSpread | None = None,
        num_draws: int = NUM_DRAWS,
    ) -> None:
        self.num_actions = num_actions
        self.schedule = schedule
        self.schedules = () if schedule is None else (schedule,)
        self.spread = spread
        self.num_draws = num_draws
        self.epsilon = 0.0 if schedule is None else 1.0
        self._place: tuple[int, int] | None = None
        self._own_epsilons: Floats | None = None

    @override
    def load(self, weights: Weights) -> None:
        if self.schedule is not None:
            self.epsilon = value_at(weights.schedules[self.schedule], weights.env_steps)
        self._own_epsilons = None

    @override
    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        self._place = first_slot, num_slots

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws numbers from 0 to 1: whether to take any action, which one then, and others' draws, [T, B, ...]."""
        return generator.random((length, slots, self.num_draws), np.float32)

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Returns any action where it explores, elsewhere the best, [B]."""
        explores = noise[:, _EXPLORES] < self._epsilons(len(noise))
        exploring = np.count_nonzero(explores)
        if exploring == len(explores):
            return self._any(noise, mask)
        best = run()["outputs"].argmax(-1)
        return np.where(explores, self._any(noise, mask), best) if exploring else best

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Explores with the same `epsilon` everywhere."""
        outputs = heads["outputs"]
        noise = self.noise(generator, 1, len(outputs))[0]
        return self.chosen(outputs, noise[:, _EXPLORES] < self.epsilon, noise, mask)

    def chosen(self, values: Floats, explores: NDArray[np.bool_], noise: Floats, mask: ActionMask | None) -> Actions:
        """Returns any action where it explores, elsewhere the best of the values [B, A]."""
        return np.where(explores, self._any(noise, mask), values.argmax(-1))

    def _any(self, noise: Floats, mask: ActionMask | None) -> Actions:
        return uniform_choices(noise[:, _CHOICE], self.num_actions, mask)

    def _epsilons(self, slots: int) -> float | Floats:
        """Returns each env slot's probability to explore, [B] or one for all."""
        if self.spread is None or self._place is None:
            return self.epsilon
        if self._own_epsilons is None:
            first, of_all = self._place
            self._own_epsilons = self.spread(self.epsilon, np.arange(first, first + slots), of_all)
        return self._own_epsilons


class SoftQ(Exploration):
    """Draws actions from the softmax of values over `temperature`, or with probability `epsilon` any of them.

    Args:
        rest: Decides where any action is taken.

    Attributes:
        temperature: What values are divided by: a scheduled setting.
    """

    def __init__(self, rest: EpsilonGreedy) -> None:
        self.rest = rest
        self.schedules = (*rest.schedules, "temperature")
        self.temperature = 1.0

    @override
    def load(self, weights: Weights) -> None:
        self.rest.load(weights)
        self.temperature = value_at(weights.schedules["temperature"], weights.env_steps)

    @override
    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Tells the rest its env slots."""
        self.rest.assign_envs(first_slot, num_slots)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws numbers from 0 to 1: the rest's, and one for each action's value, [T, B, ... + A]."""
        return generator.random((length, slots, self.rest.num_draws + self.rest.num_actions), np.float32)

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Returns any action where it explores, elsewhere one drawn by how good it is, [B]."""
        return self.rest.explore(
            lambda: {"outputs": self._preferences(run()["outputs"], noise)}, noise, episode_starts, acts, mask
        )

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Explores with the same `epsilon` everywhere."""
        outputs = heads["outputs"]
        noise = self.noise(generator, 1, len(outputs))[0]
        explores = noise[:, _EXPLORES] < self.rest.epsilon
        return self.rest.chosen(self._preferences(outputs, noise), explores, noise, mask)

    def _preferences(self, values: Floats, noise: Floats) -> Floats:
        # arg max (logits + Gumbel noise) is a draw from softmax(logits).
        gumbel = -np.log(-np.log(noise[:, self.rest.num_draws :].clip(np.finfo(np.float32).tiny)))
        preferences: Floats = values / np.float32(self.temperature) + gumbel
        return preferences
