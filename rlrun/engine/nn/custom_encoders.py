"""Users' encoders for entries of an observation, given by import path (torch).

Workers, learners and checkpoints exchange only parameters, so the outputs of a user's module must be a function of its
parameters and the observations.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.data.space_kinds import batched
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.encoders import UsersEncoder
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.observation_leaf import CustomEncoder
from rlrun.engine.settings.registry import load_object

WHAT = "encoder"


class CustomEncoderModule(UsersEncoder):
    """Torch module that applies a user's encoder to one entry of the raw env observation.

    Args:
        own: The user's encoder: import path, input space and output width.
    """

    def __init__(self, own: CustomEncoder) -> None:
        super().__init__()
        self.width = own.width
        self.module: nn.Module = load_object(own.path, what=WHAT)(own.space)
        with torch.no_grad():
            self.module(_two_of(own.space))  # creates the parameters of lazy layers

    @override
    def forward(self, observations: Tensor) -> Tensor:
        """Encodes N raw observations [N, *shape] as features [N, width]."""
        features: Tensor = self.module(observations)
        return features


def tried_width(path: str, space: gymnasium.Space[Any], part: str) -> int:
    """Instantiates a user's encoder, runs it on two observations, and returns its number of output features.

    Args:
        path: Import path of the encoder's class, `package.module:Class`.
        space: Space of the encoded observation entry, passed to the constructor.
        part: Key of the observation entry, for messages.

    Returns:
        Number of output features, D.

    Raises:
        UsageError: The encoder does not exist or is not an nn.Module, or its outputs are not float32 features [N, D] or
            depend on more than parameters and observations.
    """
    _, returned = validated_module(path, WHAT, lambda make: make(space), _two_of(space), seed=0)
    found = f"{_form(returned)} of {returned.dtype}" if isinstance(returned, Tensor) else type(returned).__name__
    is_right = isinstance(returned, Tensor) and returned.ndim == 2 and len(returned) == 2 and returned.shape[1] > 0
    if not is_right or returned.dtype != torch.float32:
        raise UsageError(
            f"model.encoders: {part!r}: encoder {path} must return features [N, D] of dtype torch.float32; "
            f"for N = 2 it returned {found}"
        )
    return int(returned.shape[1])


def _form(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def _two_of(space: gymnasium.Space[Any]) -> Tensor:
    """Returns two fixed (seeded) observations of a space, [2, *shape]."""
    own = copy.deepcopy(space)
    own.seed(0)
    return torch.as_tensor(batched(own, own.sample(), own.sample()))


def load_custom_network(
    model: ModelConfig, observation_space: gymnasium.Space[Any], num_outputs: int, seed: int
) -> tuple[nn.Module, Any]:
    """Instantiates a user's network, named in the setting `model.module`, and runs it on two observations.

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
    """Instantiates a user's module, and runs two forward passes to check that it has no hidden state.

    Args:
        path: Import path of the class or factory, as `package.module:Name`.
        what: Role of the module in messages, such as "network".
        make: Function that calls the class or factory with suitable arguments.
        inputs: Observations for the forward passes.
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
                f"the {what} {path} must be a class or a function that creates one, got {type(named).__name__}"
            )
        torch.manual_seed(seed)
        module = make(named)
        if not isinstance(module, nn.Module):
            raise UsageError(f"the {what} {path} must create a torch.nn.Module, not {type(module).__name__}")
        with torch.no_grad():
            returned = module(inputs)
            # The second pass is checked for changes, since the first one creates the parameters of lazy layers.
            buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
            state = torch.get_rng_state()
            module(inputs)
        draws = not torch.equal(state, torch.get_rng_state())
    changed = [name for name, buffer in module.named_buffers() if not torch.equal(buffer, buffers[name])]
    if changed:
        raise UsageError(
            f"the {what} {path} changes buffers in forward() ({', '.join(changed)}), as BatchNorm does. Only "
            "parameters are sent to workers and saved: use LayerNorm or GroupNorm instead"
        )
    if draws:
        raise UsageError(
            f"the {what} {path} draws random numbers in forward(), as Dropout does. They would differ between "
            "workers, the learner and a resumed run: leave it out"
        )
    return module, returned
