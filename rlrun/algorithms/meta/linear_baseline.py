"""Monte Carlo advantages of complete episodes over a fitted linear baseline (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.masked import standardized
from rlrun.engine.functional.returns import reverse_scan

Floats = NDArray[np.float32]

RIDGE = 1e-5
"""Ridge penalty, for a unique solution of the regression."""


def baseline_advantages(
    rewards: Floats, observations: NDArray[np.floating], valid: NDArray[np.bool_], gamma: float
) -> Floats:
    """Standardised advantages: returns minus a linear baseline, with mean 0 and standard deviation 1.

    The baseline is a ridge regression on the observation o, o^2, the time t / 100, its square and its cube, and 1. It
    is fitted to the same returns from which it is subtracted. Ends of episodes are not bootstrapped.

    Args:
        rewards: Rewards of one episode per slot, from the first step on, [T, B].
        observations: Observations before the steps, [T, B, ...].
        valid: Mask of the episodes' steps, [T, B], without gaps.
        gamma: Discount factor.

    Returns:
        Advantages [T, B], 0 after the end of the episode.

    Source:
        Duan et al., arXiv:1604.06778, section 5 and supplement, as in Finn et al., arXiv:1703.03400, section 5.3.
    """
    length, slots = rewards.shape
    discounts = np.full((length, slots), gamma)
    returns = reverse_scan(np.where(valid, rewards, 0.0).astype(np.float64), discounts)
    seen = observations.reshape(length, slots, -1).astype(np.float64)
    time = np.broadcast_to(np.arange(length)[:, None, None] / 100.0, (length, slots, 1))
    features = np.concatenate([seen, seen**2, time, time**2, time**3, np.ones_like(time)], -1)
    x, y = features[valid], returns[valid]
    coefficients = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)
    return standardized((returns - features @ coefficients).astype(np.float32), valid)
