"""Wrappers that hide some of what an env shows, so that a policy has to remember."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

FLICKERS = 0xF11C
"""Keeps the draws of what is hidden apart from those of an env with the same seed."""


class PartialView(gymnasium.ObservationWrapper[NDArray[Any], Any, NDArray[Any]]):  # type: ignore[misc]
    """Shows only some numbers of an observation that is a vector: ``{id: ..., kwargs: {numbers: [0, 2]}}``.

    CartPole-v1 with `numbers: [0, 2]` shows where the cart and the pole are and not how they move.

    Raises:
        ValueError: If its observations are no vectors, or have no such number.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], numbers: Sequence[int]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"PartialView shows some numbers of a vector; {space} is none")
        if not numbers or min(numbers) < 0 or max(numbers) >= space.shape[0]:
            raise ValueError(f"PartialView: an observation has the numbers 0 to {space.shape[0] - 1}, not {numbers}")
        self._numbers = np.array(numbers)
        self.observation_space = gymnasium.spaces.Box(
            space.low[self._numbers], space.high[self._numbers], dtype=space.dtype
        )

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Returns the numbers that are shown."""
        shown: NDArray[Any] = observation[self._numbers]
        return shown


class Flicker(gymnasium.Wrapper[NDArray[Any], Any, NDArray[Any], Any]):  # type: ignore[misc]
    """Shows zeros instead of an observation with some probability, at each step anew: ``{kwargs: {probability: 0.5}}``.

    What is hidden follows from the episode's seed, so that an episode can be repeated.

    Raises:
        ValueError: The probability is not between 0 and 1, or observations are no Boxes.

    Source:
        Hausknecht and Stone, arXiv:1507.06527, section 5.1.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], probability: float = 0.5) -> None:
        super().__init__(env)
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"Flicker: a probability lies between 0 and 1, not at {probability}")
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise ValueError(f"Flicker hides observations of a Box; {space} is none")
        self.observation_space = gymnasium.spaces.Box(
            np.minimum(space.low, 0), np.maximum(space.high, 0), dtype=space.dtype
        )
        self._probability = probability
        self._generator = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        if seed is not None:
            self._generator = np.random.default_rng([seed, FLICKERS])
        observation, info = self.env.reset(seed=seed, options=options)
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._shown(observation), reward, terminated, truncated, info

    def _shown(self, observation: NDArray[Any]) -> NDArray[Any]:
        return np.zeros_like(observation) if self._generator.random() < self._probability else observation
