"""Returns of whole episodes that are stored as concatenated rows (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def discounted_returns(
    rewards: Doubles, starts: NDArray[np.int64], lengths: NDArray[np.int64], gamma: float
) -> Doubles:
    """Discounted return from each row to the end of its episode, without bootstrap, for episodes as concatenated rows.

    G[t] = r[t] + gamma * G[t + 1], which is r[t] for an episode's last step. All episodes take a step back at once.

    Args:
        rewards: Rewards, [N]; rows outside of episodes keep their number.
        starts: Row of each episode's first step, [E].
        lengths: Number of steps of each episode, [E].
        gamma: Discount factor.

    Returns:
        The returns, [N].
    """
    returns = rewards.copy()
    order = np.argsort(-lengths, kind="stable")
    ends, falling = (starts + lengths)[order], -lengths[order]
    for steps_left in range(2, int(lengths.max(initial=0)) + 1):
        rows = ends[: np.searchsorted(falling, -steps_left, side="right")] - steps_left
        returns[rows] += gamma * returns[rows + 1]
    return returns
