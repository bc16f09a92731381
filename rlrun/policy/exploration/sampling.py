"""Actions drawn from the distribution that the network puts out, at first perhaps uniformly (NumPy)."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.data.uniform_sampler import UniformSampler
from rlrun.policy.action_masks import ActionMask
from rlrun.policy.action_spaces.action_space import Actions, Floats, StochasticActions
from rlrun.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.policy.weights import Weights


class SampleActions(Exploration):
    """Draws actions from their distribution, by noise of their own at each step.

    Args:
        actions: The distributions.
    """

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
        """Draws the actions of a step."""
        return self.actions.sample(run()["outputs"], noise)

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Draws actions."""
        outputs = heads["outputs"]
        return self.actions.sample(outputs, self.actions.noise(generator, (len(outputs),)))


class SampleInOrder(Exploration):
    """Takes the actions that an autoregressive network draws: all noise is the network's own.

    Args:
        actions: The distributions.
    """

    def __init__(self, actions: StochasticActions) -> None:
        self.actions = actions
        self.network_noise = actions.num_noise

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
        """Returns the actions of a step."""
        return run()["actions"]

    @override
    def network_draws(self, generator: np.random.Generator, slots: int) -> Floats | None:
        """Draws the noise of a step."""
        return self.actions.noise(generator, (slots,))

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Returns the actions that were drawn."""
        return heads["actions"]


class StateDependentNoise(Exploration):
    """Draws actions by noise that is one function of the observation for several steps (gSDE).

    The function is a matrix of normal numbers over the network's last features; the network makes the noise of it.

    Args:
        actions: The distributions.
        features: F, rows of the matrix.
        num_actions: D, its columns.
        every: Steps after which it is drawn again; None for once in a block of noise.

    Source:
        Raffin, Kober and Stulp, arXiv:2005.05719, eqs. 6 to 9.
    """

    def __init__(self, actions: StochasticActions, features: int, num_actions: int, every: int | None) -> None:
        self.actions = actions
        self.network_noise = features * num_actions
        self.network_noise_every = every

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws matrices [T, B, F * D], the same ones for some steps, and after them the actions' own noise.

        The first one begins with the first step; `FragmentNoise` lets that of the steps before go on.
        """
        every = min(self.network_noise_every or length, length)
        drawn = generator.standard_normal((-(-length // every), slots, self.network_noise), np.float32)
        return np.concatenate(
            [np.repeat(drawn, every, axis=0)[:length], self.actions.noise(generator, (length, slots))], -1
        )

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Draws the actions of a step by the noise that the network made."""
        heads = run()
        return self.actions.sample(heads["outputs"], heads["noise"])

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Draws actions by noise of their own."""
        outputs = heads["outputs"]
        return self.actions.sample(outputs, self.actions.noise(generator, (len(outputs),)))


class UniformActions(Protocol):
    """An action space whose own actions are elements of a space, from which they can be drawn uniformly."""

    @property
    def own_space(self) -> gymnasium.Space[Any]:
        """The space of its own actions."""
        ...


class UniformUntil(Exploration):
    """Takes actions each as likely as any other as long as nothing is learned, and explores in another way then.

    Args:
        inner: The other way.
        actions: The action space.
        env_steps: Env steps of all workers together until which actions are uniform.
    """

    def __init__(self, inner: Exploration, actions: UniformActions, env_steps: int) -> None:
        self.inner = inner
        self.env_steps = env_steps
        self._sampler = UniformSampler(actions.own_space)
        self.schedules = inner.schedules
        self.network_noise = inner.network_noise
        self.network_noise_every = inner.network_noise_every
        self._is_uniform = env_steps > 0

    @override
    def load(self, weights: Weights) -> None:
        """Takes over whether anything is learned by now."""
        self.inner.load(weights)
        self._is_uniform = weights.env_steps < self.env_steps

    @override
    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Tells the other way its env slots."""
        self.inner.assign_envs(first_slot, num_slots)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws the other way's noise and, after it, the numbers that uniform actions are made of, [T, B, ... + D]."""
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
        """Takes uniform actions, or those of the other way."""
        own = self._sampler.num_draws
        if self._is_uniform:
            actions: Actions = self._sampler(noise[:, -own:], mask)
            return actions
        return self.inner.explore(run, noise[:, :-own], episode_starts, acts, mask)

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Explores in the other way."""
        return self.inner.sample(heads, generator, mask)

    @override
    def state(self) -> dict[str, Any]:
        """State of the other way."""
        return self.inner.state()

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.inner.load_state(state)
