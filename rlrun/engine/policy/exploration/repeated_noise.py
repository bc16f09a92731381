"""Noise repetition: action noise is held for a random number of steps (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats, StochasticActions
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.engine.policy.weights import Weights

MOST_STEPS = 16
"""Maximum number of steps for which noise is held."""

_WEIGHTS = np.arange(1, MOST_STEPS + 1, dtype=np.float64) ** -2
CUMULATIVE = np.cumsum(_WEIGHTS) / _WEIGHTS.sum()
"""Probability that noise is held for at most 1, 2, ... steps: the probability of n steps is proportional to 1 / n^2."""


class RepeatedNoise(Exploration):
    """Noise repetition: wraps another exploration strategy, and holds its noise for a random number of steps.

    All env slots of a worker receive new noise at the same steps, but different noise in each slot. Noise is held even
    when an episode ends.

    Args:
        inner: Exploration that computes actions from the noise.

    Source:
        FlashSAC, arXiv:2604.04539.
    """

    def __init__(self, inner: Exploration) -> None:
        self.inner = inner
        self.schedules = inner.schedules
        self.samples_policy = inner.samples_policy
        self._held: Floats | None = None
        self._steps_left = 0

    @override
    def around(self, network: ActingNetwork) -> ActingNetwork:
        return self.inner.around(network)

    @override
    def load(self, weights: Weights) -> None:
        self.inner.load(weights)

    @override
    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        self.inner.assign_envs(first_slot, num_slots)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws the inner exploration's noise, followed by a number per step that determines how long noise is held."""
        own = self.inner.noise(generator, length, slots)
        numbers = generator.random((length, 1, 1), np.float32)
        return np.concatenate([own, np.broadcast_to(numbers, (length, slots, 1))], -1)

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Chooses actions with the inner exploration, from the held noise."""
        if self._held is None or not self._steps_left:
            self._held = noise[:, :-1].copy()
            self._steps_left = 1 + int(np.searchsorted(CUMULATIVE[:-1], noise[0, -1], side="right"))
        self._steps_left -= 1
        return self.inner.explore(run, self._held, episode_starts, acts, mask)

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Chooses actions with the inner exploration, from new noise."""
        return self.inner.sample(heads, generator, mask)

    @override
    def state(self) -> dict[str, Any]:
        """Returns the held noise and its number of remaining steps, for a checkpoint."""
        held = {} if self._held is None else {"held_noise": self._held.copy(), "held_for": self._steps_left}
        return {**self.inner.state(), **held}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.inner.load_state(state)
        self._held, self._steps_left = state.get("held_noise"), int(state.get("held_for", 0))


class SampleOutputs(Exploration):
    """Exploration by sampling from the policy's action distribution, with noise that is not an input of the network.

    Args:
        actions: The policy's action space, which defines its action distribution.
    """

    samples_policy = True

    def __init__(self, actions: StochasticActions) -> None:
        self.actions = actions

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
        """Samples the actions of one step, using the noise of that step."""
        return self.actions.sample(run()["outputs"], noise)

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Samples actions with new noise."""
        outputs = heads["outputs"]
        return self.actions.sample(outputs, self.actions.noise(generator, (len(outputs),)))


def repeated_sampling(actions: StochasticActions) -> RepeatedNoise:
    """Creates the exploration that samples from a stochastic policy's distribution with repeated noise."""
    return RepeatedNoise(SampleOutputs(actions))
