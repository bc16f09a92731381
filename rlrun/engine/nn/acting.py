"""Interface of networks that rollout workers act with: one forward pass per env step, in NumPy or torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

Heads = dict[str, Floats]


class ActingNetwork(Protocol):
    """Interface of networks that rollout workers act with; each call computes one env step for B env slots."""

    @property
    def state_size(self) -> int:
        """Size of the recurrent state per env slot; 0 without a recurrent core."""
        ...

    def load(self, flat: Floats) -> None:
        """Loads parameters from a flat vector, which must not be modified: it may be in Ray's object store."""
        ...

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Runs the forward pass of one env step.

        Args:
            inputs: `obs`, a tree of [B, ...], and further inputs [B, width].
            state: Recurrent state before the step, [B, state_size].
            episode_starts: Whether the step starts an episode, [B], which resets the recurrent state. None for no
                episode start.
            noise: Exploration noise for gSDE networks, [B, ...]; None for no noise.

        Returns:
            Outputs by head, [B, K], and the recurrent state after the step.
        """
        ...


class WrappedNetwork:
    """Base class of wrappers that change the outputs of an acting network.

    Parameters are loaded into the wrapped network.

    Args:
        network: Wrapped network.

    Attributes:
        network: Wrapped network.
        state_size: Size of the recurrent state per env slot.
    """

    def __init__(self, network: ActingNetwork) -> None:
        self.network = network
        self.state_size = network.state_size

    def load(self, flat: Floats) -> None:
        """Loads parameters from a flat vector into the wrapped network."""
        self.network.load(flat)


class TransformedOutputs(WrappedNetwork, ABC):
    """Wrapper that transforms the head `outputs` of an acting network, for example by masking actions.

    Args:
        network: Wrapped network.
    """

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Runs the forward pass of one env step, with the transformed head; see `ActingNetwork`."""
        heads, after = self.network(inputs, state, episode_starts, noise)
        return {**heads, "outputs": self.transformed(heads["outputs"], inputs)}, after

    @abstractmethod
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Computes the K transformed outputs of B env slots, [B, K], from the wrapped network's outputs and inputs."""
