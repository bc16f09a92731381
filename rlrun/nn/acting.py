"""Interface of networks that act: one forward pass per env step, in NumPy or torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

Heads = dict[str, Floats]


class ActingNetwork(Protocol):
    """A network that computes one step [B] at a time."""

    @property
    def state_size(self) -> int:
        """Numbers of recurrent state; 0 without a core."""
        ...

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A], read-only: they may be memory of Ray's object store."""
        ...

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Computes the outputs of one step.

        Args:
            inputs: `obs`, a tree of [B, ...], and further inputs [B, width].
            state: Recurrent state before it, [B, state_size].
            episode_starts: Whether an episode begins with the step, [B]: its recurrent state is reset. None for no
                episode start.
            noise: Noise for a network that explores by itself (gSDE), [B, ...]; None for none.

        Returns:
            Outputs by head, [B, K], and the recurrent state after the step.
        """
        ...


class TransformedOutputs(ABC):
    """A network whose head `outputs` is transformed.

    Args:
        network: The network.
    """

    def __init__(self, network: ActingNetwork) -> None:
        self.network = network
        self.state_size = network.state_size

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A]."""
        self.network.load(flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Computes the outputs of one step, as `ActingNetwork` does."""
        heads, after = self.network(inputs, state, episode_starts, noise)
        return {**heads, "outputs": self.transformed(heads["outputs"], inputs)}, after

    @abstractmethod
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Transforms the network's outputs [B, K] for these inputs to [B, ...]."""
