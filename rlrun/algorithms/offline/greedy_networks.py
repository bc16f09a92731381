"""Critics for use in losses, for Discrete actions, and for Box actions in conservative Q-learning (torch)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rlrun.algorithms.actor_q.networks import ActorQNetworks, repeated, run, taken
from rlrun.algorithms.actor_q.soft_networks import SquashedNetworks
from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.policy.action_masks import masked_tensor

UNIFORM, SAMPLES = "uniform_actions", "sample_noise"
"""Minibatch columns of the regularizer: uniform actions [S, 1, N, D], and noise of the actor's actions in the current
and the next observations, [S, 1, 2 N, D]."""


RETURNS = "returns"
"""Minibatch column of the recorded episodes' returns from each step, for calibrated values, [S, 1]."""

BEHAVIOR = "behavior"
"""Name of the network of the behavior policy, an estimate of which actions the data takes."""


@dataclass(frozen=True)
class GreedyNetworks(ActorQNetworks):
    """Critics Q(s, .) over Discrete actions, with an optional behavior policy; the first critic chooses actions.

    Attributes:
        threshold: Minimum probability of an action under the behavior policy, as a fraction of the largest one.
    """

    threshold: float = 0.0

    def values_of(self, batch: SampleBatch) -> Tensor:
        """Critics' Q values [critics, rows, steps] of the recorded actions."""
        return taken(self.critic_outputs(self.present(batch)), batch["actions"])

    def next_values(self, batch: SampleBatch) -> Tensor:
        """Target critics' values [S, L] of the first critic's greedy actions at the next observations; no gradients.

        Source:
            Double Q-learning, van Hasselt et al., arXiv:1509.06461.
        """
        with torch.no_grad():
            observations = self.following(batch)
            values = masked_tensor(run(self.critics[0], self.views, observations), observations)
            if BEHAVIOR in self.others:
                unlikely = is_unlikely(self.behavior_log_probs(observations), self.threshold)
                values = values.masked_fill(unlikely, FORBIDDEN)
            best = values.argmax(-1)
            return self.target_minimum(taken(self.target_critic_outputs(observations), best), batch)

    def soft_maximum(self, batch: SampleBatch) -> Tensor:
        """Log-sum-exp of each critic's values over the allowed actions, [critics, rows, steps]."""
        observations = self.present(batch)
        return log_sum_exp(masked_tensor(self.critic_outputs(observations), observations))

    def behavior_log_probs(self, observations: object) -> Tensor:
        """Log-probabilities [rows, steps, num_actions] of the behavior policy under action masks."""
        return masked_tensor(self.outputs_of(BEHAVIOR, observations), observations).log_softmax(-1)


def is_unlikely(log_probs: Tensor, threshold: float) -> Tensor:
    """Mask [..., A] of actions with less than `threshold` times the top probability (arXiv:1910.01708, eq. 17)."""
    return log_probs - log_probs.amax(-1, keepdim=True) < math.log(threshold)


def log_sum_exp(x: Tensor) -> Tensor:
    """Logarithm of the sum of exponentials over the last axis, [...]."""
    largest = x.detach().amax(-1, keepdim=True)
    return (x - largest).exp().sum(-1).log() + largest.squeeze(-1)


class ConservativeNetworks(SquashedNetworks):
    """Tanh-Gaussian actor and critics, whose target values have no entropy bonus."""

    def next_values(self, batch: SampleBatch) -> Tensor:
        """Target critics' values [S, L] of actions sampled at the next observations, without gradients."""
        return self.sample_and_evaluate_next(batch).values

    def soft_maximum(self, batch: SampleBatch) -> Tensor:
        """Log of the integral of exp(Q(s, .)) over all actions, estimated by importance sampling, [critics, S, 1].

        Actions are sampled in equal numbers from a uniform distribution, from the actor at s, and from the actor at the
        next observation. The logarithm of the action's density is subtracted from each value (arXiv:2006.04779,
        appendix F). If the minibatch has returns, they bound the values of the actor's actions from below (Cal-QL,
        arXiv:2303.05479, eq. 5.1).
        """
        networks, uniform = self.networks, batch[UNIFORM].squeeze(1)
        number, size = uniform.shape[1:]
        own, ahead = batch[SAMPLES].squeeze(1).chunk(2, 1)
        with torch.no_grad():
            present, log_probs = self.sample(networks.present(batch), own)
            following, next_log_probs = self.sample(networks.following(batch), ahead)
            densities = torch.cat([torch.full_like(log_probs, -size * math.log(2)), log_probs, next_log_probs], 1)
            actions = torch.cat([uniform, present, following], 1)
        values = networks.values(repeated(networks.present(batch), 3 * number), actions)
        if RETURNS in batch:
            values = torch.cat([values[..., :number], values[..., number:].maximum(batch[RETURNS])], -1)
        return log_sum_exp(values - densities).unsqueeze(-1) - math.log(3 * number)
