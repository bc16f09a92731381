"""Returns and advantages over fragments of experience (NumPy).

A fragment is a rollout of T steps in B env slots, in time-major arrays: step t of slot b has reward `rewards[t, b]`,
and the observation before it has value `values[t, b]`; `values` has one more row. Fragments must be packed
(`rlrun.engine.data.packing`), so that the value after step t is always `values[t + 1]`. Rows without a step occur only
directly after an episode's end, where they hold the final observation, or after a slot's last step; no step depends on
the results in these rows. `discounted_returns` instead takes complete episodes as concatenated rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]


def reverse_scan(deltas: Floats, decays: Floats) -> Floats:
    """Solves the recursion x[t] = deltas[t] + decays[t] * x[t + 1] with x[T] = 0, for all B env slots at once.

    Recursive doubling: after round k every row holds the sum of its next 2^k terms, so log2(T) vectorized rounds
    replace T steps of a loop (Blelloch, "Prefix sums and their applications", 1990).

    Args:
        deltas: Terms, [T, B].
        decays: Factors, [T, B].

    Returns:
        The solution x, [T, B], in the dtype of the terms.
    """
    sums, factors = deltas.copy(), decays.copy()
    stride = 1
    while stride < len(sums):
        sums[:-stride] += factors[:-stride] * sums[stride:]
        factors[:-stride] *= factors[stride:]
        factors[-stride:] = 0
        stride *= 2
    return sums


def gae(
    rewards: Floats,
    values: Floats,
    terminateds: Flags,
    truncateds: Flags,
    gamma: float,
    gae_lambda: float,
) -> tuple[Floats, Floats]:
    """Computes generalized advantage estimates (GAE) and value targets, for T steps in B env slots.

    delta[t] = r[t] + gamma * V[t + 1] * (not terminated[t]) - V[t]
    A[t]     = delta[t] + gamma * lambda * (neither terminated[t] nor truncated[t]) * A[t + 1]

    A truncated step bootstraps from the value of its final observation, a terminated one from 0; neither propagates
    advantages across the episode's end.

    Args:
        rewards: Rewards, [T, B].
        values: Values of the observations before each step and after the last, [T + 1, B].
        terminateds: Whether the step terminated its episode, [T, B].
        truncateds: Whether the step truncated its episode, [T, B].
        gamma: Discount factor.
        gae_lambda: Weight between one-step (0) and Monte Carlo (1) estimates.

    Returns:
        Advantages and value targets (advantages + values), each [T, B].

    Source:
        Schulman et al., arXiv:1506.02438, eqs. 11-16.
    """
    discounts = np.where(terminateds, 0.0, gamma).astype(rewards.dtype)
    deltas = rewards + discounts * values[1:] - values[:-1]
    is_no_end = ~(terminateds | truncateds)
    advantages = reverse_scan(deltas, (gamma * gae_lambda * is_no_end).astype(rewards.dtype))
    return advantages, advantages + values[:-1]


def forward_discounted_sums(rewards: Floats, ends: Flags, valid: Flags, gamma: float, start: Floats) -> Floats:
    """Computes the discounted sum of the rewards so far in each episode, for T steps in B env slots.

    R[t] = r[t] + gamma * R[t - 1] * (not ended[t - 1]); reward scaling divides rewards by the standard deviation of R.
    The fragment may contain rows without a step: they repeat the previous row's sum, or 0 after an episode's end.

    Args:
        rewards: Rewards, [T, B]; 0 in rows without a step.
        ends: Whether the episode ended at the step, [T, B]; False in rows without a step.
        valid: Whether the row holds a step, [T, B].
        gamma: Discount factor.
        start: R[-1], the sum before the first row, [B]; 0 where an episode ended before it.

    Returns:
        The sums R, [T, B].

    Source:
        Engstrom et al., arXiv:2005.12729, section 3 ("reward scaling").
    """
    carries = np.where(valid, gamma, 1.0).astype(rewards.dtype)
    terms = rewards.copy()
    terms[0] += carries[0] * start
    carries[0] = 0
    carries[1:] *= ~ends[:-1]
    return reverse_scan(terms[::-1], np.ascontiguousarray(carries[::-1]))[::-1]


def discounted_returns(
    rewards: Doubles, starts: NDArray[np.int64], lengths: NDArray[np.int64], gamma: float
) -> Doubles:
    """Computes the discounted return from each step to its episode's end, without bootstrapping, for E episodes.

    G[t] = r[t] + gamma * G[t + 1], or r[t] for an episode's last step. All episodes are processed in parallel.

    Args:
        rewards: Rewards of the concatenated episodes, [N]; rows outside the episodes are returned unchanged.
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
