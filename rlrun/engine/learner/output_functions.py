"""Evaluation of functions of a policy's network outputs, without gradients (torch)."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.learner.learner import EvaluatedFunction
from rlrun.engine.learner.update import Parameters, Precision, computed_in, target_views
from rlrun.engine.policy.policy import Policy


def evaluated(
    policy: Policy, parameters: Parameters, precision: Precision, function: EvaluatedFunction, batch: SampleBatch
) -> Any:
    """Evaluates a function of a policy's network outputs on a batch; returns a tree of tensors on the device.

    Args:
        policy: The policy.
        parameters: Parameters of the policy's networks.
        precision: Floating-point precision of the networks' forward and backward passes.
        function: Function from outputs and batch to a tree of tensors.
        batch: Columns [sequences, steps, ...], on the device.
    """
    with torch.no_grad(), computed_in(precision, parameters.flat.device):
        views = policy.parameters.views(parameters.flat)
        found = function(policy.outputs(views, batch, target_views(policy, parameters)), batch)
    return map_tree(lambda leaf: leaf.float() if leaf.dtype == torch.bfloat16 else leaf, found)


def require_picklable(function: EvaluatedFunction) -> None:
    """Validates that other processes can import a function, or the one inside a partial, by its module and name.

    Raises:
        ValueError: The function is a lambda, a method, or defined within another function.
    """
    function = function.func if isinstance(function, partial) else function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if getattr(sys.modules.get(str(module)), name, None) is not function:
        raise ValueError(f"{name or function!r} must be a module-level function")


def network_outputs(policy: Policy, flat: Tensor, precision: Precision, batch: SampleBatch) -> NDArray[np.float32]:
    """Computes the outputs [sequences, steps, K] of a policy's network, without gradients.

    Args:
        policy: The policy.
        flat: Parameters of the network, [P].
        precision: Floating-point precision of the forward pass.
        batch: The network's input columns [sequences, steps, ...] on the device of the parameters.
    """
    with torch.no_grad(), computed_in(precision, flat.device):
        outputs = policy.outputs(policy.parameters.views(flat), batch)
    found: NDArray[np.float32] = outputs.distribution.outputs.cpu().numpy()
    return found
