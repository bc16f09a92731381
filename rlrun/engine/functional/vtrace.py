"""V-trace: off-policy corrected value targets and advantages (torch)."""

from __future__ import annotations

import torch
from torch import Tensor


def reverse_scan(deltas: Tensor, decays: Tensor) -> Tensor:
    """Solves the recursion x[:, t] = deltas[:, t] + decays[:, t] * x[:, t + 1], with x = 0 after the last column.

    It uses recursive doubling, as `rlrun.engine.functional.returns` does, but no in-place operations.

    Args:
        deltas: Terms, [sequences, steps].
        decays: Factors, [sequences, steps].
    """
    sums, factors, stride = deltas, decays, 1
    length = deltas.shape[1]
    while stride < length:
        sums = torch.cat([sums[:, :-stride] + factors[:, :-stride] * sums[:, stride:], sums[:, -stride:]], 1)
        factors = torch.cat([factors[:, :-stride] * factors[:, stride:], torch.zeros_like(factors[:, -stride:])], 1)
        stride *= 2
    return sums


def vtrace(
    log_ratios: Tensor,
    values: Tensor,
    rewards: Tensor,
    terminateds: Tensor | None,
    valid: Tensor,
    *,
    gamma: float,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    lambda_: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Computes V-trace value targets and policy-gradient advantages for S sequences of L consecutive steps.

    rho[t]   = min(clip_rho, exp(log_ratios[t])),  c[t] = lambda * min(clip_c, exp(log_ratios[t]))
    delta[t] = rho[t] * (r[t] + gamma * V[t + 1] * (not terminated[t]) - V[t])
    v[t]     = V[t] + delta[t] + gamma * c[t] * (v[t + 1] - V[t + 1])
    A[t]     = min(1, exp(log_ratios[t])) * (r[t] + gamma * v[t + 1] * (not terminated[t]) - V[t])

    After an episode's end, and after a sequence's last step, an invalid entry holds the value of the next observation
    (the final one at an episode's end) and stops the propagation of corrections. Truncated steps bootstrap from this
    value, terminated steps from 0.

    Args:
        log_ratios: log pi(a|x) - log mu(a|x) of the target policy pi and the behavior policy mu, [S, L].
        values: Values of all observations, including invalid entries, [S, L].
        rewards: Rewards, [S, L].
        terminateds: Whether the step terminated its episode, [S, L]. None if returns do not end with episodes; the last
            step of every episode then bootstraps from the final observation.
        valid: Whether the entry holds a step, [S, L]; False in the last column.
        gamma: Discount factor.
        clip_rho: Clip threshold rho-bar, which determines the fixed point of the values.
        clip_c: Clip threshold c-bar, which determines the speed of convergence.
        lambda_: Additional factor of c; 1 in the paper's experiments.

    Returns:
        Value targets and advantages, each [S, L] and without gradient; advantages are 0 in invalid entries.

    Source:
        Espeholt et al., arXiv:1802.01561, eqs. 1-4 and remark 2.
    """
    with torch.no_grad():
        filled = valid.to(values.dtype)
        ratios = (log_ratios * filled).exp()
        rho, c = ratios.clamp(max=clip_rho) * filled, lambda_ * ratios.clamp(max=clip_c) * filled
        discounts = gamma if terminateds is None else gamma * (1 - terminateds.to(values.dtype))
        rewards = rewards.to(values.dtype) * filled
        next_values = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
        deltas = rho * (rewards + discounts * next_values - values)
        corrections = reverse_scan(deltas, discounts * c)
        targets = values + corrections
        next_targets = torch.cat([targets[:, 1:], torch.zeros_like(values[:, :1])], 1)
        advantages = ratios.clamp(max=1.0) * filled * (rewards + discounts * next_targets - values)
    return targets, advantages
