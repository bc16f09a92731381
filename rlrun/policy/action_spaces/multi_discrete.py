"""MultiDiscrete: several independent choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.functional.softmax import log_softmax
from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats
from rlrun.policy.action_spaces.discrete import Categorical, gumbel

if TYPE_CHECKING:
    from torch import Tensor


class MultiDiscreteActions(ActionSpace):
    """Several independent choices, in a row whatever the space's shape; outputs are their logits side by side.

    Args:
        space: The env's space.
    """

    action_dtype = np.int64

    def __init__(self, space: gymnasium.spaces.MultiDiscrete) -> None:
        self.sizes = [int(n) for n in space.nvec.ravel()]
        self.starts = space.start.ravel().astype(np.int64)
        self.space_shape, self.space_dtype = space.shape, space.dtype
        self.num_outputs = self.num_noise = sum(self.sizes)
        self.action_shape = (len(self.sizes),)
        self.cuts = np.cumsum(self.sizes)[:-1]

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws Gumbel noise."""
        return gumbel(generator, (*shape, self.num_outputs))

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Takes the largest of logits + Gumbel noise of each choice."""
        return self.mode(outputs + noise)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Takes the largest logit of each choice."""
        return np.stack([part.argmax(-1) for part in np.split(outputs, self.cuts, -1)], -1)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Adds the chosen log-probabilities up."""
        parts = np.split(outputs, self.cuts, -1)
        chosen = [
            np.take_along_axis(log_softmax(part), actions[..., i, None], -1)[..., 0] for i, part in enumerate(parts)
        ]
        result: Floats = np.sum(chosen, axis=0, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Counts from the space's starts, in its shape and type."""
        result: Actions = (actions + self.starts).astype(self.space_dtype).reshape(len(actions), *self.space_shape)
        return result

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Counts from 0, in a row."""
        result: Actions = actions.reshape(len(actions), -1).astype(np.int64) - self.starts
        return result

    def distribution(self, outputs: Tensor) -> MultiCategorical:
        """Returns the distribution in torch, for the learner."""
        return MultiCategorical(outputs, self.sizes)


class MultiCategorical(Distribution):
    """Several independent choices (torch).

    Args:
        outputs: The logits of all choices side by side, [..., sum(sizes)].
        sizes: How many values each choice has.
    """

    def __init__(self, outputs: Tensor, sizes: Sequence[int]) -> None:
        import torch

        self.outputs = outputs
        self.sizes = tuple(sizes)
        self.parts = [Categorical(part) for part in torch.split(outputs, list(sizes), -1)]

    @override
    def like(self, outputs: Tensor) -> MultiCategorical:
        """Returns the same over other outputs."""
        return MultiCategorical(outputs, self.sizes)

    @override
    def kl(self, other: MultiCategorical) -> Tensor:
        """Returns the sum of the choices' divergences."""
        return _added([part.kl(theirs) for part, theirs in zip(self.parts, other.parts, strict=True)])

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the sum of log p over choices [..., len(sizes)] (int64)."""
        return _added([part.log_prob(actions[..., i]) for i, part in enumerate(self.parts)])

    @override
    def entropy(self) -> Tensor:
        """Returns the sum of the choices' entropies."""
        return _added([part.entropy() for part in self.parts])


def _added(parts: Sequence[Tensor]) -> Tensor:
    import torch

    return torch.stack(list(parts)).sum(0)
