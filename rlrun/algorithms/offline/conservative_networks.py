"""Tanh-Gaussian actor and critics of conservative Q-learning, for losses (torch)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlrun.algorithms.actor_q.networks import repeated
from rlrun.algorithms.actor_q.soft_networks import SquashedNetworks
from rlrun.algorithms.offline.greedy_networks import log_sum_exp
from rlrun.engine.data.sample_batch import SampleBatch

UNIFORM, SAMPLES = "uniform_actions", "sample_noise"
"""Minibatch columns of the regulariser: uniform actions [S, 1, N, D], and noise of the actor's actions in the current
and the next observations, [S, 1, 2 N, D]."""


RETURNS = "returns"
"""Minibatch column of the recorded episodes' returns from each step, for calibrated values, [S, 1]."""


class ConservativeNetworks(SquashedNetworks):
    """Tanh-Gaussian actor and critics, with values that exclude the entropy."""

    def next_values(self, batch: SampleBatch) -> Tensor:
        """Target critics' values [S, L] of an action sampled from the actor at the next observations; no gradients."""
        return self.sample_and_evaluate_next(batch).values

    def soft_maximum(self, batch: SampleBatch) -> Tensor:
        """Log of the integral of exp(Q(s, .)) over all actions, estimated by importance sampling, [C, S, 1].

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
