"""Sampling of actions on a device: the torch counterpart of action spaces in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.multi_binary import MultiBinaryActions
from rlrun.engine.policy.action_spaces.multi_discrete import MultiDiscreteActions


class TensorActions(NamedTuple):
    """Functions that sample a policy's actions, and convert them to env actions, on a device.

    Attributes:
        noise: Fills a tensor [..., num_noise] with the random numbers that sampling needs.
        sample: Samples actions in the policy's own representation from network outputs [B, K] and noise.
        to_env: Converts the policy's own actions to env actions.
        dtype: Type of the policy's own actions.
    """

    noise: Callable[[Tensor, torch.Generator], Tensor]
    sample: Callable[[Tensor, Tensor], Tensor]
    to_env: Callable[[Tensor], Tensor]
    dtype: torch.dtype


def tensor_actions(space: Any, device: torch.device) -> TensorActions:
    """Returns the functions that sample and convert the actions of a policy's action space on a device.

    Raises:
        UsageError: The action space has no counterpart.
    """
    make = _KINDS.get(type(space))
    if make is None:
        raise UsageError(
            "envs of tensors support Discrete, MultiDiscrete, MultiBinary and Box actions, not the parts of a Dict or "
            "Tuple"
        )
    return make(space, device)


def _gumbel(noise: Tensor, generator: torch.Generator) -> Tensor:
    tiny = torch.finfo(noise.dtype).tiny
    return noise.exponential_(generator=generator).clamp_(min=tiny).log_().neg_()


def _normal(noise: Tensor, generator: torch.Generator) -> Tensor:
    return noise.normal_(generator=generator)


def _logistic(noise: Tensor, generator: torch.Generator) -> Tensor:
    eps = torch.finfo(noise.dtype).eps
    return noise.uniform_(eps, 1 - eps, generator=generator).logit_()


def _discrete(space: DiscreteActions, device: torch.device) -> TensorActions:
    def sample(outputs: Tensor, noise: Tensor) -> Tensor:
        return (outputs + noise).argmax(-1)

    def to_env(actions: Tensor) -> Tensor:
        return actions + space.start if space.start else actions

    return TensorActions(_gumbel, sample, to_env, torch.int64)


def _box(space: GaussianBoxActions, device: torch.device) -> TensorActions:
    scale = space.scale
    numbers = (scale.middle, scale.half_range, scale.low, scale.high)
    middle, half_range, low, high = (torch.as_tensor(each, dtype=torch.float32, device=device) for each in numbers)
    dtype = torch.float64 if scale.space_dtype == "float64" else torch.float32

    def sample(outputs: Tensor, noise: Tensor) -> Tensor:
        means, log_stds = outputs.chunk(2, -1)
        return torch.addcmul(means, log_stds.exp(), noise)

    def to_env(actions: Tensor) -> Tensor:
        scaled = torch.addcmul(middle, actions, half_range).clamp(low, high)
        return scaled.to(dtype).view(len(actions), *scale.space_shape)

    return TensorActions(_normal, sample, to_env, torch.float32)


def _multi_discrete(space: MultiDiscreteActions, device: torch.device) -> TensorActions:
    starts = torch.as_tensor(space.starts, device=device)
    sizes: Sequence[int] = space.sizes

    def sample(outputs: Tensor, noise: Tensor) -> Tensor:
        return torch.stack([part.argmax(-1) for part in torch.split(outputs + noise, list(sizes), -1)], -1)

    def to_env(actions: Tensor) -> Tensor:
        return (actions + starts).view(len(actions), *space.space_shape)

    return TensorActions(_gumbel, sample, to_env, torch.int64)


def _multi_binary(space: MultiBinaryActions, device: torch.device) -> TensorActions:
    def sample(outputs: Tensor, noise: Tensor) -> Tensor:
        return (outputs + noise > 0).to(torch.int8)

    def to_env(actions: Tensor) -> Tensor:
        return actions.view(len(actions), *space.space_shape)

    return TensorActions(_logistic, sample, to_env, torch.int8)


_KINDS: dict[type, Callable[[Any, torch.device], TensorActions]] = {
    DiscreteActions: _discrete,
    GaussianBoxActions: _box,
    MultiBinaryActions: _multi_binary,
    MultiDiscreteActions: _multi_discrete,
}
