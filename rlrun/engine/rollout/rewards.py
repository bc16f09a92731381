"""Transformation of rewards before learning: a constant scale and clipping, or normalization by discounted returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.reward_scale import UNSCALED, RewardScale
from rlrun.engine.settings.registry import load_internal

DISCOUNTED_SUMS = "rlrun.engine.functional.returns:forward_discounted_sums"
"""Import path of the function that computes the discounted sums whose standard deviation normalizes rewards."""

RETURNS = "returns"
"""Filter name of the running statistics of discounted returns."""

CLIP = 10.0
"""Clipping bound of normalized rewards."""


@dataclass(frozen=True)
class RewardSettings:
    """Settings for scaling, clipping or normalizing a policy's rewards.

    Attributes:
        gamma: Discount of the returns whose standard deviation normalizes rewards.
        scale: Constant scale and clipping bound of raw rewards.
        normalize: Whether rewards are divided by the standard deviation of discounted returns.
    """

    gamma: float
    scale: RewardScale = UNSCALED
    normalize: bool = False


class RewardTransform:
    """Scales and clips rewards, or divides them by the running standard deviation of discounted returns.

    The standard deviation arrives with the policy's weights. The worker keeps the running discounted return of each
    slot.

    Args:
        slots: B, number of slots.
        settings: Settings of the transform.
    """

    def __init__(self, slots: int, settings: RewardSettings) -> None:
        self.settings = settings
        self._discounted_sums = load_internal(DISCOUNTED_SUMS) if settings.normalize else None
        self.moments = Moments.empty(())
        self._returns = np.zeros(slots)

    def measured(
        self, rewards: NDArray[np.float64], ends: NDArray[np.bool_], valid: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], dict[str, Moments]]:
        """Scales and clips a fragment's raw rewards, and measures their discounted returns.

        Args:
            rewards: Raw rewards, [T, B].
            ends: Whether the episode ended at the step, [T, B].
            valid: Whether the entry is a step, [T, B]; rewards and ends of other entries are ignored.

        Returns:
            The scaled and clipped rewards [T, B], and the fragment's new statistics by name.
        """
        rewards = self.settings.scale(np.where(valid, rewards, 0.0))
        if self._discounted_sums is None:
            return rewards, {}
        ends = ends & valid
        sums = self._discounted_sums(rewards, ends, valid, self.settings.gamma, self._returns)
        self._returns = np.where(ends[-1], 0.0, sums[-1])
        return rewards, {RETURNS: Moments.of(sums[valid], 1)}

    def normalized(self, rewards: NDArray[np.float64], delta: Mapping[str, Moments]) -> NDArray[np.float32]:
        """Divides rewards [T, B] by the standard deviation of all returns, if rewards are normalized.

        Args:
            rewards: Rewards of a fragment, from `measured`.
            delta: Statistics of the fragment's returns from `measured`, which are included in the standard deviation.
        """
        if RETURNS not in delta:
            return rewards.astype(np.float32)
        standard_deviation = np.sqrt(self.moments.merged(delta[RETURNS]).variance + 1e-8)
        return (rewards / standard_deviation).clip(-CLIP, CLIP).astype(np.float32)

    def state(self) -> dict[str, Any]:
        """Returns the running discounted return of each slot, for a checkpoint."""
        return {"returns": self._returns}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the running discounted return of each slot from the result of `state()`."""
        returns: NDArray[np.float64] = np.array(state["returns"], np.float64)
        if returns.shape != self._returns.shape:
            raise ValueError(f"the saved running returns have shape {returns.shape}, not {self._returns.shape}")
        self._returns = returns

    def reset_slots(self, slots: NDArray[np.bool_]) -> None:
        """Resets the running discounted return of the slots whose episode was abandoned (mask `slots` [B])."""
        self._returns[slots] = 0.0
