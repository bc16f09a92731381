"""Maximum-entropy policies: stochastic actor, twin Q functions and temperature (torch)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.networks import ACTOR, ActorQNetworks, action_masks, networks_of
from rlrun.data.action_masks import mask_of
from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import UsageError
from rlrun.functional.masked import masked_mean
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.network_spec import LogStds
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.box_scale import bounded_box
from rlrun.policy.action_spaces.discrete import DiscreteActions
from rlrun.policy.action_spaces.squashed_box import SquashedBoxActions, SquashedGaussian
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.exploration import Exploration
from rlrun.policy.exploration.sampling import SampleActions, StateDependentNoise, UniformUntil
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

NUM_CRITICS = 2

ENTROPY_SHARE = 0.98
"""Target entropy of discrete actions, as a fraction of the maximum entropy (arXiv:1910.07207, appendix)."""


class Soft(NamedTuple):
    """Log-probabilities and Q values of an actor's actions in observations [S, L].

    Attributes:
        log_probs: The log-probability of its actions: of a drawn one, or on average over all of them, [S, L].
        values: The minimum of the Q functions: of the drawn action, or on average over all of them, [S, L].
    """

    log_probs: Tensor
    values: Tensor


@dataclass(frozen=True)
class SoftNetworks(ABC):
    """Stochastic actor, twin Q functions and temperature.

    Attributes:
        networks: The underlying networks.
        default_target_entropy: The policy's.
    """

    networks: ActorQNetworks
    default_target_entropy: float

    @property
    def log_alpha(self) -> Tensor:
        """The logarithm of the temperature, [1]."""
        return self.networks.views["log_alpha"]

    def target_entropy(self, batch: SampleBatch) -> Tensor | float:
        """Returns the default target entropy in a batch's observations, in nats."""
        return self.default_target_entropy

    @abstractmethod
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Returns the critics' values of a batch's actions, [C, S, L]."""

    @abstractmethod
    def sample_and_evaluate(self, batch: SampleBatch) -> Soft:
        """Returns the actor's log-probabilities in a batch's observations, and the critics' values."""

    @abstractmethod
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Returns log-probabilities and target critics' values in a batch's next observations; no gradients."""


class SquashedNetworks(SoftNetworks):
    """Continuous actions: expectations over the actor's distribution are estimated from one sample."""

    @override
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Returns the critics' values of actions [S, L, D], [C, S, L]."""
        return self.networks.critic_outputs(self.networks.present(batch), batch["actions"]).squeeze(-1)

    @override
    def sample_and_evaluate(self, batch: SampleBatch) -> Soft:
        """Draws an action in each observation by the column `noise`."""
        observations = self.networks.present(batch)
        actor = SquashedGaussian(self.networks.actor_outputs(observations))
        actions, log_probs = actor.sample_and_log_prob(batch["noise"])
        return Soft(log_probs, self.networks.critic_outputs(observations, actions).squeeze(-1).amin(0))

    @override
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Draws an action in each next observation by the column `next_noise`."""
        with torch.no_grad():
            observations = self.networks.following(batch)
            actor = SquashedGaussian(self.networks.actor_outputs(observations))
            actions, log_probs = actor.sample_and_log_prob(batch["next_noise"])
            values = self.networks.target_critic_outputs(observations, actions).squeeze(-1)
        return Soft(log_probs, values.amin(0))


class ChoiceNetworks(SoftNetworks):
    """A finite number of actions: expectations are sums over the allowed ones (Christodoulou, arXiv:1910.07207)."""

    @override
    def target_entropy(self, batch: SampleBatch) -> Tensor | float:
        """Returns 0.98 of the largest entropy over the allowed choices, with masks on average over the observations."""
        mask = mask_of(action_masks(self.networks.present(batch)))
        if mask is None:
            return self.default_target_entropy
        largest: Tensor = masked_mean((mask != 0).sum(-1).clamp(min=1).log(), batch["valid"].float())
        return ENTROPY_SHARE * largest

    @override
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Returns the critics' values of choices [S, L], [C, S, L]."""
        outputs, actions = self.networks.critic_outputs(self.networks.present(batch)), batch["actions"]
        return outputs.gather(-1, actions.expand(len(outputs), *actions.shape).unsqueeze(-1)).squeeze(-1)

    @override
    def sample_and_evaluate(self, batch: SampleBatch) -> Soft:
        """Takes expectations over the choices."""
        observations = self.networks.present(batch)
        return averaged(self.networks.actor_outputs(observations), self.networks.critic_outputs(observations))

    @override
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Takes expectations over the choices in the next observations."""
        with torch.no_grad():
            observations = self.networks.following(batch)
            return averaged(
                self.networks.actor_outputs(observations), self.networks.target_critic_outputs(observations)
            )


def averaged(logits: Tensor, critic_outputs: Tensor) -> Soft:
    """Expected log-probability and minimum of critics [C, S, L, A] over choices with logits [S, L, A]."""
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    return Soft((probs * log_probs).sum(-1), (probs * critic_outputs.amin(0)).sum(-1))


class SoftPolicy(Policy):
    """Policy of a stochastic actor over a bounded Box or Discrete actions, with twin Q functions.

    Args:
        observation_space: What the env shows.
        action_space: What it takes.
        model: The networks' layers.
        normalize_observations: Whether observations are shifted and scaled.
        seed: Seed of the first weights.
        uniform_steps: Env steps until which actions are drawn uniformly.
        initial_alpha: The first temperature.
        burn_in: Rows of a sequence that only bring up recurrent states, with a core.

    Attributes:
        default_target_entropy: Target entropy in nats unless the settings name another: minus the
            number of continuous actions (arXiv:1812.05905, appendix D), or 0.98 of the largest there is over choices
            (arXiv:1910.07207, appendix). With action masks the largest one is that over the allowed choices, in each
            observation: `ChoiceNetworks.target_entropy`.

    Raises:
        UsageError: If actions are neither a Box with finite bounds nor Discrete, or the model asks for state-dependent
            exploration of what it does not fit.
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
        burn_in: int = 0,
    ) -> None:
        self.leaves = policy_leaves(
            observation_space, action_space, model, normalize_observations=normalize_observations
        )
        self.normalize_observations = normalize_observations
        self.uniform_steps = uniform_steps
        self.model = model
        self.burn_in = None if model.core is None else burn_in
        self.networks: type[SoftNetworks]
        self.action_space: DiscreteActions | SquashedBoxActions
        log_stds = None
        if isinstance(action_space, gymnasium.spaces.Discrete):
            self.networks, self.num_normal = ChoiceNetworks, 0
            self.action_space = DiscreteActions(action_space)
            critic = critic_spec(self.leaves, model, self.action_space.num_outputs, 0)
            self.default_target_entropy = ENTROPY_SHARE * math.log(self.action_space.num_outputs)
        elif isinstance(action_space, gymnasium.spaces.Box):
            self.action_space = SquashedBoxActions(bounded_box(action_space, "a squashed policy"))
            self.networks, self.num_normal = SquashedNetworks, self.action_space.size
            critic = critic_spec(self.leaves, model, 1, self.num_normal)
            self.default_target_entropy = -float(self.num_normal)
            if model.use_sde:
                log_stds = LogStds(self.num_normal, model.log_std_init, state_dependent=True)
        else:
            raise UsageError(f"a soft policy acts in a bounded Box or in Discrete, not in {action_space}")
        self.actor_spec = actor_spec(self.leaves, model, self.action_space.num_outputs, log_stds)
        if model.use_sde and not (self.num_normal and self.actor_spec.is_dense):
            raise UsageError(
                "model.use_sde: only continuous actions are explored that way, not as a function of encoders with "
                "parameters, as of images, or of attention"
            )
        self.module = ActorQNets(critic, NUM_CRITICS, self.actor_spec, model, seed=seed, initial_alpha=initial_alpha)
        self.parameters = FlatParameters(self.module)
        self.critics, self.actor = networks_of(self.module)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """The actor's parameters."""
        return self.parameters.range_under(ACTOR)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> SoftNetworks:
        targets = views if target_views is None else target_views
        networks = ActorQNetworks(self.critics, self.actor, views, targets, self.burn_in)
        return self.networks(networks, self.default_target_entropy)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns standard normal noise of the actions in the observations and in the next ones, [S, L, D] each."""
        if not self.num_normal:
            return {}
        noise = generator.standard_normal((2, rows, length, self.num_normal), np.float32)
        return {"noise": noise[0], "next_noise": noise[1]}

    @override
    def behavior(self) -> BehaviorPolicy:
        (start, _), actions = self.acting_range, self.action_space
        assert self.actor is not None
        sampled: Exploration = SampleActions(actions)
        if self.model.use_sde:
            every = self.model.sde_sample_freq
            sampled = StateDependentNoise(actions, self.actor_spec.features, self.num_normal, every)
        return BehaviorPolicy(
            acting_network(self.actor, self.parameters, start=start),
            actions,
            UniformUntil(sampled, actions, self.uniform_steps),
            self.leaves,
            normalize_observations=self.normalize_observations,
        )
