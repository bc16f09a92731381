"""Networks for an actor that imitates recorded actions, and for its critics, for use in losses (torch)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.networks import ActorQNetworks, action_masks, repeated, taken
from rlrun.algorithms.settings.off_policy import ActorObjective
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.policy.action_masks import masked_tensor
from rlrun.engine.policy.action_spaces.box import DiagonalGaussian

Baseline = Literal["mean", "max"]
"""State value in an advantage: the mean of the actor's actions' values, or their maximum."""

NOISE, NEXT_NOISE = "noise", "next_noise"
"""Minibatch columns of the noise of sampled actions, [S, 1, m, D] and [S, 1, D]."""


@dataclass(frozen=True)
class RegressedNetworks(ABC):
    """Stochastic actor, critics and target networks, with expected values over the actor's actions (exact or sampled).

    Attributes:
        networks: Actor, critics and target networks, and for IQL an additional network `value`.
    """

    networks: ActorQNetworks

    @abstractmethod
    def log_probs(self, batch: SampleBatch) -> Tensor:
        """Log-probabilities [rows, steps] of the recorded actions under the actor."""

    @abstractmethod
    def values_of(self, batch: SampleBatch) -> Tensor:
        """Critics' Q values [critics, rows, steps] of the recorded actions."""

    @abstractmethod
    def target_values_of(self, batch: SampleBatch) -> Tensor:
        """Target critics' Q values [critics, rows, steps] of the recorded actions, without gradients."""

    @abstractmethod
    def advantages(self, batch: SampleBatch, objective: ActorObjective, baseline: Baseline) -> Tensor:
        """Advantages [S, L] of the recorded actions over the actor's actions, without gradients.

        Args:
            batch: The minibatch.
            objective: Rule that combines the critics' values, such as their minimum.
            baseline: Rule that computes a state value from the values of the actor's actions.
        """

    @abstractmethod
    def next_values(self, batch: SampleBatch, *, by_target_actor: bool) -> Tensor:
        """Target critics' expected values [S, L] of the actor's actions at the next observations, without gradients."""

    def next_outputs(self, batch: SampleBatch, *, by_target_actor: bool) -> Tensor:
        """Outputs [rows, steps, num_outputs] of the actor, or of the target actor, at the next observations."""
        outputs = self.networks.target_actor_outputs if by_target_actor else self.networks.actor_outputs
        return outputs(self.networks.following(batch))


class RegressedBoxNetworks(RegressedNetworks):
    """Actor of bounded Gaussian actions, with expected values computed as means over sampled actions."""

    @override
    def log_probs(self, batch: SampleBatch) -> Tensor:
        outputs = self.networks.actor_outputs(self.networks.present(batch))
        return DiagonalGaussian(outputs).log_prob(batch["actions"])

    @override
    def values_of(self, batch: SampleBatch) -> Tensor:
        return self.networks.values(self.networks.present(batch), batch["actions"])

    @override
    def target_values_of(self, batch: SampleBatch) -> Tensor:
        with torch.no_grad():
            return self.networks.target_values(self.networks.present(batch), batch["actions"])

    @override
    def advantages(self, batch: SampleBatch, objective: ActorObjective, baseline: Baseline) -> Tensor:
        with torch.no_grad():
            observations = self.networks.present(batch)
            actions = bounded_sample(self.networks.actor_outputs(observations), batch[NOISE].squeeze(1))
            several = repeated(observations, actions.shape[1])
            own = self.networks.actor_values(objective, several, actions).squeeze(-1)
            values = own.mean(-1, keepdim=True) if baseline == "mean" else own.amax(-1, keepdim=True)
            return self.networks.actor_values(objective, observations, batch["actions"]).squeeze(-1) - values

    @override
    def next_values(self, batch: SampleBatch, *, by_target_actor: bool) -> Tensor:
        with torch.no_grad():
            actions = bounded_sample(self.next_outputs(batch, by_target_actor=by_target_actor), batch[NEXT_NOISE])
            return self.networks.target_minimum(
                self.networks.target_values(self.networks.following(batch), actions), batch
            )


class RegressedChoiceNetworks(RegressedNetworks):
    """Categorical actor, with expected values computed as exact sums over the allowed actions."""

    @override
    def log_probs(self, batch: SampleBatch) -> Tensor:
        logits = self.networks.actor_outputs(self.networks.present(batch))
        return taken(logits.log_softmax(-1), batch["actions"])

    @override
    def values_of(self, batch: SampleBatch) -> Tensor:
        return taken(self.networks.critic_outputs(self.networks.present(batch)), batch["actions"])

    @override
    def target_values_of(self, batch: SampleBatch) -> Tensor:
        with torch.no_grad():
            return taken(self.networks.target_critic_outputs(self.networks.present(batch)), batch["actions"])

    @override
    def advantages(self, batch: SampleBatch, objective: ActorObjective, baseline: Baseline) -> Tensor:
        with torch.no_grad():
            observations = self.networks.present(batch)
            values = self.networks.actor_values(objective, observations)
            if baseline == "mean":
                own = (self.networks.actor_outputs(observations).softmax(-1) * values).sum(-1)
            else:
                own = masked_tensor(values, action_masks(observations)).amax(-1)
            return taken(values, batch["actions"]) - own

    @override
    def next_values(self, batch: SampleBatch, *, by_target_actor: bool) -> Tensor:
        with torch.no_grad():
            probs = self.next_outputs(batch, by_target_actor=by_target_actor).softmax(-1)
            values = self.networks.target_minimum(
                self.networks.target_critic_outputs(self.networks.following(batch)), batch
            )
            return (probs * values).sum(-1)


def bounded_sample(outputs: Tensor, noise: Tensor) -> Tensor:
    """Gaussian actions [..., D] from network outputs and standard normal noise [..., D], clipped to [-1, 1]."""
    own = DiagonalGaussian(outputs)
    return (own.means + own.log_stds.exp() * noise).clamp(-1.0, 1.0)
