"""Exploration by uniformly random actions until learning starts (NumPy)."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.uniform_sampler import UniformSampler
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.engine.policy.weights import Weights


class UniformActions(Protocol):
    """Interface of action spaces from which uniformly random actions can be drawn."""

    @property
    def own_space(self) -> gymnasium.Space[Any]:
        """Gymnasium space of actions as the policy represents them, such as a Box in [-1, 1]."""
        ...


class UniformUntil(Exploration):
    """Exploration that takes uniformly random actions until learning starts, and then uses another strategy, `inner`.

    Args:
        inner: Exploration strategy after the uniform phase.
        actions: The action space.
        env_steps: Length of the uniform phase, in env steps of all workers together.

    Attributes:
        inner: Exploration strategy after the uniform phase.
        is_uniform: Whether the uniform phase is still in progress.
    """

    def __init__(self, inner: Exploration, actions: UniformActions, env_steps: int) -> None:
        self.inner = inner
        self.env_steps = env_steps
        self._sampler = UniformSampler(actions.own_space)
        self.schedules = inner.schedules
        self.samples_policy = inner.samples_policy
        self.network_noise = inner.network_noise
        self.network_noise_every = inner.network_noise_every
        self.is_uniform = env_steps > 0

    @override
    def around(self, network: ActingNetwork) -> ActingNetwork:
        return self.inner.around(network)

    @override
    def load(self, weights: Weights) -> None:
        """Ends the uniform phase once it has lasted `env_steps`; updates the inner strategy's scheduled settings."""
        self.inner.load(weights)
        self.is_uniform = weights.env_steps < self.env_steps

    @override
    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Sets, for the inner strategy, which env slots out of all workers' slots belong to this worker."""
        self.inner.assign_envs(first_slot, num_slots)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws random numbers for T steps in B env slots: first for the inner strategy, then for uniform actions."""
        draws = generator.random((length, slots, self._sampler.num_draws), np.float32)
        return np.concatenate([self.inner.noise(generator, length, slots), draws], -1)

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Chooses the actions of one step: uniformly at random at first, later with the inner strategy."""
        own = self._sampler.num_draws
        if self.is_uniform:
            actions: Actions = self._sampler(noise[:, -own:], mask)
            return actions
        return self.inner.explore(run, noise[:, :-own], episode_starts, acts, mask)

    @override
    def network_draws(self, generator: np.random.Generator, slots: int) -> Floats | None:
        return self.inner.network_draws(generator, slots)

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Chooses actions with the inner strategy, even during the uniform phase; used when no fragment is recorded."""
        return self.inner.sample(heads, generator, mask)

    @override
    def state(self) -> dict[str, Any]:
        """Returns the state of the inner strategy, for a checkpoint."""
        return self.inner.state()

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.inner.load_state(state)
