"""Base class of explorations: from a network's outputs to actions (NumPy)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.policy.action_masks import ActionMask
from rlrun.policy.action_spaces.action_space import Actions, Floats
from rlrun.policy.weights import Weights

Heads = Mapping[str, Floats]
"""Outputs of a network's heads, [B, K], by name."""

RunNetwork = Callable[[], Heads]
"""Runs the network on a step's observations and returns what its heads put out, [B, K], by name."""


class Exploration(ABC):
    """Makes actions of what the network puts out; plain data, so that it travels to workers.

    Attributes:
        network_noise: How many of a step's noise numbers are the network's own, the first ones.
        network_noise_every: Steps for which the network's own stay the same, across fragments; None if `noise` alone
            says when they change.
        schedules: Names of the scheduled settings that `load` reads.
    """

    network_noise: int = 0
    network_noise_every: int | None = None
    schedules: tuple[str, ...] = ()

    def load(self, weights: Weights) -> None:
        """Takes over how much to explore, from the scheduled settings."""
        return

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Is told in which env slots it acts: from `first_slot` on, of the `num_slots` of all workers together."""
        return

    @abstractmethod
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws the noise of a whole fragment, [T, B, ...]: ten times cheaper than step by step."""

    @abstractmethod
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Returns the policy's own actions of a step, [B, ...].

        Args:
            run: Runs the network on the step's observations; not called where actions do not depend on it.
            noise: The step's noise after the network's own, [B, ...].
            episode_starts: In which env slots an episode begins, [B].
            acts: Which env slots act, [B]: nothing that is remembered of the others moves. None for all.
            mask: Which actions are allowed, [B, A]; of the others `run` returns -1e9. None for all. Who does not go by
                what `run` returns looks at it.
        """

    def network_draws(self, generator: np.random.Generator, slots: int) -> Floats | None:
        """Draws the network's own noise of a step outside of training, [B, network_noise]; None for none."""
        return None

    @abstractmethod
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Returns explored actions [B, ...] outside of training, where nothing is remembered.

        Args:
            heads: What the network's heads put out, [B, K], by name; `outputs` are masked already.
            generator: What is drawn from.
            mask: Which actions are allowed, [B, A]; None for all.
        """

    def state(self) -> dict[str, Any]:
        """State that lasts from step to step; none by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        return
