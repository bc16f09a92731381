"""What acts: a network that takes one step at a time, in whichever library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

Heads = dict[str, Floats]


class ActingNetwork(Protocol):
    """A network that takes one step at a time."""

    @property
    def state_size(self) -> int:
        """Numbers of recurrent state; 0 without a core."""
        ...

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A], which nobody writes to; they may lie in the object store."""
        ...

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Takes one step.

        Args:
            inputs: `obs`, a tree of [B, ...], and further inputs [B, width].
            state: Recurrent state before it, [B, state_size].
            episode_starts: In which rows an episode begins with it, [B]: no state from before reaches it. None for
                none.
            noise: The network's own noise, [B, ...]; None for none.

        Returns:
            What every head puts out, [B, K], and the recurrent state behind the step.
        """
        ...


class TransformedOutputs(ABC):
    """A network whose head `outputs` is put out in another form.

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
        """Takes one step."""
        heads, after = self.network(inputs, state, episode_starts, noise)
        return {**heads, "outputs": self.transformed(heads["outputs"], inputs)}, after

    @abstractmethod
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Returns the network's outputs [B, K] for inputs in the other form, [B, ...]."""
