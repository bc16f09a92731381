"""Exploration by noise on parameters, on the acting side (NumPy)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.functional.schedules import value_at
from rlrun.policy.action_space import log_softmax
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]

FIRST_DEVIATION = 0.1
"""Deviation of the noise on parameters before anything was measured."""

ADAPTATION = 1.01
"""Factor by which it is adapted at a time (arXiv:1706.01905, section 3)."""


def factors(normal: Floats) -> Floats:
    """Returns sign(x) times the root of |x| for standard normal numbers (arXiv:1706.10295, section 3 (b))."""
    shaped: Floats = np.copysign(np.sqrt(np.abs(normal)), normal)
    return shaped


class Perturbation(ABC):
    """Noise on all parameters at once, which holds for several steps."""

    @abstractmethod
    def load(self, weights: Weights) -> None:
        """Is told the parameters that it varies, and which env step it is."""

    @abstractmethod
    def renew(self, draw: float, t: int, starts: NDArray[np.bool_]) -> None:
        """Draws the noise anew if it is time.

        Args:
            draw: A number from 0 to 1 that decides what is drawn.
            t: The step within the fragment.
            starts: In which columns an episode begins.
        """

    @abstractmethod
    def parameters(self) -> Floats:
        """Returns the varied parameters, [P]."""

    def adapt(self, values: Floats, perturbed_values: Floats) -> None:
        """Is told what the network and the varied one said of the actions in a fragment's observations, [N, A] each."""
        return

    def state(self) -> dict[str, Any]:
        """Returns what it remembers besides the parameters; nothing by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        return


def standard_normal(draw: float, size: int) -> Floats:
    """Returns the standard normal numbers [size] that a number from 0 to 1 stands for."""
    seed = int(draw * 2**32)
    return np.random.Generator(np.random.Philox(seed)).standard_normal(size, np.float32)


@dataclass(frozen=True)
class NoisyPart:
    """Where the parameters of one layer, and their deviations, lie in the flat vector.

    Attributes:
        weight: Offset of the weights [outputs, inputs].
        bias: Offset of the biases [outputs], None if there are none.
        weight_sigma: Offset of the weights' deviations.
        bias_sigma: Offset of the biases' deviations.
        inputs: Numbers that the layer takes.
        outputs: Numbers that it puts out.
    """

    weight: int
    bias: int | None
    weight_sigma: int
    bias_sigma: int
    inputs: int
    outputs: int


class LearnedNoise(Perturbation):
    """Noise as large as a noisy net has learned it, drawn for every fragment (Fortunato et al., arXiv:1706.10295)."""

    def __init__(self, parts: Sequence[NoisyPart]) -> None:
        """Takes the noisy layers."""
        self.parts = tuple(parts)
        self.num_noise = sum(part.inputs + part.outputs for part in parts)
        self._flat = np.zeros(0, np.float32)
        self._noise = np.zeros(self.num_noise, np.float32)

    def load(self, weights: Weights) -> None:
        """Takes means and deviations."""
        self._flat = weights.acting

    def renew(self, draw: float, t: int, starts: NDArray[np.bool_]) -> None:
        """Draws anew at the first step of a fragment."""
        if t == 0:
            self._noise = factors(standard_normal(draw, self.num_noise))

    def parameters(self) -> Floats:
        """Returns means plus deviations times noise; the deviations themselves as they are."""
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


class AdaptiveNoise(Perturbation):
    """Noise of one size on all parameters, drawn when an episode begins in the worker's first env.

    Its size is adapted after every fragment, towards the one at which the varied network's policy is as far from the
    network's own as an epsilon-greedy policy is from the greedy one. A policy here is the softmax of values, and
    distances are measured by the KL divergence.

    Source:
        Plappert et al., arXiv:1706.01905, section 3, eq. 2 and appendix C.1.
    """

    def __init__(self, num_actions: int) -> None:
        """Takes the number of actions."""
        self.num_actions = num_actions
        self.deviation = FIRST_DEVIATION
        self.bound = 0.0
        self._draw = -1.0
        self._flat = np.zeros(0, np.float32)

    def load(self, weights: Weights) -> None:
        """Takes the parameters, and how far from them to act."""
        self._flat = weights.acting
        epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)
        # The KL divergence between greedy and epsilon-greedy.
        self.bound = -math.log(1 - epsilon + epsilon / self.num_actions)

    def renew(self, draw: float, t: int, starts: NDArray[np.bool_]) -> None:
        """Draws anew when an episode begins in the first column."""
        if starts[0] or self._draw < 0:
            self._draw = draw

    def parameters(self) -> Floats:
        """Returns the parameters plus noise."""
        varied: Floats = self._flat + np.float32(self.deviation) * standard_normal(self._draw, len(self._flat))
        return varied

    def adapt(self, values: Floats, perturbed_values: Floats) -> None:
        """Makes the noise larger if it changed the policy too little, else smaller."""
        logp, perturbed_logp = log_softmax(values), log_softmax(perturbed_values)
        distance = float((np.exp(logp) * (logp - perturbed_logp)).sum(-1).mean())
        self.deviation *= ADAPTATION if distance <= self.bound else 1 / ADAPTATION

    def state(self) -> dict[str, Any]:
        """Returns the present noise and its size."""
        return {"draw": self._draw, "deviation": self.deviation}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._draw, self.deviation = float(state["draw"]), float(state["deviation"])
