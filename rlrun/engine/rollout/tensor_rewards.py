"""Scaling and clipping of rewards on a device: the torch counterpart of `rlrun.engine.rollout.rewards`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlrun.engine.functional.moments import Moments
from rlrun.engine.rollout.rewards import CLIP, RewardSettings


class TensorRewards:
    """Reward transform on a device: scales, clips or normalizes rewards like `RewardTransform`.

    Args:
        slots: B, number of env slots.
        settings: Settings of the transform.
        device: Device of the rewards.
    """

    def __init__(self, slots: int, settings: RewardSettings, device: torch.device) -> None:
        self.settings = settings
        self._returns = torch.zeros(slots, dtype=torch.float64, device=device)
        self._before = torch.zeros(3, dtype=torch.float64, device=device)

    def load(self, moments: Moments) -> None:
        """Replaces the running statistics of discounted returns."""
        numbers = np.array([moments.count, moments.mean, moments.squares])
        self._before.copy_(torch.from_numpy(numbers))

    def __call__(self, rewards: Tensor, ends: Tensor) -> tuple[Tensor, Tensor | None]:
        """Transforms a fragment's raw rewards.

        Args:
            rewards: Raw rewards, [T, B].
            ends: Whether the episode ended at the step, [T, B].

        Returns:
            The transformed rewards [T, B] as float32, and mean and sum of squared deviations of the discounted returns
            [2], as float64; None without normalization.

        Source:
            Engstrom et al., arXiv:2005.12729, section 3 ("reward scaling").
        """
        rewards = self.settings.scale(rewards)
        if not self.settings.normalize:
            return rewards.float(), None
        sums = torch.empty(rewards.shape, dtype=torch.float64, device=rewards.device)
        for t in range(len(rewards)):
            torch.add(rewards[t], self._returns, alpha=self.settings.gamma, out=sums[t])
            self._returns = torch.where(ends[t], 0.0, sums[t])
        mean = sums.mean()
        squares = (sums - mean).square().sum()
        count, known_mean, known_squares = self._before
        total = count + sums.numel()
        both = known_squares + squares + (mean - known_mean).square() * (count * sums.numel() / total)
        variance = torch.where(total >= 2, both / total, 1.0)
        scaled = (rewards / (variance + 1e-8).sqrt()).clamp(-CLIP, CLIP)
        return scaled.float(), torch.stack((mean, squares))

    def state(self) -> dict[str, Any]:
        """Returns the running discounted return of each slot, for a checkpoint."""
        return {"returns": self._returns.cpu().numpy().copy()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the running discounted return of each slot from the result of `state()`.

        Raises:
            ValueError: The state has a different number of slots.
        """
        returns = torch.as_tensor(np.array(state["returns"], np.float64), device=self._returns.device)
        if returns.shape != self._returns.shape:
            raise ValueError(f"the saved running returns have shape {tuple(returns.shape)}")
        self._returns = returns

    def reset(self) -> None:
        """Sets the running discounted returns to 0, since all episodes were abandoned."""
        self._returns.zero_()
