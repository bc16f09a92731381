"""Base class of exploration strategies, which choose actions from network outputs (NumPy)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.registry import load_object

Heads = Mapping[str, Floats]
"""Outputs of a network's heads by name, [B, K]."""

RunNetwork = Callable[[], Heads]
"""Function that runs the network on a step's observations, and returns its heads' outputs by name, [B, K]."""

_LENGTH, _SLOTS = 2, 3


class NoiseSource(Protocol):
    """Interface of objects that draw the random numbers for a whole fragment, such as exploration strategies."""

    @property
    def network_noise(self) -> int:
        """Number of random numbers per step that the network consumes (for gSDE); they come first in the noise."""
        ...

    @property
    def network_noise_every(self) -> int | None:
        """Number of steps for which the network's random numbers are held; None to use them as drawn by `noise`."""
        ...

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Sets which env slots the worker steps: those from `first_slot` on, out of `num_slots` over all workers."""
        ...

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws the random numbers for all T steps of a fragment in B env slots, [T, B, ...]."""
        ...


class Exploration(ABC):
    """Exploration strategy: chooses actions from network outputs and noise; can be pickled for rollout workers.

    Attributes:
        network_noise: Number of random numbers per step that the network consumes; `noise` returns them first.
        network_noise_every: Number of steps for which the network's noise is held constant, even across fragments; None
            if the network gets new noise at each step.
        schedules: Names of the scheduled settings that `load` reads.
        samples_policy: Whether actions are sampled from the policy's own distribution, whose probabilities are learned.
    """

    samples_policy: bool = False
    network_noise: int = 0
    network_noise_every: int | None = None
    schedules: tuple[str, ...] = ()

    def around(self, network: ActingNetwork) -> ActingNetwork:
        """Returns the network to explore with: the given one, or a wrapper that adds outputs such as sampled actions.

        The given network already masks forbidden actions.
        """
        return network

    def load(self, weights: Weights) -> None:
        """Updates the amount of exploration from scheduled settings, such as epsilon."""
        return

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Sets which env slots the worker steps: those from `first_slot` on, out of `num_slots` over all workers."""
        return

    @abstractmethod
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws all random numbers for T steps in B env slots, [T, B, ...], which is faster than step by step."""

    @abstractmethod
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Chooses the actions of one step in B env slots, in the policy's own representation, [B, ...].

        Args:
            run: Function that runs the network on the step's observations; not called if actions do not depend on the
                network.
            noise: The step's noise without the network's noise, [B, ...].
            episode_starts: Mask of the env slots where an episode starts, [B].
            acts: Mask of the env slots that act, [B]; state of the other slots is kept. None for all.
            mask: Mask of the allowed actions, [B, num_actions]; None for all. Outputs of `run` are -1e9 for
                forbidden actions, so only strategies that ignore these outputs need the mask.
        """

    def network_draws(self, generator: np.random.Generator, slots: int) -> Floats | None:
        """Draws the random numbers that the network consumes in one step, [B, network_noise]; None if it consumes none.

        Used when no fragment is recorded, as in evaluation.
        """
        return None

    @abstractmethod
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Chooses exploratory actions when no fragment is recorded, as in evaluation; keeps no state between steps.

        Args:
            heads: Outputs of the network's heads by name, [B, K]; `outputs` are masked.
            generator: Random generator of the exploration.
            mask: Mask of the allowed actions, [B, num_actions]; None for all.
        """

    def state(self) -> dict[str, Any]:
        """Returns the state that the exploration keeps between steps, for a checkpoint; empty by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the state that `state()` returned."""
        return


def custom_exploration(path: str, actions: ActionSpace) -> Exploration:
    """Instantiates a user's exploration class, and validates the shape of the noise that it draws.

    Args:
        path: Import path of the exploration class, `package.module:Class`.
        actions: The policy's action space, passed to the constructor.

    Raises:
        UsageError: The path cannot be imported, the object is not an `Exploration`, or its noise has a shape
            other than [T, B, ...].
    """
    named = load_object(path, what="exploration")
    if isinstance(named, Exploration) or not callable(named):
        raise UsageError(
            f"exploration {path} must be a class or a function that creates one, got {type(named).__name__}"
        )
    exploration = named(actions)
    if not isinstance(exploration, Exploration):
        raise UsageError(f"exploration {path} must create a rlrun.plugin.Exploration, not {type(exploration).__name__}")
    noise = exploration.noise(np.random.default_rng(0), _LENGTH, _SLOTS)
    shape = getattr(noise, "shape", type(noise).__name__)
    if not isinstance(noise, np.ndarray) or noise.shape[:2] != (_LENGTH, _SLOTS):
        raise UsageError(
            f"exploration {path} must return noise of shape [T, B, ...] for T steps of B env slots; for T = "
            f"{_LENGTH} and B = {_SLOTS} its noise() returned {shape}"
        )
    return exploration
