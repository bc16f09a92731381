"""MultiDiscrete action space: one independent categorical distribution per choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.functional.softmax import log_softmax
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats
from rlrun.engine.policy.action_spaces.discrete import Categorical, gumbel

if TYPE_CHECKING:
    from torch import Tensor


class MultiDiscreteActions(ActionSpace):
    """MultiDiscrete actions flattened to D choices; network outputs concatenate the logits of all choices.

    Args:
        space: The env's action space.
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
        """Samples standard Gumbel noise, one number per logit, [*shape, num_logits]."""
        return gumbel(generator, (*shape, self.num_outputs))

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples each of an action's D choices: adds Gumbel noise to its logits and takes the argmax, [..., D]."""
        return self.mode(outputs + noise)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Returns the most probable category of each of an action's D choices, [..., D]."""
        return np.stack([part.argmax(-1) for part in np.split(outputs, self.cuts, -1)], -1)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-probabilities of actions with D choices, [..., D], summed over the choices of each action."""
        parts = np.split(outputs, self.cuts, -1)
        chosen = [
            np.take_along_axis(log_softmax(part), actions[..., i, None], -1)[..., 0] for i, part in enumerate(parts)
        ]
        result: Floats = np.sum(chosen, axis=0, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Converts choices numbered from 0 to env actions: adds the space's starts and restores its shape and dtype."""
        result: Actions = (actions + self.starts).astype(self.space_dtype).reshape(len(actions), *self.space_shape)
        return result

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Converts N env actions to D choices each, numbered from 0, [N, D]."""
        result: Actions = actions.reshape(len(actions), -1).astype(np.int64) - self.starts
        return result

    def distribution(self, outputs: Tensor) -> MultiCategorical:
        """Creates independent categorical distributions from network outputs, for losses in torch."""
        return MultiCategorical(outputs, self.sizes)


class MultiCategorical(Distribution):
    """Independent categorical distributions over the choices of a MultiDiscrete action (torch).

    Args:
        outputs: Concatenated logits of all categoricals, [..., sum(sizes)].
        sizes: Number of categories of each categorical.
    """

    def __init__(self, outputs: Tensor, sizes: Sequence[int]) -> None:
        import torch

        self.outputs = outputs
        self.sizes = tuple(sizes)
        self.parts = [Categorical(part) for part in torch.split(outputs, list(sizes), -1)]

    @override
    def like(self, outputs: Tensor) -> MultiCategorical:
        """Creates categorical distributions from other concatenated logits."""
        return MultiCategorical(outputs, self.sizes)

    @override
    def kl(self, other: MultiCategorical) -> Tensor:
        """Returns the KL divergence KL(self || other) for each action of the batch, summed over independent choices."""
        return _added([part.kl(theirs) for part, theirs in zip(self.parts, other.parts, strict=True)])

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-probability of each int64 action in the batch, [..., len(sizes)], summed over its choices."""
        return _added([part.log_prob(actions[..., i]) for i, part in enumerate(self.parts)])

    @override
    def entropy(self) -> Tensor:
        """Returns the entropy for each action of the batch, summed over the independent choices."""
        return _added([part.entropy() for part in self.parts])


def _added(parts: Sequence[Tensor]) -> Tensor:
    import torch

    return torch.stack(list(parts)).sum(0)
