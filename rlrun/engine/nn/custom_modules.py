"""Custom torch modules by import path: creation, trial run, and rejection of stateful modules.

Workers, learners and checkpoints hold only parameters, so a module's outputs must be a function of parameters and
observations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from torch import nn

from rlrun.engine.data.space_kinds import batched
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.settings.registry import load_object


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
    return validated_module(path, "network", lambda make: make(observation_space, num_outputs, model), pair, seed)


def validated_module(path: str, what: str, make: Callable[[Any], Any], inputs: Any, seed: int) -> tuple[nn.Module, Any]:
    """Instantiates a custom module and validates two forward passes.

    Args:
        path: Import path of the class or factory, as `package.module:Name`.
        what: Role of the module in messages, such as "network".
        make: Function that calls the class or factory with suitable arguments.
        inputs: Batch of observations for the forward passes.
        seed: Seed of the weight initialization.

    Returns:
        Module and outputs; the caller validates the outputs.

    Raises:
        UsageError: The object is not an nn.Module, or the outputs depend on more than parameters and observations.
    """
    with torch.random.fork_rng(devices=[]):
        named = load_object(path, what=what)
        if isinstance(named, nn.Module) or not callable(named):
            raise UsageError(
                f"the {what} {path} is {type(named).__name__}; name a class, or a function, that makes one"
            )
        torch.manual_seed(seed)
        module = make(named)
        if not isinstance(module, nn.Module):
            raise UsageError(f"the {what} {path} makes {type(module).__name__}, not a torch.nn.Module")
        with torch.no_grad():
            returned = module(inputs)
            # Compared in the second pass, since the first one makes the parameters of lazy layers.
            buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
            state = torch.get_rng_state()
            module(inputs)
        draws = not torch.equal(state, torch.get_rng_state())
    changed = [name for name, buffer in module.named_buffers() if not torch.equal(buffer, buffers[name])]
    if changed:
        raise UsageError(
            f"the {what} {path} changes buffers as it runs ({', '.join(changed)}), as BatchNorm does. Parameters "
            "alone are sent to workers and saved: take LayerNorm or GroupNorm instead"
        )
    if draws:
        raise UsageError(
            f"the {what} {path} draws random numbers as it runs, as Dropout does. They would be others in workers, in "
            "the learner and in a resumed run: leave it out"
        )
    return module, returned
