"""V-trace: value targets and advantages from experience of an older policy (torch)."""

from __future__ import annotations

import torch
from torch import Tensor


def reverse_scan(deltas: Tensor, decays: Tensor) -> Tensor:
    """Solves x[:, t] = deltas[:, t] + decays[:, t] * x[:, t + 1] with x = 0 behind the last column.

    Recursive doubling, as in `rlrun.functional.returns`, without writing in place.

    Args:
        deltas: Terms, [S, L].
        decays: Factors, [S, L].
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
    """Computes V-trace targets and policy-gradient advantages over rows of consecutive steps.

    rho[t]   = min(clip_rho, exp(log_ratios[t])),  c[t] = lambda * min(clip_c, exp(log_ratios[t]))
    delta[t] = rho[t] * (r[t] + gamma * V[t + 1] * (not terminated[t]) - V[t])
    v[t]     = V[t] + delta[t] + gamma * c[t] * (v[t + 1] - V[t + 1])
    A[t]     = min(1, exp(log_ratios[t])) * (r[t] + gamma * v[t + 1] * (not terminated[t]) - V[t])

    Behind an episode's end, and behind a row's last step, stands a cell that no step filled; its value is that of the
    final observation, and no correction passes it. So a step that was cut off bootstraps from it, a terminated one from
    0.

    Args:
        log_ratios: log pi(a|x) - log mu(a|x) of the policy that learns and the one that acted, [S, L].
        values: Values of the observations, in cells that no step filled as well, [S, L].
        rewards: Rewards, [S, L].
        terminateds: Whether the step ended its episode for good, [S, L]; None where returns do not end with an episode,
            and any last step bootstraps from the final observation.
        valid: Whether a step filled the cell, [S, L]; the last column's cells are empty.
        gamma: Discount.
        clip_rho: Bound of the ratios that say where the values end up.
        clip_c: Bound of the ratios that say how fast.
        lambda_: Further factor of c, 1 in the paper's experiments.

    Returns:
        Value targets and advantages, each [S, L] and without gradient; 0 advantage in cells that no step filled.

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
