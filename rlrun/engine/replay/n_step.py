"""N-step returns and bootstrap discounts of replay transitions (NumPy)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class NStepTransitions(NamedTuple):
    """N-step return, bootstrap discount and length of the transition that starts at each of T steps in B env slots.

    Attributes:
        rewards: N-step return without bootstrap: discounted sum of the rewards.
        discounts: Discount of the bootstrap value: gamma ** steps, or 0 if the transition's last step is terminal.
        steps: Length of the transition: `n_step`, or less if the episode ends earlier.
        complete: Whether the fragment holds all steps of the transition (`n_step`, or all up to the episode's end).
            False in invalid rows.
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
    """Computes the n-step return and the bootstrap discount of each step; returns end where episodes end.

    Rows must be packed (`rlrun.engine.data.packing`), so that a step's successor is in the next row.

    R[t] = sum over j < k of gamma^j r[t + j], with k = min(n_step, steps up to the episode's end).

    A truncated episode bootstraps from its final observation; a terminated one does not.

    Args:
        rewards: Rewards, [T, B].
        terminateds: Whether the step terminated its episode, [T, B].
        truncateds: Whether the step truncated its episode, [T, B].
        valid: Whether the row holds a step, [T, B].
        gamma: Discount factor.
        n_step: Maximum length of a transition.

    Source:
        Sutton, "Learning to predict by the methods of temporal differences", 1988; De Asis et al., arXiv:1703.01327,
        eq. 6.
    """
    length = len(rewards)
    is_no_end = ~(terminateds | truncateds)
    # These scalars are float32, so all products below stay float32.
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
        open_[rows] &= is_no_end[j:]
    return NStepTransitions(sums, discounts, steps, valid & ~(open_ & (steps < n_step)))
