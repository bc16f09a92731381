"""Custom networks by import path: instantiation and validation."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from torch import nn

from rlrun.data.space_kinds import batched
from rlrun.data.tree import map_tree
from rlrun.nn.custom_modules import tried_module
from rlrun.nn.model_config import ModelConfig


def load_custom_network(
    model: ModelConfig, observation_space: gymnasium.Space[Any], num_outputs: int, seed: int
) -> tuple[nn.Module, Any]:
    """Instantiates the custom network `model.module`, and runs it on a batch of two observations.

    Args:
        model: Settings with the network's import path; also passed to the network's constructor.
        observation_space: The env's observation space.
        num_outputs: Number of outputs per observation.
        seed: Seed of the initial parameters.

    Returns:
        The network, and its return value for the two observations, which the caller validates.

    Raises:
        UsageError: The network is not an nn.Module, or its outputs depend on more than parameters and observations.
    """
    samples = batched(observation_space, observation_space.sample(), observation_space.sample())
    pair = map_tree(torch.as_tensor, samples)
    path = str(model.module)
    return tried_module(path, "network", lambda make: make(observation_space, num_outputs, model), pair, seed)
