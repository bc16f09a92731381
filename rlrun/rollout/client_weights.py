"""Policies as JSON, for clients of an external env that act by themselves."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.errors import UsageError
from rlrun.nn.numpy_network import NumpyNetwork
from rlrun.nn.observation_leaf import ObservationLeaf
from rlrun.policy.action_spaces.discrete import DiscreteActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.sampling import SampleActions, SampledActions
from rlrun.policy.observation_filter import EPSILON
from rlrun.policy.weights import Weights
from rlrun.rollout.worker_behavior import WorkerBehavior


def policy_in_json(behavior: WorkerBehavior, weights: Weights) -> dict[str, Any]:
    """Converts a policy to JSON: dense layers whose outputs are logits of discrete actions.

    Args:
        behavior: The behavior policy.
        weights: Its weights and filter statistics.

    Returns:
        The `layers`, each with `weight` [D, K], `bias` [K] and `activation`; the `mean` [D], `scale` [D] and `clip` of
        the observation filter; and the first action, `start`. Arrays are `{shape, float32}`, with little-endian bytes
        in base64.

    Raises:
        UsageError: The policy is of another kind.
    """
    network = _dense(behavior)
    assert isinstance(behavior, BehaviorPolicy)
    assert isinstance(behavior.action_space, DiscreteActions)
    assert network.plain_layers is not None
    leaf = network.spec.leaves
    mean, scale = np.zeros(leaf.width, np.float32), np.ones(leaf.width, np.float32)
    clip = None
    name = "" if behavior.filter is None else str(behavior.filter.names)
    if behavior.filter is not None and name in weights.filters:
        moments, clip = weights.filters[name], behavior.filter.clip
        mean, scale = moments.mean.astype(np.float32), (1 / np.sqrt(moments.variance + EPSILON)).astype(np.float32)

    def parameter(name: str) -> dict[str, Any]:
        slot = network.slots[name]
        flat = weights.acting[slot.offset : slot.offset + slot.size].reshape(slot.shape)
        return array_in_json(flat.T)

    layers = [
        {"weight": parameter(f"{layer}.weight"), "bias": parameter(f"{layer}.bias"), "activation": activation}
        for layer, activation in network.plain_layers[1]
    ]
    filtered = {"mean": array_in_json(mean), "scale": array_in_json(scale), "clip": clip}
    return {"layers": layers, **filtered, "start": behavior.action_space.start}


def array_in_json(array: NDArray[Any]) -> dict[str, Any]:
    """Converts an array to its shape and its numbers, as bytes in base64."""
    numbers = np.ascontiguousarray(array, "<f4").tobytes()
    return {"shape": list(array.shape), "float32": base64.b64encode(numbers).decode("ascii")}


def _dense(behavior: WorkerBehavior) -> NumpyNetwork:
    """Returns the network of a policy that draws discrete actions from the logits of dense layers.

    Raises:
        UsageError: The policy is of another kind.
    """
    if not isinstance(behavior, BehaviorPolicy) or type(behavior.exploration) is not SampleActions:
        raise UsageError("the policy does not draw its actions from its own distribution: ask for them by get_action")
    if not isinstance(behavior.action_space, DiscreteActions):
        raise UsageError("the policy's actions are not Discrete: ask for them by get_action")
    sampled = behavior.network
    network = sampled.network if isinstance(sampled, SampledActions) else None
    leaf = network.spec.leaves if isinstance(network, NumpyNetwork) else None
    is_vector = isinstance(leaf, ObservationLeaf) and leaf.kind == "vector" and not leaf.is_scaled
    if not isinstance(network, NumpyNetwork) or network.plain_layers is None or not is_vector or behavior.views:
        raise UsageError("the policy's network is more than dense layers over a vector: ask for actions by get_action")
    return network
