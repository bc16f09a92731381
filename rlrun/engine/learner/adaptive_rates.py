"""Learning rates that adapt to the KL divergence of updates, as tensors on the learner's device (torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.statistic_totals import StatisticTotals
from rlrun.engine.settings.config import AdaptiveRate

FACTOR, TOLERANCE = 1.5, 2.0
"""Factor by which a learning rate changes, and ratio between KL divergence and target beyond which it changes."""


class AdaptiveRates:
    """Adaptive learning rates of a learner's objectives; adapting them does not wait for the device.

    Args:
        objectives: The learner's objectives, some of which have a rule for their learning rate.
        totals: Training statistics, which include each such objective's KL divergence over all learners.
        device: The learner's device.

    Attributes:
        rates: Current learning rate of each objective with a rule, a scalar, by the objective's name.

    Source:
        Schwarke et al., "RSL-RL", arXiv:2509.10771, which adapts before the step on the same minibatch; for epochs,
        `KLAdaptiveLR` of skrl, arXiv:2202.03825.
    """

    def __init__(self, objectives: Sequence[Objective], totals: StatisticTotals, device: torch.device) -> None:
        self._totals = totals
        self._rules = [
            (each, each.adaptive_lr, each.statistic("kl", is_alone=len(objectives) == 1))
            for each in objectives
            if each.adaptive_lr is not None
        ]
        self.rates = {each.name: torch.tensor(rule.initial, device=device) for each, rule, _ in self._rules}
        self._before: dict[str, tuple[Tensor | float, int]] = {}

    @property
    def adapts_after_minibatches(self) -> bool:
        """Whether a rate adapts after each minibatch, so that minibatches must be run one by one."""
        return any(rule.every == "minibatch" for _, rule, _ in self._rules)

    def begin_update(self) -> None:
        """Marks the start of an update: rates adapt to the KL divergences that are measured from now on."""
        self._before = {each.name: self._totals.sum_of(kl) for each, _, kl in self._rules}

    def applied(self, settings: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the scheduled settings with adaptive learning rates in place of the scheduled values."""
        return {**settings, **{each.lr: self.rates[each.name] for each, _, _ in self._rules}}

    def adapt(self, every: Literal["minibatch", "epoch"]) -> None:
        """Adapts either the rates that change after every minibatch, or those that change after every epoch."""
        for each, rule, kl in self._rules:
            if rule.every != every:
                continue
            total, count = self._totals.sum_of(kl)
            before, counted = self._before[each.name]
            if count > counted:
                self.rates[each.name] = adapted(rule, self.rates[each.name], (total - before) / (count - counted))
                self._before[each.name] = total, count


def adapted(rule: AdaptiveRate, rate: Tensor, kl: Tensor | float) -> Tensor:
    """Returns the learning rate, a scalar, after an update with a given KL divergence.

    Args:
        rule: Target of the KL divergence, and bounds of the learning rate.
        rate: Learning rate of the update.
        kl: Mean KL divergence of the update.
    """
    kl, (least, most) = torch.as_tensor(kl, device=rate.device), rule.bounds
    lower = torch.where(kl > TOLERANCE * rule.adaptive_kl, rate / FACTOR, rate)
    return torch.where(kl < rule.adaptive_kl / TOLERANCE, rate * FACTOR, lower).clamp(least, most)
