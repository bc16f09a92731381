"""Conversion of policies to JSON, for external programs (clients) that step their own env and choose actions."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_spec import Head
from rlrun.engine.nn.numpy_network import NumpyNetwork, only_head
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.sampling import SampleActions, SampledActions
from rlrun.engine.policy.observation_filter import EPSILON
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.worker_behavior import WorkerBehavior

KnownActions = DiscreteActions | GaussianBoxActions
"""Action spaces in which clients can act."""


def policy_in_json(behavior: WorkerBehavior, weights: Weights) -> dict[str, Any]:
    """Converts a policy to JSON: its dense layers, and the conversion of their outputs to env actions.

    Args:
        behavior: The policy that acts.
        weights: The policy's weights and filter statistics.

    Returns:
        The `layers`, each with `weight` [inputs, outputs], `bias` [outputs] and `activation`; the observation filter's
        `mean` and `scale`, each [observation_size], and `clip`; for discrete actions `start`, the first action; for
        Box actions `box`, their bounds and scale. Arrays are `{shape, float32}`, with little-endian bytes in base64.

    Raises:
        UsageError: The policy cannot be represented in this form.
    """
    network, actions, head, names = _dense(behavior)
    assert isinstance(behavior, BehaviorPolicy)
    leaf = network.spec.leaves
    assert isinstance(leaf, ObservationLeaf)
    mean, scale = np.zeros(leaf.width, np.float32), np.ones(leaf.width, np.float32)
    clip = None
    name = str(behavior.filter.names)
    if name in weights.filters:
        moments, clip = weights.filters[name], behavior.filter.clip
        mean, scale = moments.mean.astype(np.float32), (1 / np.sqrt(moments.variance + EPSILON)).astype(np.float32)

    def parameter(name: str) -> NDArray[np.float32]:
        slot = network.slots[name]
        flat: NDArray[np.float32] = weights.acting[slot.offset : slot.offset + slot.size].reshape(slot.shape)
        return flat.T

    layers = [(parameter(f"{layer}.weight"), parameter(f"{layer}.bias"), activation) for layer, activation in names]
    if head.log_stds is not None:  # these outputs do not depend on the observation
        weight, bias, activation = layers.pop()
        constant = np.zeros((len(weight), head.log_stds.number), np.float32)
        both = np.concatenate([weight, constant], 1), np.concatenate([bias, parameter("log_stds")])
        layers.append((*both, activation))
    in_json = [
        {"weight": array_in_json(weight), "bias": array_in_json(bias), "activation": activation}
        for weight, bias, activation in layers
    ]
    filtered = {"mean": array_in_json(mean), "scale": array_in_json(scale), "clip": clip}
    return {"layers": in_json, **filtered, **_actions_in_json(actions)}


def _actions_in_json(actions: KnownActions) -> dict[str, Any]:
    """Returns the conversion of outputs to env actions: the first discrete action, or scale and bounds of a Box."""
    if isinstance(actions, DiscreteActions):
        return {"start": actions.start}
    scale = actions.scale
    arrays = {"low": scale.low, "high": scale.high, "middle": scale.middle, "half_range": scale.half_range}
    return {"box": {name: array_in_json(array.reshape(scale.space_shape)) for name, array in arrays.items()}}


def array_in_json(array: NDArray[Any]) -> dict[str, Any]:
    """Converts an array to JSON data: its shape, and its float32 values in base64."""
    numbers = np.ascontiguousarray(array, "<f4").tobytes()
    return {"shape": list(array.shape), "float32": base64.b64encode(numbers).decode("ascii")}


def _dense(behavior: WorkerBehavior) -> tuple[NumpyNetwork, KnownActions, Head, Sequence[tuple[str, str | None]]]:
    """Returns the dense network from whose outputs a policy samples actions, with its head and its layers.

    Raises:
        UsageError: The policy acts with a different kind of network.
    """
    if not isinstance(behavior, BehaviorPolicy) or type(behavior.exploration) is not SampleActions:
        raise UsageError(
            "the policy does not sample actions from its own distribution: request actions with get_action"
        )
    actions = behavior.action_space
    if not isinstance(actions, KnownActions):
        raise UsageError("the policy's actions are neither Discrete nor Box: request actions with get_action")
    sampled = behavior.network
    network = sampled.network if isinstance(sampled, SampledActions) else None
    leaf = network.spec.leaves if isinstance(network, NumpyNetwork) and behavior.memory.views is None else None
    is_vector = isinstance(leaf, ObservationLeaf) and leaf.kind == "vector" and not leaf.is_scaled
    found = only_head(network.spec) if isinstance(network, NumpyNetwork) and is_vector else None
    if not isinstance(network, NumpyNetwork) or found is None or not _is_dense(found[0]):
        raise UsageError("the policy's network is not a dense network on a vector: request actions with get_action")
    return network, actions, *found


def _is_dense(head: Head) -> bool:
    return head.is_plain or (head.log_stds is not None and not head.log_stds.state_dependent)
