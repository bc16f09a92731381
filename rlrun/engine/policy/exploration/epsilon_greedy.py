"""Exploration with Q values: epsilon-greedy and softmax (Boltzmann) (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.uniform_sampler import uniform_choices
from rlrun.engine.functional.softmax import log_softmax
from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats
from rlrun.engine.policy.exploration.epsilons import EpsilonSpread
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.schedules import value_at

_EXPLORES, _CHOICE = 0, 1

NUM_DRAWS = 3
"""Number of noise variables per step of a Q policy (more for soft Q); the last one seeds parameter noise."""


class EpsilonGreedy(Exploration):
    """Epsilon-greedy exploration: a uniform allowed action with probability `epsilon`, else the greedy action.

    Args:
        num_actions: Number of actions.
        schedule: Name of the scheduled setting that gives `epsilon`; None for an epsilon of 0.
        spread: Converts `epsilon` to one value per env slot, such as `EpsilonLadder`; None for one value
            for all slots.
        num_draws: Number of random numbers drawn per step; epsilon-greedy uses the first two.

    Attributes:
        epsilon: Probability of a uniformly random action.
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
        """Samples uniform noise in [0, 1) for T steps in B env slots, [T, B, num_draws].

        In each env slot, the first number decides whether to explore, and the second chooses the action.
        """
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
        """Returns the actions of one step: uniform in the env slots that explore, greedy elsewhere."""
        explores = noise[:, _EXPLORES] < (self.epsilon if self.spread is None else self._epsilons(len(noise)))
        exploring = np.add.reduce(explores)  # what `sum` calls; calling it directly takes half the time
        if exploring == explores.size:
            return self.uniform(noise, mask)
        values = run()["outputs"]
        return self.chosen(values, explores, noise, mask) if exploring else self.greedy(values)

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Returns epsilon-greedy actions for B rows of Q values, with the same `epsilon` for all rows."""
        outputs = heads["outputs"]
        noise = self.noise(generator, 1, len(outputs))[0]
        return self.chosen(outputs, noise[:, _EXPLORES] < self.epsilon, noise, mask)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-probability of each of B actions with epsilon-greedy exploration, given masked Q values."""
        return self.mixed_log_prob(outputs, actions == outputs.argmax(-1), actions)

    def mixed_log_prob(self, outputs: Floats, preferred: NDArray[Any], actions: Actions) -> Floats:
        """Returns the log-probabilities log(epsilon * uniform + (1 - epsilon) * preferred) of B actions.

        Here `uniform` is 1 / number of allowed actions, and `preferred` [B] is the actions' probability without
        exploration.
        """
        allowed = outputs > FORBIDDEN
        uniform = np.take_along_axis(allowed, actions[:, None], -1)[:, 0] / allowed.sum(-1).clip(min=1)
        with np.errstate(divide="ignore"):
            epsilon = np.asarray(self._epsilons(len(actions)), np.float64)
            found: Floats = np.log(epsilon * uniform + (1 - epsilon) * preferred).astype(np.float32)
        return found

    def chosen(self, values: Floats, explores: NDArray[np.bool_], noise: Floats, mask: ActionMask | None) -> Actions:
        """Returns uniformly random actions where `explores` [B] is set, elsewhere actions with the largest Q value."""
        return np.where(explores, self.uniform(noise, mask), self.greedy(values))

    def greedy(self, values: Floats) -> Actions:
        """Returns the actions with the largest Q value, one for each of B rows."""
        best: Actions = values.argmax(-1)
        return best

    def uniform(self, noise: Floats, mask: ActionMask | None) -> Actions:
        """Returns uniformly random allowed actions, one per env slot, computed from a step's random numbers."""
        return uniform_choices(noise[:, _CHOICE], self.num_actions, mask)

    def _epsilons(self, slots: int) -> float | Floats:
        """Returns the epsilon of each env slot, [B], or one epsilon for all slots."""
        if self.spread is None or self._place is None:
            return self.epsilon
        if self._own_epsilons is None:
            first, of_all = self._place
            self._own_epsilons = self.spread(self.epsilon, np.arange(first, first + slots), of_all)
        return self._own_epsilons


class SoftQ(Exploration):
    """Boltzmann exploration: samples from softmax(Q / temperature), or a uniform action with probability `epsilon`.

    Args:
        rest: Epsilon-greedy strategy that decides in which env slots actions are uniformly random.

    Attributes:
        temperature: Softmax temperature, a scheduled setting.
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
        """Sets which of all workers' env slots belong to this worker, since epsilon may differ from slot to slot."""
        self.rest.assign_envs(first_slot, num_slots)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples uniform noise in [0, 1) for T steps in B env slots: epsilon-greedy's numbers, then one per action."""
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
        """Returns the actions of one step: uniform in the env slots that explore, samples of the softmax elsewhere."""
        return self.rest.explore(
            lambda: {"outputs": self._preferences(run()["outputs"], noise)}, noise, episode_starts, acts, mask
        )

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Returns samples of the softmax for B rows of Q values; with probability `epsilon`, uniform actions."""
        outputs = heads["outputs"]
        noise = self.noise(generator, 1, len(outputs))[0]
        explores = noise[:, _EXPLORES] < self.rest.epsilon
        return self.rest.chosen(self._preferences(outputs, noise), explores, noise, mask)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-probability of each of B actions with this strategy, given masked Q values."""
        logs = log_softmax(outputs / np.float32(self.temperature))
        preferred = np.exp(np.take_along_axis(logs, actions[:, None], -1)[:, 0])
        return self.rest.mixed_log_prob(outputs, preferred, actions)

    def _preferences(self, values: Floats, noise: Floats) -> Floats:
        # arg max (logits + Gumbel noise) is a sample of softmax(logits).
        gumbel = -np.log(-np.log(noise[:, self.rest.num_draws :].clip(np.finfo(np.float32).tiny)))
        preferences: Floats = values / np.float32(self.temperature) + gumbel
        return preferences
