"""Evaluation of functions of a policy's outputs where the learner is (torch)."""

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
    """Evaluates a function of the policy's outputs on a batch, without gradients; a tree of NumPy arrays.

    Args:
        policy: The policy.
        parameters: Parameters of its networks.
        precision: Precision of the networks' passes.
        function: The function.
        batch: Columns [S, L, ...], on the device.
    """
    with torch.no_grad(), computed_in(precision, parameters.flat.device):
        views = policy.parameters.views(parameters.flat)
        found = function(policy.outputs(views, batch, target_views(policy, parameters)), batch)
    return map_tree(lambda leaf: (leaf.float() if leaf.dtype == torch.bfloat16 else leaf).cpu().numpy().copy(), found)


def demand_named(function: EvaluatedFunction) -> None:
    """Refuses a function that other processes cannot import by its module and name.

    Raises:
        ValueError: It is a lambda, a method, or defined within another function.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if getattr(sys.modules.get(str(module)), name, None) is not function:
        raise ValueError(f"{name or function!r} must be a function of a module, found there by its name")
