"""Action distributions of DreamerV3, categorical or normal: for acting (NumPy) and imagination (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from rlrun.algorithms.dreamer.world_model_spec import UNIFORM_SHARE
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions, bounded_box
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions

if TYPE_CHECKING:
    from torch import Tensor

STD_BOUNDS = (0.1, 1.0)
"""Bounds of the standard deviation of continuous actions, for actions scaled to [-1, 1]."""

STD_SHIFT = 2.0
"""Offset of the standard deviation before the sigmoid, for an initial value near the upper bound."""


class Choice:
    """Categorical action distribution mixed with 1% uniform probability; actions are one-hot in the world model.

    Args:
        space: Action space of the env.

    Attributes:
        space: Categorical action space for acting; its outputs are log-probabilities.
        width: Size of an action as an input of the world model.
        num_outputs: Size of the actor's last layer.
        num_noise: Size of the noise of an imagined action.
    """

    num_noise = 1

    def __init__(self, space: gymnasium.spaces.Discrete) -> None:
        self.space = DiscreteActions(space)
        self.width = self.num_outputs = self.space.num_outputs

    def outputs(self, raw: Floats) -> Floats:
        """Log-probabilities [envs, num_actions] from the actor's raw outputs, mixed with the uniform distribution."""
        powers = np.exp(raw - raw.max(-1, keepdims=True))
        mixed: Floats = powers / powers.sum(-1, keepdims=True) * (1 - UNIFORM_SHARE) + UNIFORM_SHARE / self.width
        return np.log(mixed)

    def seen(self, actions: Actions) -> Floats:
        """One-hot encoding [envs, num_actions] of Discrete actions [envs], as inputs of the world model."""
        one_hot: Floats = (actions[:, None] == np.arange(self.width)).astype(np.float32)
        return one_hot

    def draw_noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples uniform noise, from which imagined actions of a given batch shape are drawn, [*shape, 1]."""
        return generator.random((*shape, 1), np.float32)

    def outputs_of(self, raw: Tensor) -> Tensor:
        """Log-probabilities [..., num_actions] from the actor's raw outputs (torch)."""
        return (raw.softmax(-1) * (1 - UNIFORM_SHARE) + UNIFORM_SHARE / self.width).log()

    def recorded(self, actions: Tensor) -> Tensor:
        """One-hot encoding [..., num_actions] of recorded Discrete actions [...], for the world model (torch)."""
        import torch

        # torch's one_hot reads its argument on the host, which a trace cannot record.
        return (actions.unsqueeze(-1) == torch.arange(self.width, device=actions.device)).float()

    def imagined(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """Samples imagined one-hot actions [..., num_actions] from the actor's outputs and uniform noise (torch)."""
        from rlrun.algorithms.dreamer.world_model import drawn

        return drawn(outputs.exp(), noise.squeeze(-1))

    def imagined_seen(self, actions: Tensor) -> Tensor:
        """Returns imagined one-hot actions unchanged, since they already are inputs of the world model (torch)."""
        return actions

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of imagined actions, one per action distribution (torch)."""
        return (outputs * actions).sum(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Entropy of the action distributions in nats, [...] (torch)."""
        return -(outputs.exp() * outputs).sum(-1)


class BoundedNormal:
    """Normally distributed actions with tanh means, scaled to [-1, 1]; clipped when input to the world model.

    Args:
        space: Action space of the env.

    Attributes:
        space: Gaussian action space for acting; its outputs are means and log standard deviations.
        width: Size of an action as input of the world model.
        num_outputs: Size of the actor's last layer.
        num_noise: Size of the noise of an imagined action.
    """

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        self.space = GaussianBoxActions(space)
        self.width = self.num_noise = self.space.size
        self.num_outputs = 2 * self.width

    def outputs(self, raw: Floats) -> Floats:
        """Means and log standard deviations, concatenated [envs, 2 * action_size], from the actor's raw outputs."""
        low, high = STD_BOUNDS
        stds = low + (high - low) / (1 + np.exp(-(raw[..., self.width :] + STD_SHIFT)))
        return np.concatenate([np.tanh(raw[..., : self.width]), np.log(stds)], -1)

    def seen(self, actions: Actions) -> Floats:
        """Clips actions [envs, action_size] to [-1, 1], as inputs of the world model."""
        return actions.clip(-1, 1)

    def draw_noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples standard normal noise for imagined actions, [*shape, action_size]."""
        return generator.standard_normal((*shape, self.width), np.float32)

    def outputs_of(self, raw: Tensor) -> Tensor:
        """Means and log standard deviations, concatenated [..., 2 * D], from the actor's raw outputs (torch)."""
        import torch

        low, high = STD_BOUNDS
        means, deviations = raw.chunk(2, -1)
        return torch.cat([means.tanh(), (low + (high - low) * (deviations + STD_SHIFT).sigmoid()).log()], -1)

    def recorded(self, actions: Tensor) -> Tensor:
        """Clips recorded actions [..., action_size] to [-1, 1], as inputs of the world model (torch)."""
        return actions.clamp(-1, 1)

    def imagined(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """Samples imagined actions [..., action_size] from the actor's outputs and standard normal noise (torch)."""
        means, log_stds = outputs.chunk(2, -1)
        return means + log_stds.exp() * noise

    def imagined_seen(self, actions: Tensor) -> Tensor:
        """Clips imagined actions to [-1, 1], as inputs of the world model (torch)."""
        return actions.clamp(-1, 1)

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Log-densities of imagined actions, one per action distribution (torch)."""
        return self.space.distribution(outputs).log_prob(actions)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Entropy of the action distributions in nats, [...] (torch)."""
        return self.space.distribution(outputs).entropy()


DreamerActions = Choice | BoundedNormal


def dreamer_actions(space: gymnasium.Space[Any]) -> DreamerActions:
    """Creates the action distributions of DreamerV3 for an action space.

    Raises:
        UsageError: If the space is neither Discrete nor a Box of floats with finite bounds.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return Choice(space)
    if isinstance(space, gymnasium.spaces.Box):
        bounded_box(space, "dreamer")
        return BoundedNormal(space)
    raise UsageError(f"dreamer needs a Discrete or bounded Box action space, but this env has {space}")
