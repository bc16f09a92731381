"""Parameter noise for exploration: noisy nets and adaptive parameter space noise (NumPy)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.functional.softmax import log_softmax
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.schedules import value_at

if TYPE_CHECKING:
    from rlrun.engine.nn.noisy_net import NoisyLayer
    from rlrun.engine.nn.parameter_slot import ParameterSlot

Floats = NDArray[np.float32]

FIRST_STD = 0.1
"""Initial standard deviation of adaptive parameter noise."""

ADAPTATION = 1.01
"""Factor by which each adaptation changes the standard deviation (arXiv:1706.01905, section 3)."""

PARAMETER_DRAW = 2
"""Index of a step's noise variable that seeds the parameter noise."""


def factors(normal: Floats) -> Floats:
    """Transforms standard normal x to sign(x) * sqrt(|x|), a factor of the factorized Gaussian noise of noisy nets.

    Source:
        Fortunato et al., arXiv:1706.10295, section 3 (b).
    """
    shaped: Floats = np.copysign(np.sqrt(np.abs(normal)), normal)
    return shaped


class ParameterNoise(ABC):
    """Exploration by perturbing the network's parameters; a perturbation lasts for several steps.

    Attributes:
        adapts: Whether the noise scale adapts to how much the noise changes the policy.
        schedules: Names of the scheduled settings that `load` reads.
    """

    adapts: bool = False
    schedules: tuple[str, ...] = ()

    @abstractmethod
    def load(self, weights: Weights) -> None:
        """Loads new network parameters, to which the noise is then added, and the scheduled settings."""

    @abstractmethod
    def renew(self, noise: Floats, t: int, episode_starts: NDArray[np.bool_]) -> bool:
        """Draws a new perturbation of the parameters if one is due at this step.

        Args:
            noise: The step's uniform noise in [0, 1), [B, ...], one entry of which seeds the parameter noise.
            t: Index of the step within the fragment.
            episode_starts: Mask of the env slots where an episode starts, [B].

        Returns:
            Whether the perturbed parameters may have changed since the previous step.
        """

    @abstractmethod
    def parameters(self) -> Floats:
        """Returns the flat vector of the network's parameters with the current noise added."""

    def adapt(self, values: Floats, varied_values: Floats) -> None:
        """Adapts the noise scale to how much the noise changed the action values of a fragment.

        The arguments are the values without and with noise, each [N, num_actions] for N steps.
        """
        return

    def state(self) -> dict[str, Any]:
        """Returns the state of the noise for a checkpoint, without the network's parameters; empty by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the state of the noise from the result of `state()`."""
        return


def standard_normal(draw: float, size: int) -> Floats:
    """Samples a vector of standard normal noise from a generator that is seeded with a number in [0, 1)."""
    seed = int(draw * 2**32)
    return np.random.Generator(np.random.Philox(seed)).standard_normal(size, np.float32)


@dataclass(frozen=True)
class NoisyPart:
    """Offsets of a noisy layer's means and standard deviations in the flat vector of all parameters.

    Attributes:
        weight: Offset of the weights [outputs, inputs].
        bias: Offset of the biases [outputs], None if there are none.
        weight_sigma: Offset of the weights' standard deviations.
        bias_sigma: Offset of the biases' standard deviations.
        inputs: Number of input features.
        outputs: Number of output features.
    """

    weight: int
    bias: int | None
    weight_sigma: int
    bias_sigma: int
    inputs: int
    outputs: int


class LearnedNoise(ParameterNoise):
    """Parameter noise with a learned scale, for noisy networks (NoisyNet); redrawn for every fragment of T steps.

    Args:
        parts: The noisy layers.

    Source:
        Fortunato et al., arXiv:1706.10295.
    """

    def __init__(self, parts: Sequence[NoisyPart]) -> None:
        self.parts = tuple(parts)
        self.num_noise = sum(part.inputs + part.outputs for part in parts)
        self._flat = np.zeros(0, np.float32)
        self._noise = np.zeros(self.num_noise, np.float32)

    @override
    def load(self, weights: Weights) -> None:
        """Loads the learned means and standard deviations of the noisy layers."""
        self._flat = weights.acting

    @override
    def renew(self, noise: Floats, t: int, episode_starts: NDArray[np.bool_]) -> bool:
        """Draws new noise at the first step of a fragment."""
        if t == 0:
            self._noise = factors(standard_normal(float(noise[0, PARAMETER_DRAW]), self.num_noise))
        return t == 0

    @override
    def parameters(self) -> Floats:
        """Returns the flat parameter vector, in which noisy layers' weights are mean + standard deviation * noise."""
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
    """Gaussian parameter noise with an adaptive scale, redrawn when an episode starts in the worker's first env slot.

    After every fragment, the standard deviation adapts so that the noise changes the policy by a target amount. The
    change is the KL divergence between two softmax policies, computed from the action values of the unperturbed and the
    perturbed network. The target is the KL divergence between the greedy and the epsilon-greedy policy.

    Args:
        num_actions: Number of actions.

    Attributes:
        std: Standard deviation of the noise.
        bound: Target KL divergence of the adaptation.

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
        """Loads new network parameters, and sets the target KL divergence from the scheduled epsilon."""
        self._flat = weights.acting
        epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)
        # The bound is the KL divergence between the greedy and the epsilon-greedy policy.
        self.bound = -math.log(1 - epsilon + epsilon / self.num_actions)

    @override
    def renew(self, noise: Floats, t: int, episode_starts: NDArray[np.bool_]) -> bool:
        """Draws new noise when an episode starts in the worker's first env slot."""
        if episode_starts[0] or self._draw < 0:
            self._draw = float(noise[0, PARAMETER_DRAW])
        return t == 0 or bool(episode_starts[0])

    @override
    def parameters(self) -> Floats:
        """Returns the flat vector of the network's parameters plus isotropic Gaussian noise."""
        varied: Floats = self._flat + np.float32(self.std) * standard_normal(self._draw, len(self._flat))
        return varied

    @override
    def adapt(self, values: Floats, varied_values: Floats) -> None:
        """Increases the noise's standard deviation if the policy changed less than the target, else decreases it."""
        logp, varied_logp = log_softmax(values), log_softmax(varied_values)
        distance = float((np.exp(logp) * (logp - varied_logp)).sum(-1).mean())
        self.std *= ADAPTATION if distance <= self.bound else 1 / ADAPTATION

    @override
    def state(self) -> dict[str, Any]:
        """Returns the seed of the current noise and its standard deviation, for a checkpoint."""
        return {"draw": self._draw, "std": self.std}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the noise's seed and standard deviation from the result of `state()`."""
        self._draw, self.std = float(state["draw"]), float(state["std"])


def learned_noise(layers: Sequence[NoisyLayer], slots: Mapping[str, ParameterSlot]) -> LearnedNoise:
    """Creates the parameter noise with which a noisy network (NoisyNet) explores.

    Args:
        layers: The noisy layers.
        slots: Slices of the network's parameters in the flat vector, by name.
    """
    return LearnedNoise(
        [
            NoisyPart(
                weight=slots[layer.weight].offset,
                bias=slots[layer.bias].offset if layer.bias else None,
                weight_sigma=slots[layer.weight_sigma].offset,
                bias_sigma=slots[layer.bias_sigma].offset if layer.bias else 0,
                inputs=layer.inputs,
                outputs=layer.outputs,
            )
            for layer in layers
        ]
    )
