"""Soft policies: an actor that keeps some entropy, two critics and a temperature (torch)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import UsageError
from rlrun.nn.actor_q_nets import ActorQNets
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.observation_leaves import observation_leaves
from rlrun.policy.action_space import CategoricalActions, bounded_box
from rlrun.policy.actor_behavior import ActorActions
from rlrun.policy.actor_q_networks import ActorQNetworks, acting_side, state_dependent_acting_side
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy
from rlrun.policy.soft_behavior import LOG_STD_BOUNDS, SoftBehavior, SquashedActions
from rlrun.policy.state_dependent import StateDependentSoftBehavior

NUM_CRITICS = 2

LOG_2PI = math.log(2 * math.pi)


class Soft(NamedTuple):
    """What an actor does in observations [S, L], as far as a loss is concerned.

    Attributes:
        log_probs: The log-probability of its actions: of a drawn one, or on average over all of them, [S, L].
        values: What the least of the critics says of them: of the drawn one, or on average, [S, L].
    """

    log_probs: Tensor
    values: Tensor


@dataclass(frozen=True)
class SoftNetworks(ActorQNetworks):
    """An actor that describes a distribution, critics, and a temperature."""

    @property
    def log_alpha(self) -> Tensor:
        """The logarithm of the temperature, [1]."""
        return self.views["log_alpha"]

    @abstractmethod
    def values_of(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns what the critics say of the policy's own actions [S, L, ...], [C, S, L]."""

    @abstractmethod
    def judged(self, batch: SampleBatch) -> Soft:
        """Returns what the actor does in a batch's observations, and what the critics say of it."""

    @abstractmethod
    def next_judged(self, batch: SampleBatch) -> Soft:
        """Returns what it does in a batch's next observations, and what the target critics say of it; no gradients."""


