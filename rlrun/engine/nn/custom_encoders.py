"""Custom encoders of parts of observations, by import path (torch)."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.data.space_kinds import batched
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.custom_modules import validated_module
from rlrun.engine.nn.encoders import UsersEncoder
from rlrun.engine.nn.observation_leaf import CustomEncoder
from rlrun.engine.settings.registry import load_object

WHAT = "encoder"


class CustomEncoderModule(UsersEncoder):
    """Module of a custom encoder, applied to raw env observations.

    Args:
        own: Settings of the encoder.
    """

    def __init__(self, own: CustomEncoder) -> None:
        super().__init__()
        self.width = own.width
        self.module: nn.Module = load_object(own.path, what=WHAT)(own.space)
        with torch.no_grad():
            self.module(_two_of(own.space))  # makes the parameters of lazy layers

    @override
    def forward(self, observations: Tensor) -> Tensor:
        """Encodes [N, *shape] as [N, width]."""
        features: Tensor = self.module(observations)
        return features


def tried_width(path: str, space: gymnasium.Space[Any], part: str) -> int:
    """Output width of a custom encoder, which is instantiated and validated on two observations.

    Args:
        path: Import path of the encoder's class, `package.module:Class`.
        space: Space of the encoded observation part, passed to the constructor.
        part: Key of the observation part, for messages.

    Returns:
        Number of output features, D.

    Raises:
        UsageError: The encoder does not exist, or is not an nn.Module. Or its outputs are not float32 features [N, D],
            or depend on more than parameters and observations.
    """
    _, returned = validated_module(path, WHAT, lambda make: make(space), _two_of(space), seed=0)
    found = f"{_form(returned)} of {returned.dtype}" if isinstance(returned, Tensor) else type(returned).__name__
    is_right = isinstance(returned, Tensor) and returned.ndim == 2 and len(returned) == 2 and returned.shape[1] > 0
    if not is_right or returned.dtype != torch.float32:
        raise UsageError(
            f"model.encoders: {part!r}: the encoder {path} must return features [N, D] of torch.float32; for N = 2 it "
            f"returned {found}"
        )
    return int(returned.shape[1])


def _form(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def _two_of(space: gymnasium.Space[Any]) -> Tensor:
    """Two fixed (seeded) observations of a space, [2, *shape]."""
    own = copy.deepcopy(space)
    own.seed(0)
    return torch.as_tensor(batched(own, own.sample(), own.sample()))
