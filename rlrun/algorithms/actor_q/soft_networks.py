"""Networks of a soft policy, as losses run them: stochastic actor, critics, temperature (torch)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.networks import ActorQNetworks, action_masks
from rlrun.data.action_masks import mask_of
from rlrun.data.sample_batch import SampleBatch
from rlrun.functional.masked import masked_mean
from rlrun.policy.action_spaces.squashed_box import SquashedGaussian

ENTROPY_SHARE = 0.98
"""Which part of the largest entropy over choices an actor is held at (arXiv:1910.07207, appendix)."""


class Soft(NamedTuple):
    """An actor's actions in observations [S, L], as far as a loss is concerned.

    Attributes:
        log_probs: The log-probability of its actions: of a drawn one, or on average over all of them, [S, L].
        values: The minimum of the Q functions: of the drawn action, or on average over all of them, [S, L].
    """

    log_probs: Tensor
    values: Tensor


@dataclass(frozen=True)
class SoftNetworks(ABC):
    """An actor that describes a distribution, critics, and a temperature.

    Attributes:
        networks: Actor and critics.
        default_target_entropy: The policy's.
    """

    networks: ActorQNetworks
    default_target_entropy: float

    @property
    def log_alpha(self) -> Tensor:
        """The logarithm of the temperature, [1]."""
        return self.networks.views["log_alpha"]

    def target_entropy(self, batch: SampleBatch) -> Tensor | float:
        """Returns the entropy in nats that the actor is held at in a batch's observations by default."""
        return self.default_target_entropy

    @abstractmethod
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Returns the critics' values of a batch's actions, [C, S, L]."""

    @abstractmethod
    def sample_and_evaluate(self, batch: SampleBatch) -> Soft:
        """Returns the actor's log-probabilities in a batch's observations, and the critics' values."""

    @abstractmethod
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Returns them in a batch's next observations, with the target critics' values; no gradients."""


class SquashedNetworks(SoftNetworks):
    """Continuous actions: expectations over the actor's distribution are taken from one drawn action."""

    @override
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Returns the critics' values of actions [S, L, D], [C, S, L]."""
        return self.networks.values(self.networks.present(batch), batch["actions"])

    @override
    def sample_and_evaluate(self, batch: SampleBatch) -> Soft:
        """Draws an action in each observation by the column `noise`."""
        observations = self.networks.present(batch)
        actor = SquashedGaussian(self.networks.actor_outputs(observations))
        actions, log_probs = actor.sample_and_log_prob(batch["noise"])
        return Soft(log_probs, self.networks.values(observations, actions).amin(0))

    @override
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Draws an action in each next observation by the column `next_noise`."""
        with torch.no_grad():
            observations = self.networks.following(batch)
            actor = SquashedGaussian(self.networks.actor_outputs(observations))
            actions, log_probs = actor.sample_and_log_prob(batch["next_noise"])
            values = self.networks.target_values(observations, actions)
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
        """Averages over the choices."""
        observations = self.networks.present(batch)
        return averaged(self.networks.actor_outputs(observations), self.networks.critic_outputs(observations))

    @override
    def sample_and_evaluate_next(self, batch: SampleBatch) -> Soft:
        """Averages over the choices in the next observations."""
        with torch.no_grad():
            observations = self.networks.following(batch)
            return averaged(
                self.networks.actor_outputs(observations), self.networks.target_critic_outputs(observations)
            )


def averaged(logits: Tensor, critic_outputs: Tensor) -> Soft:
    """Averages log-probabilities and the minimum of critics [C, S, L, A] over choices with logits [S, L, A]."""
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    return Soft((probs * log_probs).sum(-1), (probs * critic_outputs.amin(0)).sum(-1))
