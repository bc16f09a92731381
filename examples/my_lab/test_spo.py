"""A test of SPO's loss: `python -m pytest my_lab/test_spo.py` in examples/."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from my_lab.spo import SPO
from rlrun.plugin import ActorCriticOutputs, SampleBatch


@dataclass
class Ratios:
    """Stand-in for a distribution, with given log-probabilities."""

    log_probs: Tensor

    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the given log-probabilities, whatever the actions."""
        return self.log_probs

    def entropy(self) -> Tensor:
        """Returns zeros."""
        return torch.zeros_like(self.log_probs)


def test_the_spo_objective_peaks_at_ratios_of_1_plus_eps_and_1_minus_eps() -> None:
    """The gradient of the policy loss is 0 at the ratios 1 + eps and 1 - eps."""
    ratio = torch.tensor([[1.2], [0.8]], requires_grad=True)
    advantages = torch.tensor([[2.0], [-1.0]])
    zeros = torch.zeros(2, 1)
    batch = SampleBatch(
        valid=zeros + 1,
        actions=zeros,
        logp=zeros,
        advantages=advantages,
        values=zeros,
        value_targets=zeros,
    )
    distribution: Any = Ratios(ratio.log())
    outputs = ActorCriticOutputs(distribution, zeros)
    loss = SPO(eps=0.2).loss(outputs, batch, {"entropy_coeff": torch.tensor(0.0)})
    (gradient,) = torch.autograd.grad(loss.total, ratio)
    torch.testing.assert_close(gradient, zeros, atol=1e-6, rtol=0)
