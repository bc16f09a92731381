"""Separate clipping of two parts of a gradient, such as an actor's and its critic's, each by its own norm (torch)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.update import clipped
from rlrun.engine.policy.policy import Policy


def clipped_separately(policy: Policy, objective: Objective, gradient: Tensor) -> Tensor:
    """Returns an objective's gradient, [N], scaled so that neither part's norm exceeds the objective's threshold.

    Args:
        policy: The policy.
        objective: The objective, with the pattern for the names of one part's parameters.
        gradient: Gradient of the objective's parameters, [N].
    """
    bound = objective.max_grad_norm
    if bound is None:
        return gradient
    runs = policy.parameters.runs_of(objective.clipped_separately, *objective.range_in(policy.parameters))
    slices = torch.split(gradient, [size for size, _ in runs])
    norms = {}
    for part in {part for _, part in runs}:
        own = [each.norm() for each, (_, other) in zip(slices, runs, strict=True) if other == part]
        norms[part] = torch.stack(own).norm()
    return torch.cat([clipped(each, norms[part], bound) for each, (_, part) in zip(slices, runs, strict=True)])
