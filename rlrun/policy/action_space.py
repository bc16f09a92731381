"""Action distributions on the acting side, by action space (NumPy).

A net describes a distribution over actions by one array of `outputs` [B, K]. From it and a block of noise an action
model makes the policy's own actions (what a batch stores and a loss is about) and, from those, what the env is given.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.errors import UsageError

if TYPE_CHECKING:
    from rlrun.functional.distributions import Distribution

Floats = NDArray[np.float32]
Actions = NDArray[Any]


class ActionModel(ABC):
    """A family of distributions over one action space; plain data, so it travels to workers.

    Attributes:
        num_outputs: K, numbers that describe one distribution.
        num_noise: Numbers of noise that one action takes.
        action_shape: Shape of one of the policy's own actions.
        action_dtype: Their type.
        free_log_stds: How many of the outputs are parameters of their own instead of functions of the observation.
    """

    num_outputs: int
    num_noise: int
    action_shape: tuple[int, ...]
    action_dtype: type[np.generic]
    free_log_stds: int = 0

    @abstractmethod
    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws noise for a block of actions, [*shape, num_noise]."""

    @abstractmethod
    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Draws the policy's own actions [B, *action_shape] from outputs [B, K] and noise [B, num_noise]."""

    @abstractmethod
    def mode(self, outputs: Floats) -> Actions:
        """Returns the likeliest of the policy's own actions, [B, *action_shape]."""

    @abstractmethod
    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-probability of the policy's own actions; leading dimensions as given."""

    @abstractmethod
    def to_env(self, actions: Actions) -> Actions:
        """Turns the policy's own actions into elements of the env's action space."""

    @abstractmethod
    def distribution(self, outputs: Any) -> Distribution:
        """Returns the same distribution in torch, for the learner."""


