"""Exploration by sampling from the policy distribution, optionally after an initial uniform phase (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.uniform_sampler import UniformSampler
from rlrun.engine.nn.acting import ActingNetwork, WrappedNetwork
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats, StochasticActions
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.engine.policy.weights import Weights


class SampledByNetwork(Exploration):
    """Exploration by sampling inside the network, which consumes all the noise.

    Args:
        actions: Action space with the policy's distributions.
    """

    samples_policy = True

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
        """Actions sampled by the network, [B, ...]."""
        return run()["actions"].copy()  # envs may keep it, and the network may use its memory again

    @override
    def network_draws(self, generator: np.random.Generator, slots: int) -> Floats | None:
        """Samples the noise of the network for a step, [B, num_noise]."""
        return self.actions.noise(generator, (slots,))

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Actions already sampled by the network, [B, ...]."""
        return heads["actions"]


class SampleInOrder(SampledByNetwork):
    """Exploration with an autoregressive network, which samples the parts of an action in order.

    Args:
        actions: Action space with the policy's distributions.
    """


class SampleActions(SampledByNetwork):
    """Exploration by sampling from the policy's action distribution, with independent noise at each step.

    Args:
        actions: Action space with the policy's distributions.
    """

    @override
    def around(self, network: ActingNetwork) -> ActingNetwork:
        return SampledActions(network, self.actions)


class SampledActions(WrappedNetwork):
    """Acting network with an additional head `actions`, sampled from the action distributions with the given noise.

    Args:
        network: The network, with a head `outputs`.
        actions: Action space with the policy's distributions.
    """

    def __init__(self, network: ActingNetwork, actions: StochasticActions) -> None:
        super().__init__(network)
        self.actions = actions

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[dict[str, Floats], Floats | None]:
        """Forward pass of one env step; without noise there are no actions; see `ActingNetwork`."""
        heads, after = self.network(inputs, state, episode_starts)
        if noise is not None:
            heads["actions"] = self.actions.sample(heads["outputs"], noise)
        return heads, after


class StateDependentNoise(Exploration):
    """Generalised state-dependent exploration (gSDE): noise that is a fixed function of the observation for some steps.

    The function is linear in the network's last features, with a Gaussian exploration matrix; the network computes the
    noise.

    Args:
        actions: Action space with the policy's distributions.
        features: F, rows of the exploration matrix.
        num_actions: D, columns of the exploration matrix.
        every: Steps between resampling of the exploration matrix; None for once per block of noise.

    Source:
        Raffin, Kober and Stulp, arXiv:2005.05719, eqs. 6 to 9.
    """

    samples_policy = True

    def __init__(self, actions: StochasticActions, features: int, num_actions: int, every: int | None) -> None:
        self.actions = actions
        self.network_noise = features * num_actions
        self.network_noise_every = every

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples exploration matrices [T, B, F * D], repeated for `every` steps, concatenated with action noise.

        A new matrix starts at step 0; if necessary, `FragmentNoise` continues the matrix of the previous fragment.
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
        """Samples the actions of a step with the state-dependent noise of the network, [B, D]."""
        heads = run()
        return self.actions.sample(heads["outputs"], heads["noise"])

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Samples actions with independent noise, without gSDE, [B, D]."""
        outputs = heads["outputs"]
        return self.actions.sample(outputs, self.actions.noise(generator, (len(outputs),)))


class UniformActions(Protocol):
    """Protocol of action spaces that allow uniform sampling of the policy's own actions."""

    @property
    def own_space(self) -> gymnasium.Space[Any]:
        """Gymnasium space of the policy's own actions."""
        ...


def sampled(actions: StochasticActions, model: ModelConfig, features: int) -> Exploration:
    """Creates the exploration that samples from the policy's distributions, of the kind chosen in the settings.

    Args:
        actions: Action space with the policy's distributions.
        model: Network settings, such as state-dependent noise or autoregressive actions.
        features: Number of features before the heads, for state-dependent noise.
    """
    if model.use_sde:
        return StateDependentNoise(actions, features, actions.num_noise, model.sde_sample_freq)
    return SampleInOrder(actions) if model.autoregressive else SampleActions(actions)


class UniformUntil(Exploration):
    """Exploration by uniform actions until learning starts, followed by another exploration strategy.

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
        """Ends the uniform phase if it is over, and updates the inner exploration."""
        self.inner.load(weights)
        self.is_uniform = weights.env_steps < self.env_steps

    @override
    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Sets the env slots of this worker in the inner exploration."""
        self.inner.assign_envs(first_slot, num_slots)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples the inner exploration's noise, concatenated with D draws for uniform actions, [T, B, ... + D]."""
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
        """Uniform actions in the uniform phase, and actions of the inner exploration afterwards, [B, ...]."""
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
        """Samples actions by the inner exploration, [B, ...]."""
        return self.inner.sample(heads, generator, mask)

    @override
    def state(self) -> dict[str, Any]:
        """State of the inner exploration."""
        return self.inner.state()

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.inner.load_state(state)