def squashed(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draws actions from normal variables that tanh squashes.

    The logarithm of tanh's derivative 1 - tanh(u)^2 is written 2 (log 2 - u - softplus(-2 u)), which is exact also
    where tanh(u) rounds to 1.

    Args:
        outputs: Means and log standard deviations side by side, [..., 2 * D].
        noise: Standard normal noise, [..., D].

    Returns:
        Actions [..., D] between -1 and 1, and their log-densities [...].

    Source:
        Haarnoja et al., arXiv:1801.01290, appendix C.
    """
    means, log_stds = outputs.chunk(2, -1)
    log_stds = log_stds.clamp(*LOG_STD_BOUNDS)
    drawn = means + log_stds.exp() * noise
    stretched = 2 * (math.log(2) - drawn - softplus(-2 * drawn))
    densities = (-0.5 * (noise * noise + LOG_2PI) - log_stds - stretched).sum(-1)
    return drawn.tanh(), densities


class SquashedNetworks(SoftNetworks):
    """Continuous actions: expectations over the actor's distribution are taken from one drawn action."""

    def values_of(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns what the critics say of actions [S, L, D], [C, S, L]."""
        return self.critic_outputs(observations, actions).squeeze(-1)

    def judged(self, batch: SampleBatch) -> Soft:
        """Draws an action in each observation by the column `noise`."""
        actions, log_probs = squashed(self.actor_outputs(batch["obs"]), batch["noise"])
        return Soft(log_probs, self.values_of(batch["obs"], actions).amin(0))

    def next_judged(self, batch: SampleBatch) -> Soft:
        """Draws an action in each next observation by the column `next_noise`."""
        with torch.no_grad():
            actions, log_probs = squashed(self.actor_outputs(batch["next_obs"]), batch["next_noise"])
            values = self.target_critic_outputs(batch["next_obs"], actions).squeeze(-1)
        return Soft(log_probs, values.amin(0))


class ChoiceNetworks(SoftNetworks):
    """A finite number of actions: expectations are sums over all of them (Christodoulou, arXiv:1910.07207)."""

    def values_of(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns what the critics say of choices [S, L], [C, S, L]."""
        outputs = self.critic_outputs(observations)
        return outputs.gather(-1, actions.expand(len(outputs), *actions.shape).unsqueeze(-1)).squeeze(-1)

    def judged(self, batch: SampleBatch) -> Soft:
        """Averages over the choices."""
        return averaged(self.actor_outputs(batch["obs"]), self.critic_outputs(batch["obs"]))

    def next_judged(self, batch: SampleBatch) -> Soft:
        """Averages over the choices in the next observations."""
        with torch.no_grad():
            return averaged(self.actor_outputs(batch["next_obs"]), self.target_critic_outputs(batch["next_obs"]))


def averaged(logits: Tensor, critic_outputs: Tensor) -> Soft:
    """Averages over choices with logits [S, L, A] what critics [C, S, L, A] say of them."""
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    return Soft((probs * log_probs).sum(-1), (probs * critic_outputs.amin(0)).sum(-1))


class SoftPolicy(Policy):
    """An actor over a bounded Box or a finite number of choices, and two critics.

    Attributes:
        default_target_entropy: The entropy in nats that the actor is held at unless another is asked for: minus the
            number of continuous actions (arXiv:1812.05905, appendix D), or 0.98 of the largest there is over choices
            (arXiv:1910.07207, appendix).
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        normalize_observations: bool,
        seed: int,
        uniform_steps: int,
        initial_alpha: float,
    ) -> None:
        """Builds the networks for the spaces.

        Args:
            observation_space: What the env shows.
            action_space: What it takes.
            model: The networks' layers.
            normalize_observations: Whether observations are shifted and scaled.
            seed: Seed of the first weights.
            uniform_steps: Env steps until which actions are drawn uniformly.
            initial_alpha: The first temperature.

        Raises:
            UsageError: If actions are neither a Box with finite bounds nor Discrete, or the model asks for
                state-dependent exploration of what it does not fit.
        """
        self.leaves = observation_leaves(observation_space)
        self.normalize_observations = normalize_observations
        self.uniform_steps = uniform_steps
        self.sde_sample_freq = model.sde_sample_freq
        self.networks: type[SoftNetworks]
        self.action_model: ActorActions
        if isinstance(action_space, gymnasium.spaces.Discrete):
            choices = CategoricalActions(action_space)
            self.networks, self.action_model, self.num_normal = ChoiceNetworks, choices, 0
            shapes = (choices.num_outputs, 0, choices.num_outputs)
            self.default_target_entropy = 0.98 * math.log(choices.num_outputs)
        elif isinstance(action_space, gymnasium.spaces.Box):
            box = bounded_box(action_space, "a squashed policy")
            self.networks, self.action_model, self.num_normal = SquashedNetworks, SquashedActions(box), box.size
            shapes = (2 * box.size, box.size, 1)
            self.default_target_entropy = -float(box.size)
        else:
            raise UsageError(f"a soft policy acts in a bounded Box or in Discrete, not in {action_space}")
        self.net = ActorQNets(
            self.leaves,
            actor_outputs=shapes[0],
            critic_inputs=shapes[1],
            critic_outputs=shapes[2],
            num_critics=NUM_CRITICS,
            model=model,
            seed=seed,
            initial_alpha=initial_alpha,
            num_state_dependent=self.num_normal if model.use_sde else 0,
        )
        if model.use_sde and not (self.num_normal and self.net.actor.is_dense):
            raise UsageError("model.use_sde: only continuous actions are explored that way, and not of images")
        self.module = self.net
        self.parameters = FlatParameters(self.net)

    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> SoftNetworks:
        """Returns the networks."""
        return self.networks(self.net, views, views if target_views is None else target_views)

    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns standard normal noise of the actions in the observations and in the next ones, [S, L, D] each."""
        if not self.num_normal:
            return {}
        noise = generator.standard_normal((2, rows, length, self.num_normal), np.float32)
        return {"noise": noise[0], "next_noise": noise[1]}

    def behavior(self) -> SoftBehavior:
        """Returns the acting side, without weights."""
        if self.net.actor.std is not None:
            return StateDependentSoftBehavior(
                state_dependent_acting_side(self.net, self.parameters, self.leaves, self.sde_sample_freq),
                self.action_model,
                self.leaves,
                normalize_observations=self.normalize_observations,
                uniform_steps=self.uniform_steps,
            )
        return SoftBehavior(
            acting_side(self.net, self.parameters, self.leaves),
            self.action_model,
            self.leaves,
            normalize_observations=self.normalize_observations,
            uniform_steps=self.uniform_steps,
        )