def log_softmax(logits: Floats) -> Floats:
    """Returns normalised log-probabilities over the last axis."""
    shifted: Floats = logits - logits.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def gumbel(generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draws standard Gumbel noise; arg max (logits + noise) is a sample of softmax(logits)."""
    exponential = generator.standard_exponential(shape, np.float32)
    drawn: Floats = -np.log(exponential.clip(np.finfo(np.float32).tiny))
    return drawn


class CategoricalActions(ActionModel):
    """Discrete(n, start): one choice."""

    action_shape = ()
    action_dtype = np.int64

    def __init__(self, space: gymnasium.spaces.Discrete) -> None:
        """Takes the number of choices and the first one's number from the space."""
        self.num_outputs = self.num_noise = int(space.n)
        self.start = int(space.start)
        self.space_dtype = space.dtype

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws Gumbel noise."""
        return gumbel(generator, (*shape, self.num_noise))

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Takes the largest of logits + Gumbel noise."""
        result: Actions = (outputs + noise).argmax(-1)
        return result

    def mode(self, outputs: Floats) -> Actions:
        """Takes the largest logit."""
        result: Actions = outputs.argmax(-1)
        return result

    def uniform(self, noise: Floats) -> Actions:
        """Takes any choice, each as likely as any other."""
        return self.mode(noise)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Picks the chosen log-probabilities."""
        return np.take_along_axis(log_softmax(outputs), actions[..., None], -1)[..., 0]

    def to_env(self, actions: Actions) -> Actions:
        """Counts from the space's start, in its type."""
        return (actions + self.start if self.start else actions).astype(self.space_dtype, copy=False)

    def distribution(self, outputs: Any) -> Distribution:
        """Returns the torch twin."""
        from rlrun.functional.distributions import Categorical

        return Categorical(outputs)


class MultiCategoricalActions(ActionModel):
    """MultiDiscrete: several independent choices."""

    action_dtype = np.int64

    def __init__(self, space: gymnasium.spaces.MultiDiscrete) -> None:
        """Takes the choices' sizes and first numbers from the space, in order, whatever its shape."""
        self.sizes = [int(n) for n in space.nvec.ravel()]
        self.starts = space.start.ravel().astype(np.int64)
        self.space_shape, self.space_dtype = space.shape, space.dtype
        self.num_outputs = self.num_noise = sum(self.sizes)
        self.action_shape = (len(self.sizes),)
        self.cuts = np.cumsum(self.sizes)[:-1]

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws Gumbel noise."""
        return gumbel(generator, (*shape, self.num_noise))

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Takes the largest of logits + Gumbel noise of each choice."""
        return self.mode(outputs + noise)

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

    def to_env(self, actions: Actions) -> Actions:
        """Counts from the space's starts, in its shape and type."""
        result: Actions = (actions + self.starts).astype(self.space_dtype).reshape(len(actions), *self.space_shape)
        return result

    def distribution(self, outputs: Any) -> Distribution:
        """Returns the torch twin."""
        from rlrun.functional.distributions import MultiCategorical

        return MultiCategorical(outputs, self.sizes)


class BernoulliActions(ActionModel):
    """MultiBinary: several independent yes/no choices."""

    action_dtype = np.int8

    def __init__(self, space: gymnasium.spaces.MultiBinary) -> None:
        """Takes the number of choices from the space, whatever its shape."""
        self.space_shape = space.shape
        self.num_outputs = self.num_noise = math.prod(space.shape)
        self.action_shape = (self.num_outputs,)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws logistic noise."""
        return generator.logistic(size=(*shape, self.num_noise)).astype(np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Says yes where logit + logistic noise is positive."""
        return (outputs + noise > 0).astype(np.int8)

    def mode(self, outputs: Floats) -> Actions:
        """Says yes where the logit is positive."""
        return (outputs > 0).astype(np.int8)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Adds the choices' log-probabilities up."""
        signed = np.where(actions > 0, outputs, -outputs)
        result: Floats = -np.logaddexp(0, -signed).sum(-1, dtype=np.float32)
        return result

    def to_env(self, actions: Actions) -> Actions:
        """Gives the choices the space's shape."""
        return actions.reshape(len(actions), *self.space_shape)

    def distribution(self, outputs: Any) -> Distribution:
        """Returns the torch twin."""
        from rlrun.functional.distributions import Bernoulli

        return Bernoulli(outputs)


class BoxScale:
    """Between a Box's own numbers and units of its bounds, in which -1 and 1 stand for the lower and the upper one.

    A coordinate without two finite bounds keeps its own numbers.

    Attributes:
        size: Number of coordinates.
        bounded: Which of them have two finite bounds, [size].
    """

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        """Takes bounds, shape and type from the space."""
        self.space_shape, self.space_dtype = space.shape, space.dtype
        self.low, self.high = space.low.ravel(), space.high.ravel()
        self.size = len(self.low)
        self.bounded = np.isfinite(self.low) & np.isfinite(self.high)
        low, high = np.where(self.bounded, self.low, -1.0), np.where(self.bounded, self.high, 1.0)
        # Halved first: the sum or difference of bounds may be beyond what their type holds.
        self.middle, self.half_range = (low / 2 + high / 2).astype(np.float32), (high / 2 - low / 2).astype(np.float32)

    def to_env(self, actions: Actions) -> Actions:
        """Turns actions [N, size] in units of the bounds into elements of the space, clipped, [N, *shape]."""
        scaled = np.clip(actions * self.half_range + self.middle, self.low, self.high)
        result: Actions = scaled.astype(self.space_dtype).reshape(len(actions), *self.space_shape)
        return result


def bounded_box(space: gymnasium.Space[Any], family: str) -> BoxScale:
    """Returns the scale of a space all of whose coordinates are bounded.

    Args:
        space: The action space.
        family: What wants it, for the message.

    Raises:
        UsageError: If it is no Box of floats with finite bounds.
    """
    if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UsageError(f"{family} acts in a Box of floats, not in {space}")
    scale = BoxScale(space)
    if not scale.bounded.all():
        raise UsageError(
            f"{family} needs finite bounds of every action, which are what -1 and 1 stand for; {space} has none for "
            f"{int((~scale.bounded).sum())} of {scale.size} numbers: have the env state bounds, or take an algorithm "
            "with unbounded actions, such as ppo"
        )
    return scale


class GaussianActions(ActionModel):
    """Box: independent normal variables, in units of the bounds where both are finite.

    The policy's own actions are unbounded; -1 and 1 stand for the lower and the upper bound of a bounded coordinate,
    and what lies beyond is clipped on its way to the env only, so that log-probabilities stay those of the sample.
    """

    action_dtype = np.float32

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        """Takes bounds, shape and type from the space."""
        self.scale = BoxScale(space)
        size = self.scale.size
        self.num_outputs, self.num_noise, self.free_log_stds = 2 * size, size, size
        self.action_shape = (size,)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws standard normal noise."""
        return generator.standard_normal((*shape, self.num_noise), np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Shifts and scales the noise."""
        return outputs[..., : self.num_noise] + np.exp(outputs[..., self.num_noise :]) * noise

    def mode(self, outputs: Floats) -> Actions:
        """Takes the means."""
        return outputs[..., : self.num_noise].copy()

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Adds the coordinates' log-densities up."""
        means, log_stds = outputs[..., : self.num_noise], outputs[..., self.num_noise :]
        scaled = (actions - means) * np.exp(-log_stds)
        result: Floats = (-0.5 * (scaled * scaled + math.log(2 * math.pi)) - log_stds).sum(-1, dtype=np.float32)
        return result

    def to_env(self, actions: Actions) -> Actions:
        """Goes from units of the bounds to the env's own, and clips."""
        return self.scale.to_env(actions)

    def distribution(self, outputs: Any) -> Distribution:
        """Returns the torch twin."""
        from rlrun.functional.distributions import DiagonalGaussian

        return DiagonalGaussian(outputs)


def action_model(space: gymnasium.Space[Any]) -> ActionModel:
    """Returns the model that acts in a space.

    Raises:
        UsageError: If no model does.
    """
    match space:
        case gymnasium.spaces.Discrete():
            return CategoricalActions(space)
        case gymnasium.spaces.MultiDiscrete():
            return MultiCategoricalActions(space)
        case gymnasium.spaces.MultiBinary():
            return BernoulliActions(space)
        case gymnasium.spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return GaussianActions(space)
    raise UsageError(f"no policy acts in {space}: action spaces are Discrete, MultiDiscrete, MultiBinary and float Box")
