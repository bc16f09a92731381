"""Stochastic actor, critics and temperature of Soft Actor-Critic, for losses (torch)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.networks import ActorQNetworks, action_masks, taken
from rlrun.algorithms.settings.off_policy import ActorObjective
from rlrun.engine.data.action_masks import mask_of
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.policy.action_spaces.squashed_box import SquashedGaussian

ENTROPY_SHARE = 0.98
"""Target entropy of Discrete actions, as a fraction of the uniform distribution's (arXiv:1910.07207, appendix)."""


class Soft(NamedTuple):
    """Log-probabilities and Q values of an actor's sampled actions, or their exact expectations over all actions.

    Attributes:
        log_probs: Log-probability of a sampled action, or its exact expectation over all actions, [S, L].
        values: Value of a sampled action (by default the minimum over the critics), or the exact expectation over all
            actions, [S, L]. For next actions with distributional critics: the M returns that targets keep, [M, S, L].
        actions: The sampled actions, [S, L, D]; None with exact expectations.
        probabilities: Probabilities of the returns in `values`, [M, S, L]; None for equal probabilities.
        moved: Updated running statistics of batch normalization, by parameter name; usually empty.
    """

    log_probs: Tensor
    values: Tensor
    actions: Tensor | None = None
    probabilities: Tensor | None = None
    moved: Mapping[str, Tensor] = MappingProxyType({})


class Residuals(NamedTuple):
    """TD errors of C critics with respect to their targets, and the resulting loss.

    Attributes:
        losses: Loss, summed over the critics, [S, L].
        values: Expected values of recorded actions, [C, S, L].
        errors: TD errors, [C, S, L].
    """

    losses: Tensor
    values: Tensor
    errors: Tensor


class ExpectedReturn:
    """Interpretation of the critics' outputs: each critic estimates the expected return as a single number.

    Subclasses give the outputs another meaning, such as quantiles of the return.
    """

    def mean_of(self, outputs: Tensor) -> Tensor:
        """Expected returns [...] from the outputs [..., K] of critics, for the actor."""
        return outputs.squeeze(-1)

    def kept(self, networks: ActorQNetworks, values: Tensor, batch: SampleBatch) -> tuple[Tensor, Tensor | None]:
        """Selects the returns [S, L] for the targets from the estimates of all target critics; by default, the minimum.

        Args:
            networks: Actor, critics and target critics of the policy.
            values: Outputs of the C target critics, [C, S, L], or [C, S, L, K] if each has K outputs.
            batch: The minibatch.

        Returns:
            The returns, [S, L], or M per step, [M, S, L]; and their probabilities, None for equal probabilities.
        """
        return networks.target_minimum(values, batch), None

    def residuals(self, values: Tensor, targets: Tensor, probabilities: Tensor | None) -> Residuals:
        """Half the squared errors of values [critics, rows, steps] with respect to targets [rows, steps].

        Args:
            values: Outputs of the C critics, [C, S, L], or [C, S, L, K] if each has K outputs.
            targets: Targets, [S, L], or M of them, [M, S, L].
            probabilities: Probabilities of M targets, [M, S, L]; None for equal probabilities.
        """
        errors = values - targets
        return Residuals(0.5 * errors.square().sum(0), values, errors)


EXPECTED_RETURN = ExpectedReturn()


@dataclass(frozen=True)
class SoftNetworks(ABC):
    """Stochastic actor, critics and entropy temperature of Soft Actor-Critic.

    Attributes:
        networks: Actor, critics and target critics.
        default_target_entropy: Target entropy of the action space in nats, without action masks.
        returns: Interpretation of the critics' outputs.
    """

    networks: ActorQNetworks
    default_target_entropy: float
    returns: ExpectedReturn = EXPECTED_RETURN

    @property
    def log_alpha(self) -> Tensor:
        """Logarithm of the entropy temperature alpha, [1]."""
        return self.scalar("log_alpha")

    def scalar(self, name: str) -> Tensor:
        """Returns the learned scalar parameter of a given name, [1]."""
        return self.networks.views[name]

    def target_entropy(self, batch: SampleBatch) -> Tensor | float:
        """Default target entropy in nats for the temperature loss over a minibatch."""
        return self.default_target_entropy

    @abstractmethod
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Q values [critics, rows, steps] that the critics assign to a minibatch's recorded actions."""

    def values_and_next(self, batch: SampleBatch) -> tuple[Tensor, Soft]:
        """Q values [critics, rows, steps] of recorded actions, and target values of the actor's next actions."""
        ahead = self.sample_and_evaluate_next(batch)
        return self.values_of(batch), ahead

    @abstractmethod
    def sample_and_evaluate(self, batch: SampleBatch, objective: ActorObjective = "minimum") -> Soft:
        """Log-probabilities and Q values of the actor's actions at a minibatch's observations.

        Args:
            batch: The minibatch.
            objective: Rule that combines the critics' values, such as their minimum.
        """

    @abstractmethod
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Log-probabilities and target Q values of the actor's actions at the next observations, without gradients."""


