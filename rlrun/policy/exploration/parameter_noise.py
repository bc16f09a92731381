"""Exploration by noise on parameters, on the acting side (NumPy)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.functional.schedules import value_at
from rlrun.functional.softmax import log_softmax
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]

FIRST_STD = 0.1
"""Standard deviation of the noise on parameters before anything was measured."""

ADAPTATION = 1.01
"""Factor by which it is adapted at a time (arXiv:1706.01905, section 3)."""

PARAMETER_DRAW = 2
"""Which number of a step's noise decides about noise on parameters."""


def factors(normal: Floats) -> Floats:
    """Returns sign(x) times the root of |x| for standard normal numbers (arXiv:1706.10295, section 3 (b))."""
    shaped: Floats = np.copysign(np.sqrt(np.abs(normal)), normal)
    return shaped


class ParameterNoise(ABC):
    """Noise on all parameters at once, which holds for several steps.

    Attributes:
        adapts: Whether its size follows from what it changes.
        schedules: Names of the scheduled settings that `load` reads.
    """

    adapts: bool = False
    schedules: tuple[str, ...] = ()

    @abstractmethod
    def load(self, weights: Weights) -> None:
        """Is told the parameters that it varies, and which env step it is."""

    @abstractmethod
    def renew(self, noise: Floats, t: int, episode_starts: NDArray[np.bool_]) -> bool:
        """Draws the noise anew if it is time.

        Args:
            noise: The step's noise from 0 to 1, [B, ...], of which one number decides what is drawn.
            t: The step within the fragment.
            episode_starts: In which env slots an episode begins.

        Returns:
            Whether the varied parameters may be others than at the step before.
        """

    @abstractmethod
    def parameters(self) -> Floats:
        """Returns the varied parameters, [A]."""

    def adapt(self, values: Floats, varied_values: Floats) -> None:
        """Is told the values of the actions in a fragment's observations before and after noise, [N, A] each."""
        return

    def state(self) -> dict[str, Any]:
        """Returns what it remembers besides the parameters; nothing by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        return


def standard_normal(draw: float, size: int) -> Floats:
    """Returns the standard normal numbers [size] that a number from 0 to 1 stands for."""
    seed = int(draw * 2**32)
    return np.random.Generator(np.random.Philox(seed)).standard_normal(size, np.float32)


@dataclass(frozen=True)
class NoisyPart:
    """Where the parameters of one layer, and their standard deviations, lie in the flat vector.

    Attributes:
        weight: Offset of the weights [outputs, inputs].
        bias: Offset of the biases [outputs], None if there are none.
        weight_sigma: Offset of the weights' standard deviations.
        bias_sigma: Offset of the biases' standard deviations.
        inputs: Numbers that the layer takes.
        outputs: Numbers that it puts out.
    """

    weight: int
    bias: int | None
    weight_sigma: int
    bias_sigma: int
    inputs: int
    outputs: int


class LearnedNoise(ParameterNoise):
    """Noise as large as a noisy net has learned it, drawn for every fragment (Fortunato et al., arXiv:1706.10295).

    Args:
        parts: The noisy layers.
    """

    def __init__(self, parts: Sequence[NoisyPart]) -> None:
        self.parts = tuple(parts)
        self.num_noise = sum(part.inputs + part.outputs for part in parts)
        self._flat = np.zeros(0, np.float32)
        self._noise = np.zeros(self.num_noise, np.float32)

    @override
    def load(self, weights: Weights) -> None:
        """Takes means and standard deviations."""
        self._flat = weights.acting

    @override
    def renew(self, noise: Floats, t: int, episode_starts: NDArray[np.bool_]) -> bool:
        """Draws anew at the first step of a fragment."""
        if t == 0:
            self._noise = factors(standard_normal(float(noise[0, PARAMETER_DRAW]), self.num_noise))
        return t == 0

    @override
    def parameters(self) -> Floats:
        """Returns means plus standard deviations times noise; the standard deviations themselves as they are."""
        drawn, flat, start = self._flat.copy(), self._flat, 0
        for part in self.parts:
            middle, end = start + part.inputs, start + part.inputs + part.outputs
            of_inputs, of_outputs = self._noise[start:middle], self._noise[middle:end]
            size = part.inputs * part.outputs
            sigmas = flat[part.weight_sigma : part.weight_sigma + size]
            drawn[part.weight : part.weight + size] += sigmas * np.outer(of_outputs, of_inputs).ravel()
            if part.bias is not None:
                sigmas = flat[part.bias_sigma : part.bias_sigma + part.outputs]
                drawn[part.bias : part.bias + part.outputs] += sigmas * of_outputs
            start = end
        return drawn


class AdaptiveNoise(ParameterNoise):
    """Noise of one size on all parameters, drawn when an episode begins in the worker's first env.

    Its size is adapted after every fragment, towards the one at which the varied network's policy is as far from the
    network's own as an epsilon-greedy policy is from the greedy one. A policy here is the softmax of values, and
    distances are measured by the KL divergence.

    Args:
        num_actions: A.

    Attributes:
        std: The noise's standard deviation.
        bound: The distance that it is adapted to.

    Source:
        Plappert et al., arXiv:1706.01905, section 3, eq. 2 and appendix C.1.
    """

    adapts = True
    schedules = ("epsilon",)

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions
        self.std = FIRST_STD
        self.bound = 0.0
        self._draw = -1.0
        self._flat = np.zeros(0, np.float32)

    @override
    def load(self, weights: Weights) -> None:
        """Takes the parameters, and how far from them to act."""
        self._flat = weights.acting
        epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)
        # The KL divergence between greedy and epsilon-greedy.
        self.bound = -math.log(1 - epsilon + epsilon / self.num_actions)

    @override
    def renew(self, noise: Floats, t: int, episode_starts: NDArray[np.bool_]) -> bool:
        """Draws anew when an episode begins in the first env slot."""
        if episode_starts[0] or self._draw < 0:
            self._draw = float(noise[0, PARAMETER_DRAW])
        return t == 0 or bool(episode_starts[0])

    @override
    def parameters(self) -> Floats:
        """Returns the parameters plus noise."""
        varied: Floats = self._flat + np.float32(self.std) * standard_normal(self._draw, len(self._flat))
        return varied

    @override
    def adapt(self, values: Floats, varied_values: Floats) -> None:
        """Makes the noise larger if it changed the policy too little, else smaller."""
        logp, varied_logp = log_softmax(values), log_softmax(varied_values)
        distance = float((np.exp(logp) * (logp - varied_logp)).sum(-1).mean())
        self.std *= ADAPTATION if distance <= self.bound else 1 / ADAPTATION

    @override
    def state(self) -> dict[str, Any]:
        """Returns the present noise and its size."""
        return {"draw": self._draw, "std": self.std}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        self._draw, self.std = float(state["draw"]), float(state["std"])
