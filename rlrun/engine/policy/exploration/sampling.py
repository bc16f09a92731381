"""Exploration by sampling from the policy's action distribution (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.nn.acting import ActingNetwork, WrappedNetwork
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats, StochasticActions
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.engine.settings.registry import load_internal

STATE_DEPENDENT_NOISE = "rlrun.engine.policy.exploration.state_dependent_noise:StateDependentNoise"
"""Import path of gSDE exploration."""


class SampledByNetwork(Exploration):
    """Exploration for networks that receive random numbers as inputs, and sample actions in their forward pass.

    Args:
        actions: The policy's action space, which defines its action distribution.
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
        """Returns the actions that the network sampled in its forward pass."""
        return run()["actions"].copy()  # envs may keep the actions, and the network may reuse the memory

    @override
    def network_draws(self, generator: np.random.Generator, slots: int) -> Floats | None:
        """Draws the random numbers with which the network samples the actions of one step, [B, num_noise]."""
        return self.actions.noise(generator, (slots,))

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Returns the actions that the network sampled in its forward pass."""
        return heads["actions"].copy()  # the network may reuse the memory


class SampleInOrder(SampledByNetwork):
    """Exploration with an autoregressive network, which samples the components of an action in order.

    Args:
        actions: The policy's action space, which defines its action distribution.
    """


class SampleActions(SampledByNetwork):
    """Exploration by sampling from the policy's action distribution, with independent noise at each step.

    Args:
        actions: The policy's action space, which defines its action distribution.
    """

    @override
    def around(self, network: ActingNetwork) -> ActingNetwork:
        return SampledActions(network, self.actions)


class SampledActions(WrappedNetwork):
    """Acting network with an additional head `actions`, sampled from the distribution given by the head `outputs`.

    Args:
        network: The network, with a head `outputs`.
        actions: The policy's action space, which defines the distribution.
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
        """Runs the forward pass of one env step; without noise there are no actions; see `ActingNetwork`."""
        heads, after = self.network(inputs, state, episode_starts)
        if noise is not None:
            heads["actions"] = self.actions.sample(heads["outputs"], noise)
        return heads, after


def sampled(actions: StochasticActions, model: ModelConfig, features: int) -> Exploration:
    """Creates the exploration strategy that samples from the policy's distribution: plain, autoregressive or gSDE.

    Args:
        actions: The policy's action space, which defines its action distribution.
        model: Network settings, which choose between plain sampling, autoregressive actions and state-dependent noise.
        features: Number of features that enter the network's heads, for state-dependent noise.
    """
    if model.use_sde:
        make = load_internal(STATE_DEPENDENT_NOISE)
        noise: Exploration = make(actions, features, actions.num_noise, model.sde_sample_freq)
        return noise
    return SampleInOrder(actions) if model.autoregressive else SampleActions(actions)
