"""Scaling of rewards by a constant factor, then clipping, before an algorithm learns from them."""

from __future__ import annotations

from typing import Any, NamedTuple


class RewardScale(NamedTuple):
    """Change of rewards before learning: multiplication by a constant, then clipping.

    Attributes:
        factor: Factor of each reward.
        clip: Bound to which each scaled reward is clipped; None for no clipping.

    Examples:
        >>> import numpy as np
        >>> RewardScale(0.25, clip=1.0)(np.array([2.0, -8.0])).tolist()
        [0.5, -1.0]
    """

    factor: float = 1.0
    clip: float | None = None

    def __call__(self, rewards: Any) -> Any:
        """Returns scaled and clipped rewards, an array or tensor of the same shape and type of floats."""
        scaled = rewards * self.factor
        return scaled if self.clip is None else scaled.clip(-self.clip, self.clip)


UNSCALED = RewardScale()
"""Rewards as they are."""
