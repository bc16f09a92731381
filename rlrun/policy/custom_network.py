"""Custom networks by import path: made, and refused where workers or checkpoints would not have all of them."""

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
    """Makes the network that the model names, and tries it on a batch of two observations.

    Args:
        model: Names it, and is handed to it.
        observation_space: What the env shows.
        num_outputs: Numbers that it is to put out for an observation.
        seed: Seed of its first weights.

    Returns:
        The network, and what it returned for the two observations, which is the caller's to check.

    Raises:
        UsageError: It is not an nn.Module, or what it returns depends on more than parameters and observations.
    """
    samples = batched(observation_space, observation_space.sample(), observation_space.sample())
    pair = map_tree(torch.as_tensor, samples)
    path = str(model.module)
    return tried_module(path, "network", lambda make: make(observation_space, num_outputs, model), pair, seed)
