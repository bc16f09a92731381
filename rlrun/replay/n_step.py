"""Transitions over several steps (NumPy)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class NStepTransitions(NamedTuple):
    """Transitions over a step and those behind it, each [T, B].

    Attributes:
        rewards: Discounted sum of the steps' rewards.
        discounts: What the value of the observation behind them counts: gamma to the power of their number, 0 if the
            last one ended its episode for good.
        steps: How many they are.
        complete: Whether they are as many as there are to be: `n_step`, or all up to their episode's end. False in
            rows without a step.
    """

    rewards: NDArray[np.float32]
    discounts: NDArray[np.float32]
    steps: NDArray[np.uint16]
    complete: NDArray[np.bool_]


def n_step_transitions(
    rewards: NDArray[np.float32],
    terminateds: NDArray[np.bool_],
    truncateds: NDArray[np.bool_],
    valid: NDArray[np.bool_],
    gamma: float,
    n_step: int,
) -> NStepTransitions:
    """Returns the n-step transition of every step, or that over the steps up to its episode's end.

    Rows are packed (`rlrun.data.packing`): a step's next one is in the row behind it.

    R[t] = sum over j < k of gamma^j r[t + j], with k = n_step or the number of steps up to the end, if that is nearer.
    A truncated episode's value counts on from its final observation, a terminated one's does not.

    Args:
        rewards: Rewards, [T, B].
        terminateds: Whether the step ended its episode for good, [T, B].
        truncateds: Whether the step's episode was cut off there, [T, B].
        valid: Whether the row holds a step, [T, B].
        gamma: Discount.
        n_step: Most steps of a transition.

    Source:
        Sutton, "Learning to predict by the methods of temporal differences", 1988; De Asis et al., arXiv:1703.01327,
        eq. 6.
    """
    length = len(rewards)
    goes_on = ~(terminateds | truncateds)
    # Broadcast products of float32 and Python numbers stay float32.
    carries = np.where(terminateds, np.float32(0), np.float32(gamma))
    if n_step == 1:
        return NStepTransitions(rewards.astype(np.float32), carries, valid.astype(np.uint16), valid.copy())
    sums, discounts = np.zeros_like(rewards, np.float32), np.ones_like(rewards, np.float32)
    steps, open_ = np.zeros(rewards.shape, np.uint16), valid.copy()
    for j in range(min(n_step, length)):
        rows = slice(0, length - j)
        adds = open_[rows]
        sums[rows] += discounts[rows] * np.where(adds, rewards[j:], 0)
        discounts[rows] = np.where(adds, discounts[rows] * carries[j:], discounts[rows])
        steps[rows] += adds
        open_[rows] &= goes_on[j:]
    return NStepTransitions(sums, discounts, steps, valid & ~(open_ & (steps < n_step)))
