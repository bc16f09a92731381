"""Custom networks by import path: made, and refused where workers or checkpoints would not have all of them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from rlrun.data.tree import map_tree
from rlrun.errors import UsageError
from rlrun.nn.model_config import ModelConfig
from rlrun.registry import load_object


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
    path = str(model.module)
    make = load_object(path, what="network")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make(observation_space, num_outputs, model)
        if not isinstance(module, nn.Module):
            raise UsageError(f"the network {path} makes {type(module).__name__}, not a torch.nn.Module")
        samples = observation_space.sample(), observation_space.sample()
        pair = map_tree(lambda *parts: torch.as_tensor(np.stack(parts)), *samples)
        with torch.no_grad():
            returned = module(pair)
            # Watched at the second time, since layers may come into being as they are first run.
            buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
            state = torch.get_rng_state()
            module(pair)
        draws = not torch.equal(state, torch.get_rng_state())
    changed = [name for name, buffer in module.named_buffers() if not torch.equal(buffer, buffers[name])]
    if changed:
        raise UsageError(
            f"the network {path} changes buffers as it runs ({', '.join(changed)}), as BatchNorm does. Parameters "
            "alone are sent to workers and saved: take LayerNorm or GroupNorm instead"
        )
    if draws:
        raise UsageError(
            f"the network {path} draws random numbers as it runs, as Dropout does. They would be others in workers, in "
            "the learner and in a resumed run: leave it out"
        )
    return module, returned
