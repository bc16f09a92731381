"""Functions of a policy's networks that are evaluated where the learner is (torch)."""

from __future__ import annotations

import sys
from typing import Any

import torch

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.learner.learner import EvaluatedFunction
from rlrun.learner.update import Parameters, Precision, computed_in, target_views
from rlrun.policy.policy import Policy


def evaluated(
    policy: Policy, parameters: Parameters, precision: Precision, function: EvaluatedFunction, batch: SampleBatch
) -> Any:
    """Returns what a function gives on a batch that is on the device, as a tree of NumPy arrays; no gradients.

    Args:
        policy: The policy whose outputs the function sees.
        parameters: Those of its networks.
        precision: What the networks' passes are computed in.
        function: The function.
        batch: Columns [S, L, ...].
    """
    with torch.no_grad(), computed_in(precision, parameters.flat.device):
        views = policy.parameters.views(parameters.flat)
        found = function(policy.outputs(views, batch, target_views(policy, parameters)), batch)
    return map_tree(lambda leaf: (leaf.float() if leaf.dtype == torch.bfloat16 else leaf).cpu().numpy().copy(), found)


def demand_named(function: EvaluatedFunction) -> None:
    """Refuses a function that is not found by its module and name, as another process has to find it.

    Raises:
        ValueError: It is a lambda, a method, or made within another function.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if getattr(sys.modules.get(str(module)), name, None) is not function:
        raise ValueError(f"{name or function!r} must be a function of a module, found there by its name")