@dataclass(frozen=True)
class SquashedNetworks(SoftNetworks):
    """SAC's networks for continuous actions: a tanh-Gaussian actor, and critics Q(s, a).

    Expectations are estimated from one reparameterized action per observation.

    Attributes:
        distribution: Function from the actor's outputs to action distributions.
    """

    distribution: Callable[[Tensor], SquashedGaussian] = SquashedGaussian

    def sample(self, observations: Any, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Reparameterized actions from standard normal noise [rows, steps, action_size], and their log-densities."""
        return self.distribution(self.networks.actor_outputs(observations)).sample_and_log_prob(noise)

    def actor_outputs(self, present: Any, batch: SampleBatch) -> Tensor:
        """Actor outputs [rows, steps, num_outputs] at a minibatch's recorded observations, for the actor's loss."""
        return self.networks.actor_outputs(present)

    @override
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Q values [critics, rows, steps] that the critics assign to recorded actions [rows, steps, action_size]."""
        return self.networks.values(self.networks.present(batch), batch["actions"])

    @override
    def sample_and_evaluate(self, batch: SampleBatch, objective: ActorObjective = "minimum") -> Soft:
        """Log-probabilities and Q values of reparameterized actions, sampled with the batch's `noise`."""
        present = self.networks.present(batch)
        actions, log_probs = self.distribution(self.actor_outputs(present, batch)).sample_and_log_prob(batch["noise"])
        values = self.networks.actor_values(objective, present, actions, mean_of=self.returns.mean_of)
        return Soft(log_probs, values, actions)

    @override
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Log-probabilities and target Q values of next actions sampled with `next_noise`, without gradients."""
        with torch.no_grad():
            observations = self.networks.following(batch)
            actions, log_probs = self.sample(observations, batch["next_noise"])
            values, probabilities = self.kept(self.networks.target_values(observations, actions), batch)
            return Soft(log_probs, values, probabilities=probabilities)

    def kept(self, values: Tensor, batch: SampleBatch) -> tuple[Tensor, Tensor | None]:
        """Selects the returns used in targets, with their probabilities; see `ExpectedReturn.kept`."""
        return self.returns.kept(self.networks, values, batch)


class ChoiceNetworks(SoftNetworks):
    """SAC's networks for Discrete actions: a categorical actor, and critics Q(s, .).

    Expectations are exact sums over the allowed actions (Christodoulou, arXiv:1910.07207).
    """

    @override
    def target_entropy(self, batch: SampleBatch) -> Tensor | float:
        """Target entropy: 0.98 times log(number of allowed actions), averaged over observations if there are masks."""
        mask = mask_of(action_masks(self.networks.present(batch)))
        if mask is None:
            return self.default_target_entropy
        largest: Tensor = masked_mean((mask != 0).sum(-1).clamp(min=1).log(), batch["valid"].float())
        return ENTROPY_SHARE * largest

    @override
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Q values [critics, rows, steps] that the critics assign to recorded Discrete actions [rows, steps]."""
        return taken(self.networks.critic_outputs(self.networks.present(batch)), batch["actions"])

    @override
    def sample_and_evaluate(self, batch: SampleBatch, objective: ActorObjective = "minimum") -> Soft:
        """Exact expectations of log-probability and Q value over the actor's actions at a minibatch's observations."""
        networks, observations = self.networks, self.networks.present(batch)
        return averaged(networks.actor_outputs(observations), networks.actor_values(objective, observations))

    @override
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Exact expectations of log-probability and target Q value over the actions at the next observations."""
        with torch.no_grad():
            networks, observations = self.networks, self.networks.following(batch)
            values = networks.target_minimum(networks.target_critic_outputs(observations), batch)
            return averaged(networks.actor_outputs(observations), values)


def averaged(logits: Tensor, values: Tensor) -> Soft:
    """Exact expectations of log-probabilities and Q values under a categorical actor.

    Args:
        logits: Logits of the actor, [S, L, A].
        values: Q values of all actions, [S, L, A].
    """
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    return Soft((probs * log_probs).sum(-1), (probs * values).sum(-1))
